# Files named by the places of their parts, each numbered once: what becomes a path later.

cdef struct Files:
    unsigned long long* rows  # compilation directory (a name reference), directory, name (places as in line_files.py)
    Py_ssize_t count
    Py_ssize_t room
    unsigned int* slot  # a hash table: 1 + number
    unsigned long long mask

cdef unsigned int file_number(
    Files* files, unsigned long long comp_dir, unsigned long long directory, unsigned long long name
) noexcept nogil
cdef void clear_files(Files* files) noexcept nogil
cdef void forget_files(Files* files) noexcept nogil
