# The state of caller_files.py: per depth, the range that is open and its last piece.

cdef class FileSplitter:
    cdef Py_ssize_t _count
    cdef Py_ssize_t _capacity  # of the columns below; further pieces are only counted
    cdef Py_ssize_t _ranges  # that fit into the columns by depth
    cdef Py_ssize_t _open
    cdef unsigned long long* _u64s  # the block of the columns below, by depth
    cdef unsigned long long* _until  # where the range ends
    cdef unsigned long long* _position  # bytes before this one are in a piece
    cdef unsigned long long* _shown  # the file of its last piece
    cdef unsigned long long* _piece_start  # start of its last piece
    cdef unsigned long long* _piece  # its last piece
    cdef unsigned int* _range  # the range
    cdef unsigned int* _pick  # columns of the pieces
    cdef unsigned long long* _vaddr
    cdef unsigned long long* _length
    cdef unsigned long long* _file
    cdef unsigned char* _owned

    cdef void _begin(self, Py_ssize_t level, unsigned long long vaddr) noexcept nogil
    cdef void _show(self, Py_ssize_t level, unsigned long long until, unsigned long long file, bint own) noexcept nogil
