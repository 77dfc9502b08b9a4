# What entries of kernels check before they begin: that the columns they were given belong together.

cdef inline int belong(bint holds) except -1:
    """Raise ValueError unless what the columns must have in common holds."""
    if not holds:
        raise ValueError("columns that do not belong together")
    return 0


cdef inline bint all_below(const unsigned int[::1] numbers, Py_ssize_t count, unsigned long long limit) noexcept nogil:
    """Whether the first `count` numbers are below the limit."""
    cdef Py_ssize_t at
    for at in range(count):
        if numbers[at] >= limit:
            return False
    return True


cdef inline bint are_ends(const unsigned int[::1] ends, Py_ssize_t count) noexcept nogil:
    """Whether the numbers ascend to no more than `count`."""
    cdef Py_ssize_t at
    cdef unsigned int before = 0
    for at in range(ends.shape[0]):
        if ends[at] < before or ends[at] > count:
            return False
        before = ends[at]
    return True


cdef inline bint are_inside(
    const unsigned long long[::1] starts, const unsigned long long[::1] ends, Py_ssize_t size
) noexcept nogil:
    """Whether each [start, end) lies inside of `size` bytes."""
    cdef Py_ssize_t at
    if starts.shape[0] != ends.shape[0]:
        return False
    for at in range(starts.shape[0]):
        if starts[at] > <unsigned long long>size or ends[at] > <unsigned long long>size:
            return False
    return True
