"""CRC32C, the checksum of an archive's sections."""

from __future__ import annotations

from array import array

from whence.lidia.kernels import checksum as kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Buffer

STEP = 1 << 20  # bytes between which Ctrl-C works
TABLES = array("I", bytes(array("I").itemsize * kernel.ENTRIES))
kernel.fill_tables(TABLES)


def crc32c(parts: Iterable[Buffer]) -> int:
    """Return the CRC32C of the concatenation of parts.

    >>> hex(crc32c([b"1234", b"56789"]))
    '0xe3069283'
    """
    value = 0
    for part in parts:
        view = memoryview(part)
        for offset in range(0, len(view), STEP):
            value = kernel.crc32c(view[offset : offset + STEP], value, TABLES)
    return value
