# Numbers of an archive, as bytes.

cdef inline unsigned char *store(unsigned char *out, unsigned long long value, int width) noexcept nogil:
    """Write a little-endian number of 2, 4 or 8 bytes; return the end."""
    cdef int byte
    if width == 4:
        for byte in range(4):
            out[byte] = <unsigned char>(value >> (8 * byte))
    elif width == 8:
        for byte in range(8):
            out[byte] = <unsigned char>(value >> (8 * byte))
    else:
        for byte in range(2):
            out[byte] = <unsigned char>(value >> (8 * byte))
    return out + width
