# A heap of numbers, the greatest first, in memory of the caller.

cdef inline void push(unsigned int* heap, Py_ssize_t* size, unsigned int number) noexcept nogil:
    cdef Py_ssize_t index = size[0], parent
    size[0] += 1
    while index > 0:
        parent = (index - 1) >> 1
        if heap[parent] >= number:
            break
        heap[index] = heap[parent]
        index = parent
    heap[index] = number


cdef inline void pop(unsigned int* heap, Py_ssize_t* size) noexcept nogil:
    """Remove the greatest number of a heap that is not empty."""
    cdef Py_ssize_t index = 0, child
    cdef unsigned int last
    size[0] -= 1
    last = heap[size[0]]
    while True:
        child = 2 * index + 1
        if child >= size[0]:
            break
        if child + 1 < size[0] and heap[child + 1] > heap[child]:
            child += 1
        if heap[child] <= last:
            break
        heap[index] = heap[child]
        index = child
    heap[index] = last
