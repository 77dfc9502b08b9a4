# The tables of a line program's header, as the kernel that runs many programs at once shares them.

cdef struct Counts:
    Py_ssize_t directories
    Py_ssize_t files
    unsigned long long at  # where it stopped

cdef int read_old(
    const unsigned char* data, unsigned long long at, unsigned long long end, unsigned long long* directories,
    unsigned long long* files, unsigned long long* parents, int fill, Counts* found,
) noexcept nogil
cdef int read_entries(
    const unsigned char* data, unsigned long long at, unsigned long long end, const unsigned long long* formats,
    Py_ssize_t format_count, int wide, int big, unsigned long long* names, unsigned long long* parents,
    Py_ssize_t room, Counts* found,
) noexcept nogil
