"""Archives byte by byte, as the format's document and the Go package lay them out, without whence's writer."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import crc32c

OVERFLOW = b"\0\0\0\0\x0a\0\0\0[overflow]"


def prefixed(*names: bytes) -> tuple[bytes, dict[bytes, int]]:
    """A length-prefixed string table that begins as the Go package's does, and where each name starts."""
    table, places = bytearray(OVERFLOW), {b"": 0}
    for name in names:
        if name not in places:
            places[name] = len(table)
            table += struct.pack("<I", len(name)) + name
    return bytes(table), places


def terminated(*names: bytes) -> tuple[bytes, dict[bytes, int]]:
    """A NUL-terminated string table, and where each name starts."""
    table, places = bytearray(b"\0"), {b"": 0}
    for name in names:
        if name not in places:
            places[name] = len(table)
            table += name + b"\0"
    return bytes(table), places


@dataclass
class Forged:
    """`rows` are (va, length, depth, function, file, line index, line count, call file, call line) as stored."""

    rows: Sequence[tuple[int, ...]]
    strings: bytes = OVERFLOW
    lines: list[tuple[int, int]] = field(default_factory=list)
    va_width: int = 4
    width: int = 4
    line_width: int = 2
    tail: bytes = b""

    def bytes(self) -> bytes:
        codes = {2: "H", 4: "I", 8: "Q"}
        vas = b"".join(struct.pack("<" + codes[self.va_width], row[0]) for row in self.rows)
        fields = b"".join(struct.pack("<8" + codes[self.width], *row[1:]) for row in self.rows)
        entries = b"".join(struct.pack("<2" + codes[self.line_width], *entry) for entry in self.lines)
        header, offset = bytearray(b".dia" + struct.pack("<I", 1)), 0x80
        for width, count, body in (
            (self.va_width, len(self.rows), vas),
            (self.width, len(self.rows), fields),
            (None, len(self.strings), self.strings),
            (self.line_width, len(self.lines), entries),
        ):
            if width is not None:
                header += struct.pack("<Q", width)
            header += struct.pack("<QQII", count, offset, crc32c.crc32c(body), 0)
            offset += len(body)
        assert len(header) == 0x80
        return bytes(header) + vas + fields + self.strings + entries + self.tail
