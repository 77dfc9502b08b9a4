# The order of keys: a stable merge sort over the ascending runs that are there already, written once; by digits where
# the keys come in no order at all.
#
# Producers deliver nearly sorted columns (units one after the other, children after their parents), so the number of
# runs is small and most passes are not needed. Addresses that somebody asks about come as they come: a pass for each
# digit that any two of them differ in costs a fraction of the passes that merge pairs of runs.

cdef enum:
    DIGIT_BITS = 11
    DIGITS = 1 << DIGIT_BITS
    FEWEST_BY_DIGITS = 1 << 10  # keys: below that the counters of the digits cost more than they save

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


cdef inline bint sort_by_digits(
    const unsigned long long* keys, unsigned int* source, unsigned int* target, Py_ssize_t count,
    unsigned long long spread,
) noexcept nogil:
    """As `sort_indexes`, whatever order the keys are in. `spread` has the bits in which any two keys differ, at least.
    Linear in the keys."""
    cdef unsigned int[DIGITS] places
    cdef Py_ssize_t index
    cdef int shift = 0
    cdef unsigned int digit, place, size
    cdef unsigned int* other
    cdef bint swapped = False
    while shift < 64 and spread >> shift:
        if (spread >> shift) & (DIGITS - 1):
            for index in range(DIGITS):
                places[index] = 0
            for index in range(count):
                places[(keys[source[index]] >> shift) & (DIGITS - 1)] += 1
            place = 0
            for index in range(DIGITS):
                size = places[index]
                places[index] = place
                place += size
            for index in range(count):
                digit = <unsigned int> ((keys[source[index]] >> shift) & (DIGITS - 1))
                target[places[digit]] = source[index]
                places[digit] += 1
            other = source
            source = target
            target = other
            swapped = not swapped
        shift += DIGIT_BITS
    return swapped


cdef inline int digits_of(unsigned long long spread) noexcept nogil:
    """The passes that `sort_by_digits` makes."""
    cdef int passes = 0
    while spread:
        passes += (spread & (DIGITS - 1)) != 0
        spread >>= DIGIT_BITS
    return passes


cdef inline bint sort_indexes(
    const unsigned long long* keys, unsigned int* source, unsigned int* target, Py_ssize_t count
) noexcept nogil:
    """Put `count` indexes of keys into ascending order of key. False: they are in `source` afterwards; True: in
    `target`. Equal keys keep the order that they have in `source`."""
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
