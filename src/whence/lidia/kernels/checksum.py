"""CRC32C (RFC 3720, appendix B.4; reflected polynomial 0x82F63B78), eight bytes at a time."""

import cython

POLYNOMIAL = cython.declare(cython.uint, 0x82F63B78)
BYTES = cython.declare(cython.int, 256)  # values of a byte: rows of a table
WIDTH = cython.declare(cython.int, 8)  # bytes at a time, with a table for each
ENTRIES = WIDTH * BYTES


def fill_tables(out: cython.uint[::1]) -> None:
    """Fill eight tables: out[n * BYTES + byte] is the checksum of a byte with n zeros after it."""
    byte: cython.Py_ssize_t
    number: cython.Py_ssize_t
    value: cython.uint
    if out.shape[0] != ENTRIES:
        raise ValueError("the tables have another size")
    for byte in range(BYTES):
        value = cython.cast(cython.uint, byte)
        for number in range(8):
            value = value >> 1 ^ (POLYNOMIAL if value & 1 else 0)
        out[byte] = value
    for number in range(BYTES, WIDTH * BYTES):
        value = out[number - BYTES]
        out[number] = value >> 8 ^ out[value & 0xFF]


def crc32c(data: cython.const[cython.uchar][::1], value: cython.uint, tables: cython.const[cython.uint][::1]) -> int:
    """Return the checksum of bytes that follow others, whose checksum is `value` (0 at the start)."""
    offset: cython.Py_ssize_t = 0
    size: cython.Py_ssize_t = data.shape[0]
    crc: cython.uint = ~value
    if tables.shape[0] != ENTRIES:
        raise ValueError("the tables have another size")
    with cython.nogil:
        while size - offset >= WIDTH:
            crc = (
                tables[7 * BYTES + (data[offset] ^ crc & 0xFF)]
                ^ tables[6 * BYTES + (data[offset + 1] ^ crc >> 8 & 0xFF)]
                ^ tables[5 * BYTES + (data[offset + 2] ^ crc >> 16 & 0xFF)]
                ^ tables[4 * BYTES + (data[offset + 3] ^ crc >> 24)]
                ^ tables[3 * BYTES + data[offset + 4]]
                ^ tables[2 * BYTES + data[offset + 5]]
                ^ tables[BYTES + data[offset + 6]]
                ^ tables[data[offset + 7]]
            )
            offset += WIDTH
        while offset < size:
            crc = crc >> 8 ^ tables[(crc ^ data[offset]) & 0xFF]
            offset += 1
    return ~crc & 0xFFFFFFFF
