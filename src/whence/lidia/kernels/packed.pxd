# The compact form of a table of numbers and of strings (docs/formats/compact.md), as readers see it. Inlined into each
# kernel of this room.
#
# A table has rows of a few fields. Blocks of PACKED_ROWS rows have, for each field, a base (the least value) and as many
# bits as the greatest difference from it needs; a row is those differences, one after the other. A directory in front
# says where each block begins, in words of 8 bytes. A word of zeros ends the table, so that a field may be read as 64
# bits at once.

from libc.string cimport memcpy

from whence.kernels.bytes cimport u16, u32, u64, uleb
from whence.lidia.kernels.store cimport store

cdef enum:
    PACKED_ROWS = 64  # of a block
    WORD = 8  # bytes that places of blocks count
    SHARED_STRINGS = 16  # strings of a block: the first is whole
    DIRECTORY_ENTRY = 4  # bytes
    FIELD_END = 2  # bytes that say at which bit of a row a field ends
    MOST_FIELDS = 8  # of a row

cdef extern from *:
    """
    #define WHENCE_DAMAGED 0xFFFFFFFFFFFFFFFFULL
    """
    const unsigned long long WHENCE_DAMAGED  # the value of every field of a block that does not hold together


cdef struct BlockField:  # of a block
    unsigned long long base
    unsigned long long mask  # as many ones as it has bits
    unsigned int first  # bit of a row
    unsigned int size  # in bits


cdef struct Block:  # the head of one, checked
    const unsigned char *bits  # of its rows
    unsigned long long step  # bits of a row
    BlockField field[MOST_FIELDS]


cdef struct Packed:
    const unsigned char *data  # NULL: the table is not packed
    Py_ssize_t rows
    unsigned long long words  # but the last, of zeros
    int fields
    int width  # bytes of a base
    int head  # words in front of a block's rows


cdef inline int head_words(int fields, int width) noexcept nogil:
    """Words in front of a block's rows: bases, and at which bit of a row each field ends."""
    return (fields * (width + FIELD_END) + WORD - 1) // WORD


cdef inline Py_ssize_t blocks_of(Py_ssize_t rows) noexcept nogil:
    return rows // PACKED_ROWS + (rows % PACKED_ROWS != 0)


cdef inline Py_ssize_t directory_words(Py_ssize_t blocks) noexcept nogil:
    return ((blocks + 1) * DIRECTORY_ENTRY + WORD - 1) // WORD


cdef inline bint packed_fits(Py_ssize_t rows, int fields, int width, Py_ssize_t size) noexcept nogil:
    """Whether `size` bytes have room for the directory, the heads of the blocks and the last word."""
    cdef Py_ssize_t blocks
    if (width != 4 and width != 8) or size < 0 or size % WORD or rows < 0 or rows > size * PACKED_ROWS:
        return False
    blocks = blocks_of(rows)
    return directory_words(blocks) + blocks * head_words(fields, width) + 1 <= size // WORD


cdef inline void open_packed(
    Packed *t, const unsigned char *data, Py_ssize_t rows, int fields, int width, Py_ssize_t size
) noexcept nogil:
    """A table that fits."""
    t.data, t.rows, t.fields, t.width = data, rows, fields, width
    t.words = size // WORD - 1
    t.head = head_words(fields, width)


cdef inline void read_block(const Packed *t, unsigned long long number, Block *out) noexcept nogil:
    """Read the head of a block that there is. Where it does not hold together, or has no room for its rows, every field
    of each is WHENCE_DAMAGED."""
    cdef const unsigned char *at = t.data + DIRECTORY_ENTRY * number
    cdef const unsigned char *ends
    cdef unsigned long long start = u32(at, False), stop = u32(at + DIRECTORY_ENTRY, False)
    cdef unsigned long long rows = t.rows - number * PACKED_ROWS
    cdef unsigned int begin = 0, end = 0
    cdef int field
    cdef bint whole = stop <= t.words and start + t.head <= stop
    if whole:
        at = t.data + WORD * start
        ends = at + t.fields * t.width
        out.bits = at + WORD * t.head
        for field in range(t.fields):
            out.field[field].base = u32(at + 4 * field, False) if t.width == 4 else u64(at + 8 * field, False)
            end = u16(ends + FIELD_END * field, False)
            whole = whole and begin <= end <= begin + 64
            out.field[field].first, out.field[field].size = begin, end - begin
            out.field[field].mask = <unsigned long long>-1 >> (64 - (end - begin)) if begin < end <= begin + 64 else 0
            begin = end
        out.step = end
        whole = whole and end * (rows if rows < PACKED_ROWS else PACKED_ROWS) <= (stop - start - t.head) * 64
    if not whole:
        out.bits, out.step = t.data + WORD * t.words, 0
        for field in range(t.fields):
            out.field[field].base = WHENCE_DAMAGED
            out.field[field].mask = out.field[field].first = out.field[field].size = 0


cdef struct Row:
    Block block  # that it is in
    unsigned long long number  # of the block
    unsigned long long first  # bit of the row


cdef inline void no_row(Row *row) noexcept nogil:
    """Let `find_row` find the first one."""
    row.number = WHENCE_DAMAGED


cdef inline void find_row(const Packed *t, unsigned long long row, Row *out) noexcept nogil:
    """Find a row that there is."""
    cdef unsigned long long number = row // PACKED_ROWS
    if out.number != number:
        read_block(t, number, &out.block)
        out.number = number
    out.first = (row % PACKED_ROWS) * out.block.step


cdef inline unsigned long long row_field(const Row *row, int number) noexcept nogil:
    """A field of a row."""
    cdef const BlockField *field = &row.block.field[number]
    cdef unsigned long long bit = row.first + field.first, value
    cdef const unsigned char *at = row.block.bits + (bit >> 3)
    bit &= 7
    value = u64(at, False) >> bit
    if bit + field.size > 64:
        value |= <unsigned long long>at[8] << (64 - bit)
    return field.base + (value & field.mask)


cdef inline unsigned long long packed_field(const Packed *t, unsigned long long row, int number) noexcept nogil:
    """A field of a row that there is, of a table of which no more is read."""
    cdef Row found
    no_row(&found)
    find_row(t, row, &found)
    return row_field(&found, number)


cdef inline void packed_column(
    const Packed *t, unsigned long long first, Py_ssize_t count, int number, unsigned long long *out
) noexcept nogil:
    """A field of rows of one block."""
    cdef Py_ssize_t index
    cdef Row row
    no_row(&row)
    find_row(t, first, &row)
    for index in range(count):
        out[index] = row_field(&row, number)
        row.first += row.block.step


cdef inline unsigned long long unpack_field(
    const Row *row, Py_ssize_t count, int number, unsigned char *out, Py_ssize_t step, int width
) noexcept nogil:
    """Write a field of rows of one block, numbers of `width` bytes that lie `step` bytes apart. Returns all bits that any
    of them has."""
    cdef BlockField field = row.block.field[number]
    cdef unsigned long long bit = row.first + field.first, value = field.base, seen = field.base
    cdef unsigned long long more = row.block.step
    cdef const unsigned char *bits = row.block.bits
    cdef Row here
    cdef Py_ssize_t index
    if field.size == 0:
        for index in range(count):
            store(out + index * step, value, width)
    elif field.size <= 64 - 7:  # whatever bit of a byte it begins at
        for index in range(count):
            value = field.base + ((u64(bits + (bit >> 3), False) >> (bit & 7)) & field.mask)
            seen |= value
            store(out + index * step, value, width)
            bit += more
    else:
        here = row[0]
        for index in range(count):
            value = row_field(&here, number)
            seen |= value
            store(out + index * step, value, width)
            here.first += more
    return seen


cdef inline bint unpack_table(const Packed *t, unsigned char *out, int width) noexcept nogil:
    """Write the rows as numbers of 2, 4 or 8 bytes. False where a value has more, as those of a block that does not hold
    together have."""
    cdef Py_ssize_t block, count, step = t.fields * width
    cdef unsigned long long seen = 0, most = <unsigned long long>-1 >> (64 - 8 * width)
    cdef int field
    cdef Row row
    no_row(&row)
    for block in range(blocks_of(t.rows)):
        count = t.rows - block * PACKED_ROWS
        if count > PACKED_ROWS:
            count = PACKED_ROWS
        find_row(t, block * PACKED_ROWS, &row)
        for field in range(t.fields):
            if width == 4:
                seen |= unpack_field(&row, count, field, out + 4 * field, step, 4)
            elif width == 2:
                seen |= unpack_field(&row, count, field, out + 2 * field, step, 2)
            else:
                unpack_field(&row, count, field, out + 8 * field, step, 8)
        if seen > most:
            return False
        out += count * step
    return True


cdef inline unsigned long long least_of(const Packed *t, unsigned long long number) noexcept nogil:
    """The least value of the first field in a block that there is; WHENCE_DAMAGED where its head is not in the table."""
    cdef unsigned long long start
    start = u32(t.data + DIRECTORY_ENTRY * number, False)
    if start + t.head > t.words:
        return WHENCE_DAMAGED
    return u32(t.data + WORD * start, False) if t.width == 4 else u64(t.data + WORD * start, False)


cdef inline Py_ssize_t blocks_before(const Packed *t, unsigned long long value) noexcept nogil:
    """How many blocks begin with a value of the first field before this one; those ascend."""
    cdef Py_ssize_t low = 0, left = blocks_of(t.rows), half
    while left > 0:
        half = left >> 1
        if least_of(t, low + half) < value:
            low += half + 1
            left -= half + 1
        else:
            left = half
    return low


cdef inline Py_ssize_t packed_last(
    const Packed *t, Py_ssize_t first, Py_ssize_t count, unsigned long long value
) noexcept nogil:
    """The last of the `count` rows of one block, from its first on, whose first field is at or below a value, or the row
    before them. The fields ascend."""
    cdef Py_ssize_t low = 0, left = count, half
    cdef Row row
    no_row(&row)
    find_row(t, first, &row)
    while left > 0:
        half = left >> 1
        row.first = (low + half) * row.block.step
        if row_field(&row, 0) <= value:
            low += half + 1
            left -= half + 1
        else:
            left = half
    return first + low - 1


cdef struct SharedStrings:
    const unsigned char *data
    unsigned long long size  # bytes, with the directory
    unsigned long long count


cdef inline bint shared_fit(unsigned long long count, unsigned long long size) noexcept nogil:
    """Whether so many bytes have room for the directory, and two bytes of each string."""
    cdef unsigned long long blocks = (count + SHARED_STRINGS - 1) // SHARED_STRINGS
    return count <= size and (blocks + 1) * DIRECTORY_ENTRY + 2 * count <= size


cdef inline long long shared_text(
    const SharedStrings *s, unsigned long long number, unsigned char *out, long long most
) noexcept nogil:
    """The size of a string, `most` at most, and so many bytes of it in `out` (which may be NULL); -1 where there is none."""
    cdef const unsigned char *entry = s.data + DIRECTORY_ENTRY * (number // SHARED_STRINGS)
    cdef unsigned long long at, end, shared, more, size = 0
    cdef unsigned long long left
    if number >= s.count:
        return -1
    at, end = u32(entry, False), u32(entry + DIRECTORY_ENTRY, False)
    if end > s.size or at > end:
        return -1
    for left in range(number % SHARED_STRINGS + 1):
        shared = uleb(s.data, &at, end)
        more = uleb(s.data, &at, end)
        if at > end or shared > size or more > end - at:
            return -1
        size = shared + more
        if out != NULL and shared < <unsigned long long>most:
            memcpy(out + shared, s.data + at, more if size <= <unsigned long long>most else most - shared)
        at += more
    return <long long>size if size < <unsigned long long>most else most
