# Declarations of filter.py.

cdef bint is_running(unsigned long long status) noexcept nogil
cdef bint among(unsigned long long value, const unsigned long long[::1] values) noexcept nogil
