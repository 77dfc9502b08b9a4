from libc.stdint cimport int64_t

from whence.columns.kernels.arrow cimport ArrowArray, ArrowSchema, Shared
from whence.kernels.columns cimport Column

cpdef enum:  # status of an element
    IS_ADDRESS = 0
    IS_NULL = 1
    IS_INVALID = 2  # a number of more than 64 bits, or another text

cdef class RecordBatch:
    cdef Shared* shared
    cdef readonly tuple names

    cdef Py_ssize_t position(self, str name) except -1
    cdef object _read_names(self)


cdef class Elements:
    cdef readonly Column address  # u64
    cdef readonly Column status  # u8: IS_ADDRESS, IS_NULL or IS_INVALID
    cdef readonly Column starts  # u32: elements [starts[i], starts[i + 1]) are of row i; empty without lists
    cdef readonly Py_ssize_t rows
    cdef readonly bint lists
    cdef bint decimal  # texts without 0x are decimal

    cdef object _take(self, RecordBatch batch, str name)
    cdef object _read(self, ArrowSchema* schema, ArrowArray* array, int64_t first, int64_t count, str name)


cdef inline bint is_valid(const ArrowArray* array, int64_t row) noexcept nogil:
    """Return True if a row (counted from the buffers' start) is not null."""
    cdef const unsigned char* bits
    if array.n_buffers < 1 or array.buffers[0] == NULL or array.null_count == 0:
        return True
    bits = <const unsigned char*>array.buffers[0]
    return bits[row >> 3] >> (row & 7) & 1
