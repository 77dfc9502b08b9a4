# The tables of a line program's header, as the kernel that runs many programs at once shares them.

from libc.stdlib cimport realloc

cdef enum:  # what became of the tables, or of their program
    GOOD = 0
    ODD = 2
    NO_MEMORY = 3

cdef struct Tables:  # of one header, by place as line_files.py has them
    unsigned long long* directories
    unsigned long long* names  # of files
    unsigned long long* parents  # the directory of each, as the header counts them
    Py_ssize_t directory_count
    Py_ssize_t file_count
    unsigned long long* block  # that holds all of them, and its room
    Py_ssize_t room

cdef struct Counts:
    Py_ssize_t directories
    Py_ssize_t files
    unsigned long long at  # where it stopped

cdef inline void* grown(void* block, Py_ssize_t* room, Py_ssize_t need, int size) noexcept nogil:
    """The block with room for `need` entries of `size` bytes; NULL when there is no memory: then it is as it was."""
    cdef Py_ssize_t more = need + need // 2 + 64
    cdef void* found = realloc(block, more * size)
    if found != NULL:
        room[0] = more
    return found


cdef int read_tables(
    Tables* tables, const unsigned char* data, unsigned long long at, unsigned long long end, unsigned long long version,
    bint wide, bint big,
) noexcept nogil
cdef int read_old(
    const unsigned char* data, unsigned long long at, unsigned long long end, unsigned long long* directories,
    unsigned long long* files, unsigned long long* parents, int fill, Counts* found,
) noexcept nogil
cdef int read_entries(
    const unsigned char* data, unsigned long long at, unsigned long long end, const unsigned long long* formats,
    Py_ssize_t format_count, int wide, int big, unsigned long long* names, unsigned long long* parents,
    Py_ssize_t room, Counts* found,
) noexcept nogil
