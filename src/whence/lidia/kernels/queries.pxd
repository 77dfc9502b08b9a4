# The layout of an archive for kernels (layout.py describes it): numbers that Python needs too, the sections in memory, and
# the search for the frames of a vaddr (queries.py describes it). Inlined into each kernel of this package.
#
# Everything read from the archive is checked where it is used.

from cpython.object cimport PyObject
from libc.string cimport memchr

from whence.kernels.bytes cimport u16, u32, u64
from whence.kernels.columns cimport Column
from whence.kernels.hashtable cimport HashIndex
from whence.kernels.vector cimport Bytes, U64s

cpdef enum:  # fields of a range
    LENGTH = 0
    DEPTH = 1
    FUNCTION = 2
    FILE = 3
    LINE_INDEX = 4
    LINE_COUNT = 5
    CALL_FILE = 6
    CALL_LINE = 7
    RANGE_FIELDS = 8

cpdef enum:
    LINE_FIELDS = 2  # of a line entry: offset, line
    COLUMNS_HEAD = 8  # bytes before columns: their width, and 0
    DISCRIMINATOR_FIELDS = 2
    DISCRIMINATOR_SIZE = 8  # bytes of a row of discriminators
    START_FIELDS = 3  # of a row of starts, 32 bits each: function, file, line
    LENGTH_PREFIX = 4  # bytes before a string that is not NUL-terminated

cpdef enum:  # faults of a range
    NAME_OUTSIDE = 1  # of the strings
    LINES_OUTSIDE = 2  # of the line tables

cdef extern from *:
    """
    #define WHENCE_READABLE 0x8000000000000000ULL
    """
    const unsigned long long WHENCE_READABLE  # marks the start of a text in Texts.readable

cdef extern from "Python.h":
    object PyTuple_New(Py_ssize_t size)
    int PyTuple_SetItem(object made, Py_ssize_t index, PyObject *item) except -1  # steals the reference
    object PyType_GenericAlloc(type of, Py_ssize_t items)
    void PyObject_GC_UnTrack(PyObject *item)
    object PyNumber_Index(object number)  # an int, for numpy integers too; TypeError
    unsigned long long PyLong_AsUnsignedLongLong(object number) noexcept  # 2^64 - 1 and OverflowError outside of 64 bits
    object PyObject_CallNoArgs(object called)
    PyObject *PyErr_Occurred()  # borrowed
    void PyErr_Clear()
    void Py_IncRef(PyObject *item)
    void Py_DecRef(PyObject *item)

cdef enum:
    START_SIZE = 4 * START_FIELDS
    MOST_FRAMES = 512  # of a chain
    MOST_STEPS = 65536  # along links
    MOST_TEXT = 65536  # bytes of a name; longer names are cut
    FREE_STEPS = 20000  # steps back of a search without links
    FEW_STEPS = 64  # the same once all searches together have made as many steps as there are ranges
    SAMPLED = 64  # every SAMPLED-th VA is in a sample that is searched first, as it fits the processor's cache


cdef extern from *:
    """
    #if defined(__GNUC__)
    #define whence_prefetch(at) __builtin_prefetch(at)
    #else
    #define whence_prefetch(at) ((void)(at))
    #endif
    """
    void whence_prefetch(const void *address) noexcept nogil  # any address; it will be read soon

cdef extern from *:
    """
    #if defined(__GNUC__)
    #define whence_publish(where, value) __atomic_store_n(where, value, __ATOMIC_RELEASE)
    #else
    #define whence_publish(where, value) (*(void *volatile *)(where) = (void *)(value))
    #endif
    """
    void whence_publish(View **where, View *value) noexcept nogil  # once all threads see the bytes of `value`


cdef struct View:
    const unsigned char *vaddrs
    const unsigned char *range
    const unsigned char *string
    const unsigned char *line
    const unsigned char *source  # a byte per range, or NULL
    const unsigned char *run_start  # first ranges, then values
    const unsigned char *start  # rows of start lines
    const unsigned char *column  # of line entries, then of ranges' calls; or NULL
    const unsigned char *discriminator  # rows of line entries, then of ranges' calls
    Py_ssize_t count  # ranges
    Py_ssize_t runs
    Py_ssize_t starts
    Py_ssize_t line_discriminators
    Py_ssize_t call_discriminators
    unsigned long long string_size
    unsigned long long lines  # entries
    int va_width
    int width
    int line_width
    int column_width
    bint nul
    bint tidy  # functions do not overlap: a search ends at the first
    unsigned int *up  # links to enclosing ranges, or NULL
    unsigned long long *sample
    Py_ssize_t samples
    Py_ssize_t stepped  # steps back of all searches


cdef inline bint _is_inside(Py_ssize_t offset, Py_ssize_t count, Py_ssize_t width, Py_ssize_t size) noexcept nogil:
    """Return True if `count` items of `width` bytes at an offset are inside `size` bytes."""
    return 0 <= offset <= size and 0 <= count <= (size - offset) // width


cdef inline int view_of(View *v, const unsigned char *base, Py_ssize_t size, object sections) except -1:
    """Fill a zeroed view. `sections` is a layout.ArchiveSections of the `size` bytes at `base`; ValueError if they are not
    inside."""
    cdef Py_ssize_t ranges = sections.ranges, runs = sections.runs
    cdef int column_width = sections.column_width
    cdef int va_width = sections.va_width, width = sections.field_width, line_width = sections.line_width
    if (
        va_width not in (2, 4, 8) or width not in (2, 4, 8) or line_width not in (2, 4, 8)
        or not _is_inside(sections.va_offset, ranges, va_width, size)
        or not _is_inside(sections.range_offset, ranges, RANGE_FIELDS * width, size)
        or not _is_inside(sections.string_offset, sections.string_size, 1, size)
        or not _is_inside(sections.line_offset, sections.entries, LINE_FIELDS * line_width, size)
        or (sections.sources and not _is_inside(sections.source_offset, ranges, 1, size))
        or (runs and not _is_inside(sections.run_offset, runs, 5, size))
        or (sections.starts and not _is_inside(sections.start_offset, sections.starts, START_SIZE, size))
        or column_width not in (0, 1, 2, 4)
        or (column_width and not _is_inside(sections.column_offset, sections.entries + ranges, column_width, size))
        or sections.line_discriminators < 0
        or not _is_inside(
            sections.discriminator_offset, sections.line_discriminators + sections.call_discriminators,
            DISCRIMINATOR_SIZE, size,
        )
        or sections.call_discriminators < 0
    ):
        raise ValueError("a section is outside of the archive")
    v.vaddrs = base + <Py_ssize_t>sections.va_offset
    v.va_width = sections.va_width
    v.count = sections.ranges
    v.range = base + <Py_ssize_t>sections.range_offset
    v.width = sections.field_width
    v.string = base + <Py_ssize_t>sections.string_offset
    v.string_size = sections.string_size
    v.nul = sections.nul
    v.line = base + <Py_ssize_t>sections.line_offset
    v.line_width = sections.line_width
    v.lines = sections.entries
    v.source = base + <Py_ssize_t>sections.source_offset if sections.sources else NULL
    v.run_start = base + <Py_ssize_t>sections.run_offset
    v.runs = sections.runs
    v.start = base + <Py_ssize_t>sections.start_offset
    v.starts = sections.starts
    v.tidy = sections.tidy
    v.column = base + <Py_ssize_t>sections.column_offset if sections.column_width else NULL
    v.column_width = sections.column_width
    v.discriminator = base + <Py_ssize_t>sections.discriminator_offset
    v.line_discriminators = sections.line_discriminators
    v.call_discriminators = sections.call_discriminators
    return 0


cdef inline unsigned long long load(const unsigned char *data, int width) noexcept nogil:
    """Read a little-endian number of 2, 4 or 8 bytes."""
    if width == 2:
        return u16(data, False)
    if width == 4:
        return u32(data, False)
    return u64(data, False)


cdef inline unsigned long long vaddr_of(View *v, Py_ssize_t index) noexcept nogil:
    """Return the vaddr of a range."""
    return load(v.vaddrs + index * v.va_width, v.va_width)


cdef inline void load_every(
    const unsigned char *data, Py_ssize_t step, int width, Py_ssize_t count, unsigned long long *out
) noexcept nogil:
    """Read numbers at a distance of `step` bytes."""
    cdef Py_ssize_t index
    if width == 4:
        for index in range(count):
            out[index] = u32(data + index * step, False)
    elif width == 8:
        for index in range(count):
            out[index] = u64(data + index * step, False)
    else:
        for index in range(count):
            out[index] = load(data + index * step, width)


cdef inline void read_extents(
    View *v, Py_ssize_t first, Py_ssize_t count, unsigned long long *vaddrs, unsigned long long *lengths
) noexcept nogil:
    """Read the VAs and lengths of adjacent ranges."""
    load_every(v.vaddrs + first * v.va_width, v.va_width, v.va_width, count, vaddrs)
    load_every(v.range + (first * RANGE_FIELDS + LENGTH) * v.width, RANGE_FIELDS * v.width, v.width, count, lengths)


cdef inline unsigned long long field(View *v, Py_ssize_t index, int number) noexcept nogil:
    """Return a field of a range."""
    return load(v.range + (index * RANGE_FIELDS + number) * v.width, v.width)


cdef inline unsigned long long end_at(unsigned long long vaddr, unsigned long long length) noexcept nogil:
    """Return the end of `length` bytes, at most the end of the address space."""
    return vaddr + length if length <= ~vaddr else <unsigned long long>-1


cdef inline unsigned long long end_of(View *v, Py_ssize_t index) noexcept nogil:
    """Return the end of a range."""
    return end_at(vaddr_of(v, index), field(v, index, LENGTH))


cdef inline int source_of(View *v, Py_ssize_t index) noexcept nogil:
    cdef Py_ssize_t low = 0, high = v.runs, middle
    if v.source != NULL:
        return v.source[index]
    while low < high:
        middle = (low + high) >> 1
        if load(v.run_start + 4 * middle, 4) <= <unsigned long long>index:
            low = middle + 1
        else:
            high = middle
    return v.run_start[4 * v.runs + low - 1] if low else 0


cdef inline unsigned int start_field(View *v, Py_ssize_t row, int number) noexcept nogil:
    """Return the function, file or line of a row of start lines."""
    return u32(v.start + START_SIZE * row + 4 * number, False)


cdef inline unsigned long long start_key(View *v, Py_ssize_t row) noexcept nogil:
    """Return the function and file of a row of start lines as one number."""
    return <unsigned long long>start_field(v, row, 0) << 32 | start_field(v, row, 1)


cdef inline unsigned int start_of(
    View *v, unsigned long long function, unsigned long long file, unsigned long long line
) noexcept nogil:
    """Return the line on which a function of a file starts, for a frame at `line`; 0 if unknown.

    Of several functions with this name in the file, it is the last that starts at or before the line."""
    cdef unsigned long long key = function << 32 | file, current
    cdef Py_ssize_t low = 0, high = v.starts, middle
    if function > <unsigned int>-1 or file > <unsigned int>-1:
        return 0
    while low < high:
        middle = (low + high) >> 1
        current = start_key(v, middle)
        if current < key or (current == key and start_field(v, middle, 2) <= line):
            low = middle + 1
        else:
            high = middle
    if low and start_key(v, low - 1) == key:
        return start_field(v, low - 1, 2)
    if low == v.starts or start_key(v, low) != key:
        return 0
    if low + 1 < v.starts and start_key(v, low + 1) == key:
        return 0
    return start_field(v, low, 2)


cdef enum:
    NO_ENTRY = -1  # the line is unknown
    ENTRY_OUTSIDE = -2  # the range's entries are outside the tables


cdef inline unsigned long long entry_field(View *v, unsigned long long entry, int number) noexcept nogil:
    """Return the offset (0) or the line (1) of an existing line entry."""
    return load(v.line + (entry * LINE_FIELDS + number) * v.line_width, v.line_width)


cdef inline long long entry_of(View *v, Py_ssize_t index, unsigned long long offset) noexcept nogil:
    """Return the line entry for an offset from the vaddr of a range, or NO_ENTRY or ENTRY_OUTSIDE."""
    cdef unsigned long long first = field(v, index, LINE_INDEX), low = 0, middle
    cdef unsigned long long count = field(v, index, LINE_COUNT), high = count
    if count == 0:
        return NO_ENTRY
    if first > v.lines or count > v.lines - first:
        return ENTRY_OUTSIDE
    while low < high:
        middle = (low + high) >> 1
        if entry_field(v, first + middle, 0) <= offset:
            low = middle + 1
        else:
            high = middle
    return <long long>(first + low) - 1 if low else NO_ENTRY


cdef inline unsigned int line_of(View *v, long long entry) noexcept nogil:
    """Return the line of an entry; 0 without an entry."""
    return <unsigned int>entry_field(v, entry, 1) if entry >= 0 else 0


cdef inline unsigned int column_at(View *v, unsigned long long number) noexcept nogil:
    """Return the column of a line entry or, for v.lines + index, of a range's call; 0 in an archive without columns."""
    if v.column == NULL:
        return 0
    if v.column_width == 1:
        return v.column[number]
    return <unsigned int>load(v.column + number * v.column_width, v.column_width)


cdef inline unsigned int discriminator_field(View *v, Py_ssize_t row, int number) noexcept nogil:
    """Return the number (0) or the discriminator (1) of an existing row."""
    return u32(v.discriminator + DISCRIMINATOR_SIZE * row + 4 * number, False)


cdef inline unsigned int discriminator_of(
    View *v, Py_ssize_t first, Py_ssize_t count, unsigned long long number
) noexcept nogil:
    """Return the discriminator of a number among rows [first, first + count); 0 if there is none."""
    cdef Py_ssize_t low = first, high = first + count, middle
    while low < high:
        middle = (low + high) >> 1
        if discriminator_field(v, middle, 0) < number:
            low = middle + 1
        else:
            high = middle
    if low < first + count and discriminator_field(v, low, 0) == number:
        return discriminator_field(v, low, 1)
    return 0


cdef inline unsigned int line_column(View *v, long long entry) noexcept nogil:
    return column_at(v, entry) if entry >= 0 else 0


cdef inline unsigned int call_column(View *v, Py_ssize_t index) noexcept nogil:
    return column_at(v, v.lines + index)


cdef inline unsigned int line_discriminator(View *v, long long entry) noexcept nogil:
    return discriminator_of(v, 0, v.line_discriminators, entry) if entry >= 0 else 0


cdef inline unsigned int call_discriminator(View *v, Py_ssize_t index) noexcept nogil:
    return discriminator_of(v, v.line_discriminators, v.call_discriminators, index)


cdef inline long long size_of(View *v, unsigned long long offset) noexcept nogil:
    """Return the size of the text at an offset of the strings, at most MOST_TEXT; -1 for an offset outside."""
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
    if left < LENGTH_PREFIX:
        return -1
    size = load(v.string + offset, 4)
    if size > left - LENGTH_PREFIX:
        return -1
    return <long long>(size if size < MOST_TEXT else MOST_TEXT)


cdef inline Py_ssize_t last_not_above(
    const unsigned long long *numbers, Py_ssize_t count, unsigned long long most
) noexcept nogil:
    """Return the index of the last of `count` ascending numbers that is at most `most`, or -1."""
    cdef Py_ssize_t low = 0, half
    while count > 0:
        half = count >> 1
        if numbers[low + half] <= most:
            low += half + 1
            count -= half + 1
        else:
            count = half
    return low - 1


cdef inline void expect_block(View *v, Py_ssize_t low) noexcept nogil:
    """Prefetch the vaddrs of SAMPLED ranges, and the pages of their other fields."""
    cdef Py_ssize_t offset
    for offset in range(0, SAMPLED * v.va_width, 64):
        whence_prefetch(v.vaddrs + low * v.va_width + offset)
    whence_prefetch(v.range + (low + SAMPLED // 2) * RANGE_FIELDS * v.width)
    if v.up != NULL:
        whence_prefetch(v.up + low)


cdef inline Py_ssize_t last_range(View *v, unsigned long long vaddr) noexcept nogil:
    """Return the last range whose vaddr is at or below the address, or -1."""
    cdef Py_ssize_t low = 0, left = v.count, half
    if v.va_width == 4 and vaddr > <unsigned int>-1:
        return v.count - 1
    if v.sample != NULL:
        low = last_not_above(v.sample, v.samples, vaddr) * SAMPLED
        if low < 0:
            return -1
        expect_block(v, low)
        left = v.count - low if v.count - low < SAMPLED else SAMPLED
    while left > 0:
        half = left >> 1
        if vaddr_of(v, low + half) <= vaddr:
            low += half + 1
            left -= half + 1
        else:
            left = half
    return low - 1


cdef inline int chain_at(View *v, Py_ssize_t index, unsigned long long vaddr, unsigned int *out) noexcept nogil:
    """Write the ranges of the frames of `vaddr` to `out` (of MOST_FRAMES), innermost first; return their number.

    `index` is the last_range of `vaddr`. Without links the search steps back range by range: at most FREE_STEPS, or
    FEW_STEPS once all searches together have made as many steps as there are ranges. Returns -1 if that is not enough:
    make the links.
    """
    cdef int count = 0
    cdef unsigned long long depth = <unsigned long long>-1, mine, start
    cdef Py_ssize_t steps = 0
    cdef Py_ssize_t most = FREE_STEPS if v.stepped < v.count else FEW_STEPS
    cdef unsigned int *links = v.up
    while index >= 0 and count < MOST_FRAMES:
        mine = field(v, index, DEPTH)
        start = vaddr_of(v, index)
        if mine < depth and start <= vaddr and vaddr < end_at(start, field(v, index, LENGTH)):
            out[count] = <unsigned int>index
            count += 1
            depth = mine
            if mine == 0:
                break
        steps += 1
        if links != NULL:
            if links[index] == <unsigned int>-1 or steps > MOST_STEPS:
                break
            index = links[index]
        else:
            if v.tidy and mine == 0:
                break
            if steps > most:
                v.stepped += steps
                return -1
            index -= 1
    if links == NULL:
        v.stepped += steps
    return count


cdef enum:
    WAYS = 4  # slots of a set: two adjacent cache lines
    EVICTED_BY = 8  # every EVICTED_BY-th new key of full sets evicts another


cdef struct Slot:
    unsigned long long key
    unsigned long long more  # the second half of the key
    PyObject *value  # owned, or NULL
    unsigned long long unused  # aligns slots to cache lines


cdef struct Content:  # of a frame; frames with equal content are one object
    unsigned long long function  # offsets in the strings
    unsigned long long file
    unsigned int line
    unsigned int column
    unsigned int discriminator
    int source
    bint inlined
    bint cacheable  # by the key
    unsigned long long key
    unsigned long long more


cdef class ObjectCache:
    cdef void *_memory  # that holds the slots
    cdef Slot *_slots
    cdef unsigned long long _mask
    cdef unsigned long long _most
    cdef Py_ssize_t _count
    cdef unsigned int _refused  # new keys whose set was full

    cdef object get(self, unsigned long long key, unsigned long long more)
    cdef void expect(self, unsigned long long key, unsigned long long more) noexcept
    cdef int put(self, unsigned long long key, unsigned long long more, object value) except -1
    cdef int _grow(self) except -1
    cdef bint _make_slots(self, unsigned long long count) noexcept


cdef class FrameColumns


cdef class Archive:
    cdef const unsigned char[::1] _bytes
    cdef View _view
    cdef View _linked  # with the links and samples of `link`
    cdef View *view  # the current one of the two; a search uses the view it began with
    cdef readonly Py_ssize_t count  # ranges
    cdef readonly int fault  # of the last lookup that returned None: NAME_OUTSIDE or LINES_OUTSIDE
    cdef readonly Py_ssize_t fault_index  # the range with the fault
    cdef readonly unsigned long long string_size
    cdef unsigned long long seed  # so that an archive cannot choose offsets that collide
    cdef object _load
    cdef type _frame
    cdef tuple _sources
    cdef object _demangle
    cdef object _changed  # None for an archive in memory
    cdef ObjectCache _functions  # texts by offset
    cdef ObjectCache _texts
    cdef ObjectCache _frames  # by content
    cdef Py_ssize_t _lookups
    cdef Py_ssize_t _few  # the number of lookups after which links and samples pay
    cdef Py_ssize_t _characters  # of the texts in the caches

    cdef object _empty_caches(self)
    cdef object _load_frames(self)
    cdef object _text(self, unsigned long long offset, bint function)
    cdef object _decoded(self, unsigned long long offset)
    cdef int find_chain(self, unsigned long long vaddr, unsigned int *chain) except -1
    cdef object _lookup(self, unsigned long long vaddr)
    cdef object _frame_of(self, Content *content)
    cdef object _find_chains(self, FrameColumns frames, const unsigned long long[::1] vaddrs, unsigned long long back)
    cdef object _describe(
        self, FrameColumns frames, const unsigned long long[::1] vaddrs, unsigned long long back, bint discriminators
    )


cdef class FrameColumns:
    cdef readonly Column starts
    cdef readonly Column range_index
    cdef readonly Column function
    cdef readonly Column file
    cdef readonly Column line
    cdef readonly Column column  # empty in archives without columns
    cdef readonly Column discriminator
    cdef readonly Column inlined
    cdef readonly Column source
    cdef readonly Column faulty
    cdef readonly Py_ssize_t unknown


cdef class Queries:
    cdef readonly bytes text
    cdef Column vaddr
    cdef Column bad
    cdef Column start
    cdef Column size


cdef class Texts:
    cdef Archive archive
    cdef readonly Py_ssize_t functions
    cdef readonly unsigned long long written
    cdef readonly Column linkage
    cdef Column function
    cdef Column file
    cdef Column offset
    cdef Column start
    cdef Column size
    cdef Bytes readable

    cdef object _number(self, Column offsets, Column rows)
    cdef object _find_texts(self)
    cdef object _add_up(self, Column rows)
    cdef const unsigned char* text_at(self, Py_ssize_t row, unsigned long long* size) noexcept nogil
    cdef int show(self, Py_ssize_t row, const unsigned char* text, unsigned int size) except -1
    cdef int _check_row(self, Py_ssize_t row) except -1


cdef class ReadableNames:
    cdef unsigned long long seed
    cdef Py_ssize_t most
    cdef Py_ssize_t most_bytes
    cdef HashIndex index
    cdef Column key
    cdef Column end
    cdef Bytes text

    cdef Py_ssize_t index_of(self, unsigned long long key) noexcept nogil
    cdef int add(self, unsigned long long key, const unsigned char* name, Py_ssize_t size) except -1


cdef inline int put(object made, Py_ssize_t index, object value) except -1:
    """Set an item of a new tuple."""
    Py_IncRef(<PyObject *>value)
    return PyTuple_SetItem(made, index, <PyObject *>value)


cdef inline void untrack(object made) noexcept:
    """Hide a tuple from the garbage collector, which would visit hundreds of thousands of answers again and again. Texts
    and numbers make no cycles."""
    PyObject_GC_UnTrack(<PyObject *>made)

cdef unsigned long long slots_of(
    unsigned long long key, unsigned long long more, unsigned long long mask
) noexcept nogil
cdef bint find_links(View* v, U64s* ends) noexcept nogil
cdef void forget(View* v) noexcept nogil
cdef void set_key(Content* content) noexcept nogil
cdef void parse_lines(
    unsigned char* data, Py_ssize_t length, Py_ssize_t count, unsigned long long* vaddr, unsigned char* bad,
    unsigned int* start, unsigned int* size,
) noexcept nogil
cdef bint is_linkage_name(const unsigned char* text) noexcept nogil
