# Declarations of columns.py.

cdef bint none_later(const unsigned int[::1] pick) noexcept nogil
cdef unsigned long long first_above(
    const unsigned int[::1] offset, unsigned long long low, unsigned long long high, unsigned long long limit
) noexcept nogil
