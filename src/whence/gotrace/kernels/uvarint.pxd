# Read and write unsigned varints and decimals.
#
# A uvarint is a ULEB128 number of at most ten bytes and 64 bits. More bytes than the value needs are legal: the runtime
# pads numbers that it fills in later.

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
    const unsigned char *pos, const unsigned char *end, unsigned long long *value
) noexcept nogil:
    """Return the number of bytes read; 0 if the number is cut off, -1 if it has more than 64 bits."""
    cdef unsigned long long result
    cdef unsigned char byte
    cdef int shift = 7
    cdef int size = 1
    if pos >= end:
        return 0
    byte = pos[0]
    if byte < MORE:
        value[0] = byte
        return 1
    result = byte & 0x7F
    while size < 10:
        if pos + size >= end:
            return 0
        byte = pos[size]
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
    """Write a uvarint in `extra` more bytes than it needs; return the end."""
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
    const unsigned char *pos, const unsigned char *end, unsigned long long *value
) noexcept nogil:
    """Read digits; return their end, or NULL if there are none or the value has more than 64 bits."""
    cdef unsigned long long result = 0
    cdef unsigned int digit
    cdef const unsigned char *begin = pos
    while pos < end:
        digit = <unsigned int> pos[0] - 48
        if digit > 9:
            break
        if result >= WHENCE_TENTH and (result > WHENCE_TENTH or digit > 5):
            return NULL
        result = result * 10 + digit
        pos += 1
    value[0] = result
    return NULL if pos == begin else pos


cdef inline unsigned long long take(
    const unsigned char **cursor, const unsigned char *end, int *fault
) noexcept nogil:
    """Read a uvarint and advance `cursor`; sets `fault` if the number is cut off or too large."""
    cdef unsigned long long value = 0
    cdef const unsigned char *pos = cursor[0]
    cdef int size
    if end - pos >= 2:
        if pos[0] < MORE:
            cursor[0] = pos + 1
            return pos[0]
        if pos[1] < MORE:
            cursor[0] = pos + 2
            return (pos[0] & 0x7F) | (<unsigned int> pos[1] << 7)
    size = read_uvarint(pos, end, &value)
    if size <= 0:
        fault[0] = OUT_OF_BATCH if size == 0 else BAD_UVARINT
        return 0
    cursor[0] = pos + size
    return value
