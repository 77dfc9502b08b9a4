# How kernels read numbers from bytes, and digits from text, and write varints. The caller has checked that they are there,
# or that there is room, except where an end is given.
#
# Written byte by byte, for hosts of either order and any alignment; compilers make one load of it (and a swap).

ctypedef unsigned long long uint64

cdef enum:  # of LEB128 and varints: seven bits a byte, low ones first
    MORE = 0x80  # another byte follows
    SIGN = 0x40  # the highest bit of an SLEB128 number, in its last byte
    LONGEST_ULEB = 10  # bytes of a number of 64 bits


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
    """`size` (1 to 8) bytes as an unsigned number."""
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


cdef inline uint64 uleb(const unsigned char* data, uint64* at, uint64 end) noexcept nogil:
    """The ULEB128 number at at[0], of which 64 bits count; at[0] moves behind it, to end + 1 when it is not whole."""
    cdef uint64 here = at[0]
    cdef uint64 value = 0
    cdef int shift = 0
    cdef unsigned char byte
    if here < end and data[here] < MORE:  # as nearly all are
        at[0] = here + 1
        return data[here]
    while here < end:
        byte = data[here]
        here += 1
        if shift < 64:
            value |= (<uint64>(byte & 0x7F)) << shift
        shift += 7
        if byte < MORE:
            at[0] = here
            return value
    at[0] = end + 1
    return 0


cdef inline uint64 sleb(const unsigned char* data, uint64* at, uint64 end) noexcept nogil:
    """The same of a SLEB128 number, as the 64 bits of its two's complement."""
    cdef uint64 here = at[0]
    cdef uint64 value = 0
    cdef int shift = 0
    cdef unsigned char byte
    while here < end:
        byte = data[here]
        here += 1
        if shift < 64:
            value |= (<uint64>(byte & 0x7F)) << shift
        shift += 7
        if byte < MORE:
            if byte & SIGN and shift < 64:
                value |= ~<uint64>0 << shift
            at[0] = here
            return value
    at[0] = end + 1
    return 0


cdef inline unsigned char* put_uleb(unsigned char* out, uint64 value) noexcept nogil:
    """Write a ULEB128 number (a varint), LONGEST_ULEB bytes at most; returns where the next byte goes."""
    while value >= MORE:
        out[0] = <unsigned char>(value | MORE)
        value >>= 7
        out += 1
    out[0] = <unsigned char>value
    return out + 1


cdef inline bint is_digit(unsigned char byte) noexcept nogil:
    return c'0' <= byte <= c'9'


cdef inline int hex_digit(unsigned char byte) noexcept nogil:
    """The value of a hexadecimal digit; -1 for what is none."""
    if is_digit(byte):
        return byte - c'0'
    if c'a' <= byte <= c'f':
        return byte - c'a' + 10
    if c'A' <= byte <= c'F':
        return byte - c'A' + 10
    return -1
