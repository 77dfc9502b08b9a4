from libc.stdint cimport int64_t

from whence.columns.kernels.arrow cimport ArrowArray, ArrowSchema
from whence.columns.kernels.texts cimport TextSet
from whence.kernels.hashtable cimport HashTable
from whence.kernels.vector cimport Bytes, U32s

cdef class ColumnPages:
    cdef readonly TextSet texts  # the dictionary of a column of texts
    cdef U32s value  # that of a column of numbers
    cdef HashTable table  # of `value`
    cdef unsigned long long seed
    cdef U32s repetition  # of the page that is made, as all below: levels of its entries
    cdef U32s definition
    cdef bint dense  # no value is null: they begin at row `first` of the column's buffers
    cdef int64_t first
    cdef U32s place  # of each value in the column's buffers, unless `dense`
    cdef Py_ssize_t values
    cdef U32s number  # of each value in the dictionary
    cdef U32s known  # of each text of the batch's dictionary in ours
    cdef Bytes out

    cdef bytes _written(self)
    cdef bint _read_rows(self, ArrowArray* array, int64_t first, int64_t rows) noexcept nogil
    cdef bint _read_lists(self, ArrowArray* array, int64_t first, int64_t rows, Py_ssize_t field) noexcept nogil
    cdef void _add_level(self, unsigned int repetition, unsigned int definition) noexcept nogil
    cdef int64_t _row(self, Py_ssize_t value) noexcept nogil
    cdef bint _push_levels(self, unsigned int* levels, Py_ssize_t count, int width) noexcept nogil
    cdef int _push_values(self, ArrowSchema* schema, ArrowArray* array) except -1
    cdef bint _number_texts(self, ArrowArray* array, bint wide) noexcept nogil
    cdef bint _number_values(self, unsigned int* values) noexcept nogil
    cdef void _read_truths(self, unsigned char* bits) noexcept nogil
