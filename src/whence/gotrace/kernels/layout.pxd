cdef class EventLayout:
    cdef unsigned char counts[256]
    cdef unsigned char flags[256]
    cdef unsigned char slots[512]
    cdef unsigned char pieces[26304]  # TYPES * PIECES * PIECE
    cdef unsigned char sizes[822]  # TYPES * PIECES

cdef int name_slot(const unsigned char* name, Py_ssize_t size) noexcept nogil
