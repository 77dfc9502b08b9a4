# Checks of the columns that a kernel is given.

cdef inline int belong(bint holds) except -1:
    """Raise ValueError if a condition on columns does not hold."""
    if not holds:
        raise ValueError("columns do not match")
    return 0


cdef inline bint all_below(const unsigned int[::1] numbers, Py_ssize_t count, unsigned long long limit) noexcept nogil:
    """Return True if the first `count` numbers are below the limit."""
    cdef Py_ssize_t index
    for index in range(count):
        if numbers[index] >= limit:
            return False
    return True


cdef inline bint are_ends(const unsigned int[::1] ends, Py_ssize_t count) noexcept nogil:
    """Return True if the numbers ascend to at most `count`."""
    cdef Py_ssize_t index
    cdef unsigned int previous = 0
    for index in range(ends.shape[0]):
        if ends[index] < previous or ends[index] > count:
            return False
        previous = ends[index]
    return True


cdef inline bint are_inside(
    const unsigned long long[::1] starts, const unsigned long long[::1] ends, Py_ssize_t size
) noexcept nogil:
    """Return True if each [start, end) is inside of `size` bytes."""
    cdef Py_ssize_t index
    if starts.shape[0] != ends.shape[0]:
        return False
    for index in range(starts.shape[0]):
        if starts[index] > <unsigned long long>size or ends[index] > <unsigned long long>size:
            return False
    return True
