from cpython.buffer cimport Py_buffer

from whence.kernels.vector cimport Vector

cdef class Column:
    cdef Vector vector
    cdef readonly str typecode
    cdef Py_ssize_t item
    cdef Py_ssize_t exports
    cdef readonly bint kept  # grown and written by one kernel only

    cdef bint takes(self, Py_ssize_t item) noexcept
    cdef bint reserve(self, Py_ssize_t more) noexcept nogil
    cdef inline bint push_u64(self, unsigned long long value) noexcept nogil
    cdef inline bint push_u32(self, unsigned int value) noexcept nogil


cdef inline unsigned long long* u64s(Column column) noexcept nogil:
    return <unsigned long long*>column.vector.items


cdef inline unsigned int* u32s(Column column) noexcept nogil:
    return <unsigned int*>column.vector.items


cdef inline unsigned char* u8s(Column column) noexcept nogil:
    return <unsigned char*>column.vector.items


# Appending to a Column whose memory was reserved: `column.reserve(1)` once for a record, then these for its numbers.

cdef inline void append_u64(Column column, unsigned long long value) noexcept nogil:
    u64s(column)[column.vector.count] = value
    column.vector.count += 1


cdef inline void append_u32(Column column, unsigned int value) noexcept nogil:
    u32s(column)[column.vector.count] = value
    column.vector.count += 1


cdef inline void append_u8(Column column, unsigned char value) noexcept nogil:
    u8s(column)[column.vector.count] = value
    column.vector.count += 1
