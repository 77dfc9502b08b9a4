"""The CRC-32 of a file, as in debug links, in time proportional to the bytes that the file stores."""

from __future__ import annotations

import errno
import os
from zlib import crc32

from whence._base.files import read_at

BLOCK = 1 << 22
POLYNOMIAL = 0xEDB88320


def stored_crc32(descriptor: int, size: int) -> int:
    """Return the CRC-32 of the first `size` bytes of a file. Holes are computed, not read."""
    crc = offset = 0
    while offset < size:
        start, end = _stored(descriptor, offset, size)
        crc = crc32_of_zeros(crc, start - offset)
        for offset in range(start, end, BLOCK):
            crc = crc32(read_at(descriptor, min(BLOCK, end - offset), offset), crc)
        offset = end
    return crc


def _stored(descriptor: int, offset: int, size: int) -> tuple[int, int]:
    """Return the start and end of the first stored bytes at or after `offset`; (size, size) if there are none."""
    if not hasattr(os, "SEEK_DATA"):
        return offset, size
    try:
        start = os.lseek(descriptor, offset, os.SEEK_DATA)
    except OSError as error:
        return (
            (size, size) if error.errno == errno.ENXIO else (offset, size)
        )  # or the file system does not report holes
    return min(start, size), min(os.lseek(descriptor, start, os.SEEK_HOLE), size)


def crc32_of_zeros(crc: int, count: int) -> int:
    """Return the CRC-32 of bytes whose CRC-32 is `crc`, followed by `count` zero bytes. Takes log(count) steps.

    A zero byte multiplies the register by x^8 modulo the polynomial; squaring gives x^16, x^32 and so on. The lowest
    bit is the highest power.

    >>> import zlib
    >>> crc32_of_zeros(zlib.crc32(b"whence"), 1000) == zlib.crc32(b"whence" + bytes(1000))
    True
    """
    register, power = crc ^ 0xFFFFFFFF, 1 << (31 - 8)
    while count:
        if count & 1:
            register = _crc32_product(register, power)
        power = _crc32_product(power, power)
        count >>= 1
    return register ^ 0xFFFFFFFF


def _crc32_product(left: int, right: int) -> int:
    product = 0
    for bit in range(31, -1, -1):
        if right >> bit & 1:
            product ^= left
        left = left >> 1 ^ (POLYNOMIAL if left & 1 else 0)
    return product
