from libc.stdint cimport int64_t

from whence.columns.kernels.arrow cimport ArrowArray, ArrowSchema, Shared
from whence.kernels.columns cimport Column

cpdef enum:  # what an element is
    ASKED = 0  # an address
    NOTHING = 1  # null
    NO_ADDRESS = 2  # what is no address: beyond 64 bits, or other text

cdef class RecordBatch:
    cdef Shared* shared
    cdef readonly tuple names

    cdef Py_ssize_t position(self, str name) except -1
    cdef object _read_names(self)


cdef class Elements:
    cdef readonly Column address  # u64
    cdef readonly Column status  # u8: ASKED, NOTHING or NO_ADDRESS
    cdef readonly Column starts  # u32: elements [starts[i], starts[i + 1]) are of row i; empty where each row is one
    cdef readonly Py_ssize_t rows
    cdef readonly bint lists
    cdef bint decimal  # texts without 0x are decimal

    cdef object _take(self, RecordBatch batch, str name)
    cdef object _read(self, ArrowSchema* schema, ArrowArray* array, int64_t first, int64_t count, str name)


cdef inline bint is_valid(const ArrowArray* array, int64_t row) noexcept nogil:
    """Whether a row (counted from the buffers' start) is not null."""
    cdef const unsigned char* bits
    if array.n_buffers < 1 or array.buffers[0] == NULL or array.null_count == 0:
        return True
    bits = <const unsigned char*>array.buffers[0]
    return bits[row >> 3] >> (row & 7) & 1
