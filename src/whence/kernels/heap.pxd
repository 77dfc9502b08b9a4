# A heap of numbers, the greatest first: whoever owns it has room for all that are ever in it.

cdef inline void push(unsigned int* heap, Py_ssize_t* size, unsigned int number) noexcept nogil:
    cdef Py_ssize_t at = size[0], up
    size[0] += 1
    while at > 0:
        up = (at - 1) >> 1
        if heap[up] >= number:
            break
        heap[at] = heap[up]
        at = up
    heap[at] = number


cdef inline void pop(unsigned int* heap, Py_ssize_t* size) noexcept nogil:
    """Take the greatest out; there is one."""
    cdef Py_ssize_t at = 0, down
    cdef unsigned int last
    size[0] -= 1
    last = heap[size[0]]
    while True:
        down = 2 * at + 1
        if down >= size[0]:
            break
        if down + 1 < size[0] and heap[down + 1] > heap[down]:
            down += 1
        if heap[down] <= last:
            break
        heap[at] = heap[down]
        at = down
    heap[at] = last
