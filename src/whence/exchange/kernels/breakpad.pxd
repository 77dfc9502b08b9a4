# The columns that breakpad.py reads records into, and the bytes that it writes them to.

from whence.exchange.kernels.groups cimport FunctionGroups
from whence.kernels.columns cimport Column
from whence.kernels.vector cimport Bytes

cdef enum:
    MOST_NESTING = 255  # of inlined calls

cdef class BreakpadRecords(FunctionGroups):
    # A function's `name` is an offset, that of an inlined call the number of its origin. Files are numbers of FILE, or
    # NO_NUMBER for code without a row.
    cdef readonly Column file_number
    cdef readonly Column file_name  # an offset
    cdef readonly Column origin_number
    cdef readonly Column origin_name
    cdef readonly Column public_vaddr
    cdef readonly Column public_name
    cdef unsigned char* _data
    cdef Py_ssize_t _size
    cdef Py_ssize_t _position
    cdef Py_ssize_t _end  # of the line
    cdef unsigned long long _function
    cdef unsigned long long _function_end
    cdef unsigned long long _row_end  # the end of the last row
    cdef bint _has_function
    cdef bint _has_rows
    cdef unsigned int _level

    cdef bint _word(self, const char* word, Py_ssize_t size) noexcept nogil
    cdef bint _hex(self, unsigned long long* value) noexcept nogil
    cdef bint _decimal(self, unsigned long long* value) noexcept nogil
    cdef Py_ssize_t _text(self) noexcept nogil
    cdef void _end_function(self) noexcept nogil
    cdef bint _func(self) noexcept nogil
    cdef bint _inline(self) noexcept nogil
    cdef bint _row(self) noexcept nogil
    cdef bint _public(self) noexcept nogil
    cdef bint _numbered(self, Column numbers, Column names) noexcept nogil
    cdef bint _record(self) noexcept nogil

cdef class BreakpadText:
    cdef Bytes _out

    cdef bint _reserve(self, Py_ssize_t more) noexcept nogil
