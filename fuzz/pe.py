"""PE files and COFF object files: sections, symbols, exports, function starts, relocations, debug info."""

from __future__ import annotations

from tests.helpers.objects import read_all
from tests.helpers.pe import image, object_file
from whence.objects.pe import PeFile


def seeds() -> list[bytes]:
    return [image(), image(0xAA64), image(0x14C, wide=False), object_file(), object_file(big=True)]


def target(data: bytes) -> None:
    read_all(PeFile.from_bytes, data)
