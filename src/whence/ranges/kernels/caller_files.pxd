# The state of caller_files.py: per depth, the range that is open and its last piece.

cdef class Pieces:
    cdef Py_ssize_t _count
    cdef Py_ssize_t _room  # pieces that the columns below have; what comes beyond is counted alone
    cdef Py_ssize_t _ranges  # there is room for
    cdef Py_ssize_t _open
    cdef unsigned long long* _u64s  # the one block of those below, by depth
    cdef unsigned long long* _until  # where the range ends
    cdef unsigned long long* _position  # its bytes before this one are dealt out
    cdef unsigned long long* _shown  # the file that its last piece shows
    cdef unsigned long long* _begun  # where its last piece begins
    cdef unsigned long long* _piece  # its last piece
    cdef unsigned int* _range  # the range
    cdef unsigned int* _pick  # columns of the pieces
    cdef unsigned long long* _vaddr
    cdef unsigned long long* _length
    cdef unsigned long long* _file
    cdef unsigned char* _owned

    cdef void _begin(self, Py_ssize_t level, unsigned long long vaddr) noexcept nogil
    cdef void _show(self, Py_ssize_t level, unsigned long long until, unsigned long long file, bint own) noexcept nogil
