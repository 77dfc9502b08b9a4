# UTF-8 (RFC 3629): sequences of one to four bytes.

cdef enum:
    ONE_BYTE_END = 0x80  # the first character of two bytes, as the following
    TWO_BYTES_END = 0x800
    THREE_BYTES_END = 0x10000
    LAST_CHARACTER = 0x10FFFF
    SURROGATES = 0xD800  # [SURROGATES, SURROGATES_END) are not characters
    SURROGATES_END = 0xE000
    REPLACEMENT = 0xFFFD  # for invalid bytes
    LEAD_OF_TWO = 0xC2  # first bytes; 0xC0 and 0xC1 would begin characters of one byte
    LEAD_OF_THREE = 0xE0
    LEAD_OF_FOUR = 0xF0
    LAST_LEAD = 0xF4
    TAIL = 0x80  # the top bits of every other byte
    TAIL_MASK = 0xC0
    TAIL_BITS = 0x3F


cdef inline int utf8_character(const unsigned char* at, Py_ssize_t left, unsigned int* character) noexcept nogil:
    """Return the size of the sequence of two to four bytes at `at`, and its character; 0 for invalid bytes."""
    cdef unsigned int first = at[0], value, least
    cdef int size, index
    if first < LEAD_OF_TWO or first > LAST_LEAD:
        return 0
    if first < LEAD_OF_THREE:
        size, value, least = 2, first & 0x1F, ONE_BYTE_END
    elif first < LEAD_OF_FOUR:
        size, value, least = 3, first & 0x0F, TWO_BYTES_END
    else:
        size, value, least = 4, first & 0x07, THREE_BYTES_END
    if left < size:
        return 0
    for index in range(1, size):
        if at[index] & TAIL_MASK != TAIL:
            return 0
        value = value << 6 | (at[index] & TAIL_BITS)
    if value < least or value > LAST_CHARACTER or SURROGATES <= value < SURROGATES_END:
        return 0
    character[0] = value
    return size
