# Declarations of kallsyms.py.

from whence.kernels.columns cimport Column

cdef class FunctionLines:
    cdef readonly Column start
    cdef readonly Column name_offset
    cdef readonly Column first_symbols

    cdef bint _put(self, Column starts, Column names) noexcept

cdef bint is_blank(unsigned char c) noexcept nogil
cdef bint is_space(unsigned char c) noexcept nogil
cdef Py_ssize_t function_name(
    const unsigned char* text, Py_ssize_t pos, Py_ssize_t size, unsigned long long* address,
) noexcept nogil
cdef bint is_first_symbol(const unsigned char* name, Py_ssize_t size) noexcept nogil
