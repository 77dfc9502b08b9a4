# The four sections as they lie in memory, and how to read them: what the kernels of this room share, inlined into each.
#
# Everything read from the archive is checked where it is used. The chain of an address is told in lookup_kernel.py.

from libc.string cimport memchr

from whence.kernels.bytes cimport u16, u32, u64

cdef enum:
    MOST_FRAMES = 512  # a chain is not followed further
    MOST_STEPS = 65536  # nor are links of ranges that do not cover the address
    MOST_TEXT = 65536  # bytes of a name that are read: longer ones are cut
    SAMPLED = 64  # many addresses are searched for among every so many VAs first: those stay near the processor


cdef struct View:
    const unsigned char *va
    const unsigned char *range
    const unsigned char *string
    const unsigned char *line
    const unsigned char *source  # a byte per range, or NULL
    const unsigned char *run_start  # first ranges, and behind them values
    const unsigned char *start  # rows of where functions start
    Py_ssize_t count  # ranges
    Py_ssize_t runs
    Py_ssize_t starts
    unsigned long long string_size
    unsigned long long lines  # entries
    int va_width
    int width
    int line_width
    bint nul
    bint tidy  # functions lie apart: a walk ends at the first
    unsigned int *up  # links to enclosing ranges, or NULL
    unsigned long long *sample
    Py_ssize_t samples
    Py_ssize_t walked


cdef inline int view_of(View *v, const unsigned char *base, tuple places) except -1:
    """Fill a view whose memory is zero. `places`: Table's; all of it lies inside the bytes at `base`."""
    va, ranges, strings, lines, nul, source, runs, starts = places
    v.va = base + <Py_ssize_t>va[0]
    v.va_width = va[1]
    v.count = va[2]
    v.range = base + <Py_ssize_t>ranges[0]
    v.width = ranges[1]
    v.string = base + <Py_ssize_t>strings[0]
    v.string_size = strings[1]
    v.line = base + <Py_ssize_t>lines[0]
    v.line_width = lines[1]
    v.lines = lines[2]
    v.nul = nul
    v.source = base + <Py_ssize_t>source[0] if source[1] else NULL
    v.run_start = base + <Py_ssize_t>runs[0]
    v.runs = runs[1]
    v.start = base + <Py_ssize_t>starts[0]
    v.starts = starts[1]
    return 0


cdef inline unsigned long long load(const unsigned char *at, int width) noexcept nogil:
    """A little-endian number of 2, 4 or 8 bytes."""
    if width == 2:
        return u16(at, False)
    if width == 4:
        return u32(at, False)
    return u64(at, False)


cdef inline unsigned long long va_of(View *v, Py_ssize_t place) noexcept nogil:
    return load(v.va + place * v.va_width, v.va_width)


cdef inline unsigned long long field(View *v, Py_ssize_t place, int number) noexcept nogil:
    return load(v.range + (place * 8 + number) * v.width, v.width)


cdef inline unsigned long long end_of(View *v, Py_ssize_t place) noexcept nogil:
    """Where a range ends; one that would leave the address space ends with it."""
    cdef unsigned long long va = va_of(v, place)
    cdef unsigned long long length = field(v, place, 0)
    return va + length if length <= ~va else <unsigned long long>-1


cdef inline int source_of(View *v, Py_ssize_t place) noexcept nogil:
    cdef Py_ssize_t low = 0, high = v.runs, middle
    if v.source != NULL:
        return v.source[place]
    while low < high:
        middle = (low + high) >> 1
        if load(v.run_start + 4 * middle, 4) <= <unsigned long long>place:
            low = middle + 1
        else:
            high = middle
    return v.run_start[4 * v.runs + low - 1] if low else 0


cdef inline unsigned long long declared_at(View *v, Py_ssize_t row) noexcept nogil:
    """Function and file of a row of starts, as one number."""
    return load(v.start + 12 * row, 4) << 32 | load(v.start + 12 * row + 4, 4)


cdef inline unsigned int start_of(
    View *v, unsigned long long function, unsigned long long file, unsigned long long line
) noexcept nogil:
    """The line a function of a file starts on, for a frame of it at `line`; 0 when it is not known.

    Where a file has several functions of that name it is the last one that starts at or before the line."""
    cdef unsigned long long wanted = function << 32 | file, here
    cdef Py_ssize_t low = 0, high = v.starts, middle
    if function > <unsigned int>-1 or file > <unsigned int>-1:
        return 0
    while low < high:
        middle = (low + high) >> 1
        here = declared_at(v, middle)
        if here < wanted or (here == wanted and load(v.start + 12 * middle + 8, 4) <= line):
            low = middle + 1
        else:
            high = middle
    if low and declared_at(v, low - 1) == wanted:
        return <unsigned int>load(v.start + 12 * low - 4, 4)
    if low == v.starts or declared_at(v, low) != wanted:
        return 0
    if low + 1 < v.starts and declared_at(v, low + 1) == wanted:
        return 0
    return <unsigned int>load(v.start + 12 * low + 8, 4)


cdef inline long long line_of(View *v, Py_ssize_t place, unsigned long long offset) noexcept nogil:
    """The line at an offset from the range's VA; -1 when the entries are not in the tables."""
    cdef unsigned long long index = field(v, place, 4), count = field(v, place, 5)
    cdef unsigned long long low = 0, high = count, middle
    cdef int size = 2 * v.line_width
    cdef const unsigned char *at
    if count == 0:
        return 0
    if index > v.lines or count > v.lines - index:
        return -1
    at = v.line + index * size
    while low < high:
        middle = (low + high) >> 1
        if load(at + middle * size, v.line_width) <= offset:
            low = middle + 1
        else:
            high = middle
    if low == 0:
        return 0
    return load(at + (low - 1) * size + v.line_width, v.line_width)


cdef inline long long size_of(View *v, unsigned long long offset) noexcept nogil:
    """The size of the text at an offset of the strings, MOST_TEXT at most; -1 when it does not lie inside."""
    cdef unsigned long long left, size
    cdef const void *end
    if offset >= v.string_size:
        return 0 if offset == 0 else -1
    left = v.string_size - offset
    if v.nul:
        end = memchr(v.string + offset, 0, left if left < MOST_TEXT else MOST_TEXT)
        if end == NULL:
            return MOST_TEXT if left > MOST_TEXT else -1
        return <const unsigned char *>end - (v.string + offset)
    if left < 4:
        return -1
    size = load(v.string + offset, 4)
    if size > left - 4:
        return -1
    return <long long>(size if size < MOST_TEXT else MOST_TEXT)


cdef inline Py_ssize_t place_of(View *v, unsigned long long vaddr) noexcept nogil:
    """The last range whose VA is at or below the address, or -1."""
    cdef Py_ssize_t low = 0, left = v.count, half
    if v.va_width == 4 and vaddr > <unsigned int>-1:
        return v.count - 1
    if v.sample != NULL:
        left = v.samples
        while left > 0:
            half = left >> 1
            if v.sample[low + half] <= vaddr:
                low += half + 1
                left -= half + 1
            else:
                left = half
        if low == 0:
            return -1
        low = (low - 1) * SAMPLED
        left = v.count - low if v.count - low < SAMPLED else SAMPLED
    while left > 0:
        half = left >> 1
        if va_of(v, low + half) <= vaddr:
            low += half + 1
            left -= half + 1
        else:
            left = half
    return low - 1


cdef inline int chain_at(View *v, Py_ssize_t place, unsigned long long vaddr, unsigned int *out) noexcept nogil:
    """The ranges that are the frames, innermost first, into `out` (MOST_FRAMES); -1 when a walk took too long.

    A walk may go far at first, not far once walks have cost more than the links would.
    """
    cdef int found = 0
    cdef unsigned long long depth = <unsigned long long>-1, mine
    cdef Py_ssize_t steps = 0
    cdef Py_ssize_t patience = 20000 if v.walked < v.count else 64
    cdef unsigned int *links = v.up
    while place >= 0 and found < MOST_FRAMES:
        mine = field(v, place, 1)
        if mine < depth and vaddr < end_of(v, place) and va_of(v, place) <= vaddr:
            out[found] = <unsigned int>place
            found += 1
            depth = mine
            if mine == 0:
                break
        steps += 1
        if links != NULL:
            if links[place] == <unsigned int>-1 or steps > MOST_STEPS:
                break
            place = links[place]
        else:
            if v.tidy and mine == 0:
                break
            if steps > patience:
                v.walked += steps
                return -1
            place -= 1
    if links == NULL:
        v.walked += steps
    return found
