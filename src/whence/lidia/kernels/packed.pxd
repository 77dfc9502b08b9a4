# The compact form of a table of numbers and of strings (docs/formats/compact.md), as readers see it. Inlined into each
# kernel of this room.
#
# A table has rows of a few fields. Blocks of PACKED_ROWS rows have, for each field, a base (the least value) and as many
# bits as the greatest difference from it needs; a row is those differences, one after the other. A directory in front
# says where each block begins, in words of 8 bytes. A word of zeros ends the table, so that a field may be read as 64
# bits at once.

from libc.string cimport memcpy

from whence.kernels.bytes cimport u16, u32, u64, uleb

cdef enum:
    PACKED_ROWS = 64  # of a block
    WORD = 8  # bytes that places of blocks count
    SHARED_STRINGS = 16  # strings of a block: the first is whole
    DIRECTORY_ENTRY = 4  # bytes
    FIELD_END = 2  # bytes that say at which bit of a row a field ends

cdef extern from *:
    """
    #define WHENCE_DAMAGED 0xFFFFFFFFFFFFFFFFULL
    """
    const unsigned long long WHENCE_DAMAGED  # the value of every field of a block that does not hold together


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


cdef inline unsigned long long packed_field(const Packed *t, Py_ssize_t row, int number) noexcept nogil:
    """A field of a row that there is; WHENCE_DAMAGED where its block does not hold together."""
    cdef const unsigned char *at = t.data + DIRECTORY_ENTRY * (row // PACKED_ROWS)
    cdef unsigned long long start = u32(at, False), stop = u32(at + DIRECTORY_ENTRY, False), bit, value
    cdef unsigned int begin, end, size
    if stop > t.words or start + t.head > stop:
        return WHENCE_DAMAGED
    at = t.data + WORD * start
    value = u32(at + 4 * number, False) if t.width == 4 else u64(at + 8 * number, False)
    at += t.fields * t.width
    begin = u16(at + FIELD_END * (number - 1), False) if number else 0
    end = u16(at + FIELD_END * number, False)
    if begin == end:
        return value
    bit = (row % PACKED_ROWS) * u16(at + FIELD_END * (t.fields - 1), False) + begin
    size = end - begin
    if begin > end or size > 64 or bit + size > (stop - start - t.head) * 64:
        return WHENCE_DAMAGED
    at = t.data + WORD * (start + t.head) + (bit >> 3)
    bit &= 7
    value += (u64(at, False) >> bit) & (<unsigned long long>-1 >> (64 - size))
    if bit + size > 64:
        value += (<unsigned long long>at[8] << (64 - bit)) & (<unsigned long long>-1 >> (64 - size))
    return value


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
