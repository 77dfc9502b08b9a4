"""The files that complete a file, as it names them. debug_files.py finds them."""

from __future__ import annotations

from whence._base.errors import ElfError
from whence._base.records import Record
from whence._base.window import ByteOrder, Window


class DebugLink(Record, frozen=True):
    """.gnu_debuglink: the file with the debug info, and the CRC32 (IEEE, as zlib computes it) of all its bytes."""

    name: str
    crc: int


class AltLink(Record, frozen=True):
    """.gnu_debugaltlink: the supplementary file that dwz moved shared DWARF into, and its build-id in hex."""

    name: str
    build_id: str


def read_debug_link(content: memoryview, order: ByteOrder) -> DebugLink:
    window = Window(content, ".gnu_debuglink", order, ElfError)
    name = window.cstring(0)
    return DebugLink(name.decode("utf-8", "surrogateescape"), window.u32((len(name) + 4) & ~3))


def read_alt_link(content: memoryview, order: ByteOrder) -> AltLink:
    window = Window(content, ".gnu_debugaltlink", order, ElfError)
    name = window.cstring(0)
    return AltLink(name.decode("utf-8", "surrogateescape"), bytes(content[len(name) + 1 :][:64]).hex())
