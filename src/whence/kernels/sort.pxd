# The order of keys: a stable merge sort over the ascending runs that are there already, written once.
#
# Producers deliver nearly sorted columns (units one after the other, children after their parents), so the number of
# runs is small and most passes are not needed.

cdef inline Py_ssize_t run_end(
    const unsigned long long* keys, const unsigned int* order, Py_ssize_t start, Py_ssize_t count
) noexcept nogil:
    """Where the ascending run that begins at `start` ends."""
    cdef Py_ssize_t index = start + 1
    while index < count and keys[order[index - 1]] <= keys[order[index]]:
        index += 1
    return index


cdef inline void merge_runs(
    const unsigned long long* keys, const unsigned int* source, unsigned int* target, Py_ssize_t start,
    Py_ssize_t middle, Py_ssize_t stop,
) noexcept nogil:
    """Two neighbouring runs of source into one of target; of equal keys the left one comes first."""
    cdef Py_ssize_t left = start
    cdef Py_ssize_t right = middle
    cdef Py_ssize_t index
    for index in range(start, stop):
        if right >= stop or (left < middle and keys[source[left]] <= keys[source[right]]):
            target[index] = source[left]
            left += 1
        else:
            target[index] = source[right]
            right += 1


cdef inline bint sort_indexes(
    const unsigned long long* keys, unsigned int* source, unsigned int* target, Py_ssize_t count
) noexcept nogil:
    """Put `count` indexes of keys into ascending order of key. False: they are in `source` afterwards; True: in
    `target`. Equal keys keep the order that they have in `source`."""
    cdef Py_ssize_t index, middle, stop
    cdef unsigned int* other
    cdef bint swapped = False
    while run_end(keys, source, 0, count) < count:
        index = 0
        while index < count:
            middle = run_end(keys, source, index, count)
            stop = middle
            if middle < count:
                stop = run_end(keys, source, middle, count)
            merge_runs(keys, source, target, index, middle, stop)
            index = stop
        other = source
        source = target
        target = other
        swapped = not swapped
    return swapped
