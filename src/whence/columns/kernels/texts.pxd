from whence.kernels.hashtable cimport HashIndex
from whence.kernels.vector cimport Bytes, Vector

cdef struct TextRow:
    unsigned long long hash
    unsigned long long start  # in the bytes of all texts
    unsigned int size


cdef class TextSet:
    cdef HashIndex index
    cdef Vector entry  # of TextRow
    cdef Bytes text
    cdef unsigned long long seed

    cdef TextRow* row_at(self, Py_ssize_t number) noexcept nogil
    cdef Py_ssize_t number_of(self, const unsigned char* text, unsigned long long size, unsigned int kind) noexcept nogil
