# Read the numbers of traces: varints, which the runtime pads where it fills them in later, and decimals.

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
from whence.kernels.bytes cimport LEB_CUT_OFF, MORE, uvarint


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
    size = uvarint(pos, end, &value)
    if size <= 0:
        fault[0] = OUT_OF_BATCH if size == LEB_CUT_OFF else BAD_UVARINT
        return 0
    cursor[0] = pos + size
    return value
