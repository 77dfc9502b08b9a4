# Declarations of holding.py.

cdef Py_ssize_t first_from(
    const unsigned long long* vaddrs, Py_ssize_t count, unsigned long long vaddr, Py_ssize_t near
) noexcept nogil
