# The memory of a dump as segments, in order of address.

from whence.kernels.vector cimport Vector

cdef struct MemorySegment:
    unsigned long long start
    unsigned long long end
    const unsigned char* bytes

cdef bint add_segment(Vector* segments, list owners, unsigned long long start, data) except False
cdef const MemorySegment* find_segment(const Vector* segments, unsigned long long address) noexcept nogil
