"""CRC32C (Castagnoli), as the archive's sections carry it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Buffer

_STEP = 1 << 20


def crc32c(parts: Iterable[bytes]) -> int:
    """Of several parts one after the other."""
    import google_crc32c

    value = 0
    for part in parts:
        value = google_crc32c.extend(value, part)
    return value


def crc32c_of(data: Buffer) -> int:
    """Of a view, a piece at a time.

    >>> hex(crc32c_of(b"123456789"))
    '0xe3069283'
    """
    view = memoryview(data)
    return crc32c(bytes(view[at : at + _STEP]) for at in range(0, len(view), _STEP))
