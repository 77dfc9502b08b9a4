# A stable sort of keys: a merge sort of the ascending runs, or a radix sort for keys without order.
#
# The columns of producers are nearly sorted (units one after the other, children after their parents), so there are few
# runs and few merge passes. Addresses of queries have no order: a pass for each digit that differs costs a fraction of
# the merge passes.

cdef enum:
    DIGIT_BITS = 11
    DIGITS = 1 << DIGIT_BITS
    FEWEST_BY_DIGITS = 1 << 10  # keys; below, the counters of digits cost more than they save

cdef inline Py_ssize_t run_end(
    const unsigned long long* keys, const unsigned int* order, Py_ssize_t start, Py_ssize_t count
) noexcept nogil:
    """Return the end of the ascending run that begins at `start`."""
    cdef Py_ssize_t index = start + 1
    while index < count and keys[order[index - 1]] <= keys[order[index]]:
        index += 1
    return index


cdef inline void merge_runs(
    const unsigned long long* keys, const unsigned int* source, unsigned int* target, Py_ssize_t start,
    Py_ssize_t middle, Py_ssize_t stop,
) noexcept nogil:
    """Merge two neighboring runs of source into target; of equal keys the left one is first."""
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


cdef inline bint sort_by_digits(
    const unsigned long long* keys, unsigned int* source, unsigned int* target, Py_ssize_t count,
    unsigned long long spread,
) noexcept nogil:
    """Sort like `sort_indexes`, in linear time. `spread` has at least the bits in which keys differ."""
    cdef unsigned int[DIGITS] offsets
    cdef Py_ssize_t index
    cdef int shift = 0
    cdef unsigned int digit, offset, size
    cdef unsigned int* other
    cdef bint swapped = False
    while shift < 64 and spread >> shift:
        if (spread >> shift) & (DIGITS - 1):
            for index in range(DIGITS):
                offsets[index] = 0
            for index in range(count):
                offsets[(keys[source[index]] >> shift) & (DIGITS - 1)] += 1
            offset = 0
            for index in range(DIGITS):
                size = offsets[index]
                offsets[index] = offset
                offset += size
            for index in range(count):
                digit = <unsigned int> ((keys[source[index]] >> shift) & (DIGITS - 1))
                target[offsets[digit]] = source[index]
                offsets[digit] += 1
            other = source
            source = target
            target = other
            swapped = not swapped
        shift += DIGIT_BITS
    return swapped


cdef inline int digits_of(unsigned long long spread) noexcept nogil:
    """Return the number of passes of `sort_by_digits`."""
    cdef int passes = 0
    while spread:
        passes += (spread & (DIGITS - 1)) != 0
        spread >>= DIGIT_BITS
    return passes


cdef inline bint sort_indexes(
    const unsigned long long* keys, unsigned int* source, unsigned int* target, Py_ssize_t count
) noexcept nogil:
    """Sort `count` indexes of keys by key. The result is in `target` if True is returned, otherwise in `source`.

    Equal keys keep their order in `source`.
    """
    cdef Py_ssize_t index, middle, stop
    cdef Py_ssize_t runs = 1
    cdef unsigned long long spread = 0
    cdef unsigned int* other
    cdef bint swapped = False
    if count >= FEWEST_BY_DIGITS:
        for index in range(1, count):
            runs += keys[source[index - 1]] > keys[source[index]]
            spread |= keys[source[index - 1]] ^ keys[source[index]]
        if runs >> 2 * digits_of(spread):  # a digit's pass costs what two passes over runs do
            return sort_by_digits(keys, source, target, count, spread)
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
