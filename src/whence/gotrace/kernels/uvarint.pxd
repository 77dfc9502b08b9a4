# Unsigned varints and decimals, inlined into each kernel of this room.
#
# A uvarint has seven bits a byte, lowest first; the eighth bit says that another byte follows. Ten bytes at most, and
# the tenth holds one bit. More bytes than the value needs are legal: the runtime pads what it fills in later.

cdef extern from *:
    """
    static inline int whence_uvarint_size(unsigned long long value) {
        return (63 - __builtin_clzll(value | 1)) / 7 + 1;
    }
    #define WHENCE_TENTH 1844674407370955161ULL
    #define WHENCE_32_BITS 0xFFFFFFFFULL
    """
    const unsigned long long WHENCE_TENTH    # of 2**64, rounded down
    const unsigned long long WHENCE_32_BITS
    int whence_uvarint_size(unsigned long long value) noexcept nogil

from whence.gotrace.kernels.constants cimport BAD_UVARINT, OUT_OF_BATCH
from whence.kernels.bytes cimport MORE, put_uleb


cdef inline int read_uvarint(
    const unsigned char *at, const unsigned char *end, unsigned long long *value
) noexcept nogil:
    """Bytes read; 0 when they end first, -1 when there are more than 64 bits."""
    cdef unsigned long long result
    cdef unsigned char byte
    cdef int shift = 7
    cdef int size = 1
    if at >= end:
        return 0
    byte = at[0]
    if byte < MORE:
        value[0] = byte
        return 1
    result = byte & 0x7F
    while size < 10:
        if at + size >= end:
            return 0
        byte = at[size]
        size += 1
        if byte < MORE:
            if size == 10 and byte > 1:
                return -1
            value[0] = result | (<unsigned long long> byte << shift)
            return size
        result |= <unsigned long long> (byte & 0x7F) << shift
        shift += 7
    return -1


cdef inline unsigned char *put_padded(unsigned char *out, unsigned long long value, int extra) noexcept nogil:
    """Write a uvarint with `extra` more bytes than it needs; returns where the next byte goes."""
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


cdef inline const unsigned char *read_decimal(
    const unsigned char *at, const unsigned char *end, unsigned long long *value
) noexcept nogil:
    """Read digits; returns where they end, or NULL when there are none or the value has more than 64 bits."""
    cdef unsigned long long result = 0
    cdef unsigned int digit
    cdef const unsigned char *begin = at
    while at < end:
        digit = <unsigned int> at[0] - 48
        if digit > 9:
            break
        if result >= WHENCE_TENTH and (result > WHENCE_TENTH or digit > 5):
            return NULL
        result = result * 10 + digit
        at += 1
    value[0] = result
    return NULL if at == begin else at


cdef inline unsigned long long take(
    const unsigned char **at, const unsigned char *end, int *fault
) noexcept nogil:
    """Read a uvarint and go on behind it: one or two bytes without a loop. Its end or its size may be a fault."""
    cdef unsigned long long value = 0
    cdef const unsigned char *here = at[0]
    cdef int got
    if end - here >= 2:
        if here[0] < MORE:
            at[0] = here + 1
            return here[0]
        if here[1] < MORE:
            at[0] = here + 2
            return (here[0] & 0x7F) | (<unsigned int> here[1] << 7)
    got = read_uvarint(here, end, &value)
    if got <= 0:
        fault[0] = OUT_OF_BATCH if got == 0 else BAD_UVARINT
        return 0
    at[0] = here + got
    return value
