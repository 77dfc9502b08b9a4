# Numbers in bytes: fixed sizes, LEB128 and varints, digits.
#
# Functions without an end trust the caller that the bytes exist. Fixed sizes are read byte by byte, for hosts of either
# byte order and any alignment; compilers turn that into one load (and a swap).
#
# LEB128 readers: `uleb` and `sleb` by offset, with a sticky error, for long runs of numbers that are checked once;
# `checked_uleb` for numbers that are checked one by one; `uvarint` for padded numbers of exactly 64 bits.

cdef extern from *:
    """
    static inline int whence_uleb_size(unsigned long long value) {
        return (63 - __builtin_clzll(value | 1)) / 7 + 1;
    }
    """
    int uleb_size "whence_uleb_size" (unsigned long long value) noexcept nogil  # in bytes, without padding

ctypedef unsigned long long uint64

cdef enum:  # of LEB128 and varints: seven bits a byte, low ones first
    MORE = 0x80  # another byte follows
    SIGN = 0x40  # the highest bit of an SLEB128 number, in its last byte
    LONGEST_ULEB = 10  # bytes of a number of 64 bits
    LONGEST_ULEB_32 = 5
    LEB_CUT_OFF = 0  # results of `checked_uleb` and `uvarint`
    LEB_TOO_LONG = -1


cdef inline unsigned int u16(const unsigned char* at, bint big) noexcept nogil:
    if big:
        return <unsigned int>at[0] << 8 | at[1]
    return <unsigned int>at[1] << 8 | at[0]


cdef inline unsigned int u32(const unsigned char* at, bint big) noexcept nogil:
    cdef unsigned int a = at[0]
    cdef unsigned int b = at[1]
    cdef unsigned int c = at[2]
    cdef unsigned int d = at[3]
    if big:
        return a << 24 | b << 16 | c << 8 | d
    return d << 24 | c << 16 | b << 8 | a


cdef inline uint64 u64(const unsigned char* at, bint big) noexcept nogil:
    if big:
        return <uint64>u32(at, True) << 32 | u32(at + 4, True)
    return <uint64>u32(at + 4, False) << 32 | u32(at, False)


cdef inline uint64 number(const unsigned char* at, int size, bint big) noexcept nogil:
    """Return `size` (1 to 8) bytes as an unsigned number."""
    cdef uint64 value = 0
    cdef int i
    if size == 4:
        return u32(at, big)
    if size == 8:
        return u64(at, big)
    if size == 1:
        return at[0]
    if size == 2:
        return u16(at, big)
    for i in range(size):
        value = value << 8 | at[i if big else size - 1 - i]
    return value


cdef inline void store_number(unsigned char* at, int size, bint big, uint64 value) noexcept nogil:
    """Write the low `size` (1 to 8) bytes of a number."""
    cdef int i
    for i in range(size):
        at[size - 1 - i if big else i] = <unsigned char>(value & 0xFF)
        value >>= 8


cdef inline bint add_number(
    unsigned char* data, uint64 size, uint64 offset, int width, bint big, uint64 value
) noexcept nogil:
    """Add to the number of `width` bytes at an offset, modulo its bits. False if it is not inside of `data`."""
    if offset >= size or <uint64>width > size - offset:
        return False
    store_number(data + offset, width, big, number(data + offset, width, big) + value)
    return True


cdef inline uint64 uleb(const unsigned char* data, uint64* at, uint64 end) noexcept nogil:
    """Read the ULEB128 number at data[at[0]], modulo 2^64, and move at[0] to its end.

    A number cut off at `end` is 0 and moves at[0] to end + 1, from where every later read fails, too.
    """
    cdef uint64 offset = at[0]
    cdef uint64 value = 0
    cdef int shift = 0
    cdef unsigned char byte
    if offset < end and data[offset] < MORE:  # as nearly all are
        at[0] = offset + 1
        return data[offset]
    while offset < end:
        byte = data[offset]
        offset += 1
        if shift < 64:
            value |= (<uint64>(byte & 0x7F)) << shift
        shift += 7
        if byte < MORE:
            at[0] = offset
            return value
    at[0] = end + 1
    return 0


cdef inline uint64 signed_leb(uint64 value, uint64 size) noexcept nogil:
    """Extend the sign of an SLEB128 number of `size` bytes that was read as a ULEB128 number."""
    if 0 < size < LONGEST_ULEB and value >> (7 * size - 1):
        value |= ~<uint64>0 << 7 * size
    return value


cdef inline uint64 sleb(const unsigned char* data, uint64* at, uint64 end) noexcept nogil:
    """Read the SLEB128 number at data[at[0]], as the 64 bits of its two's complement; otherwise like `uleb`."""
    cdef uint64 start = at[0]
    cdef uint64 value = uleb(data, at, end)
    return signed_leb(value, at[0] - start) if at[0] <= end else 0


cdef inline int checked_uleb(const unsigned char* data, const unsigned char* end, uint64* value) noexcept nogil:
    """Read the ULEB128 number at `data`, modulo 2^64. Return its size, from 1 to LONGEST_ULEB bytes, or LEB_CUT_OFF or
    LEB_TOO_LONG.

    Padding (bytes beyond those that the value needs) is accepted up to LONGEST_ULEB bytes. An SLEB128 number is
    `signed_leb(value, size)`; a number of 32 bits has at most LONGEST_ULEB_32 bytes.
    """
    cdef int size = 0
    cdef uint64 result = 0
    if data < end and data[0] < MORE:
        value[0] = data[0]
        return 1
    while data + size < end:
        result |= <uint64>(data[size] & 0x7F) << 7 * size
        size += 1
        if data[size - 1] < MORE:
            value[0] = result
            return size
        if size == LONGEST_ULEB:
            return LEB_TOO_LONG
    return LEB_CUT_OFF


cdef inline int uvarint(const unsigned char* data, const unsigned char* end, uint64* value) noexcept nogil:
    """Read a varint of protocol buffers and Go: like `checked_uleb`, but LEB_TOO_LONG also for more than 64 bits."""
    cdef int size = checked_uleb(data, end, value)
    return LEB_TOO_LONG if size == LONGEST_ULEB and data[size - 1] > 1 else size


cdef inline unsigned char* put_uleb(unsigned char* out, uint64 value) noexcept nogil:
    """Write a ULEB128 number (a varint) in at most LONGEST_ULEB bytes. Return the end."""
    while value >= MORE:
        out[0] = <unsigned char>(value | MORE)
        value >>= 7
        out += 1
    out[0] = <unsigned char>value
    return out + 1


cdef inline unsigned char* put_padded(unsigned char* out, uint64 value, int extra) noexcept nogil:
    """Write a ULEB128 number in `extra` bytes more than it needs. Return the end."""
    out = put_uleb(out, value)
    if extra > 0:
        (out - 1)[0] |= MORE
        while extra > 1:
            out[0] = MORE
            out += 1
            extra -= 1
        out[0] = 0
        out += 1
    return out


cdef inline bint is_digit(unsigned char byte) noexcept nogil:
    return c'0' <= byte <= c'9'


cdef inline int hex_digit(unsigned char byte) noexcept nogil:
    """Return the value of a hexadecimal digit, -1 for any other byte."""
    if is_digit(byte):
        return byte - c'0'
    if c'a' <= byte <= c'f':
        return byte - c'a' + 10
    if c'A' <= byte <= c'F':
        return byte - c'A' + 10
    return -1
