"""Archives byte by byte, as the format's document and the Go package lay them out, without whence's writer."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from dataclasses import dataclass, field

import google_crc32c

from tests.forge.lines import uleb

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
        header, at = bytearray(b".dia" + struct.pack("<I", 1)), 0x80
        for width, count, body in (
            (self.va_width, len(self.rows), vas),
            (self.width, len(self.rows), fields),
            (None, len(self.strings), self.strings),
            (self.line_width, len(self.lines), entries),
        ):
            if width is not None:
                header += struct.pack("<Q", width)
            header += struct.pack("<QQII", count, at, google_crc32c.value(body), 0)
            at += len(body)
        assert len(header) == 0x80
        return bytes(header) + vas + fields + self.strings + entries + self.tail


# The compact form (docs/formats/compact.md)

ROWS, STRINGS = 64, 16  # of a block


def packed(rows: Sequence[tuple[int, ...]], fields: int, width: int = 4) -> bytes:
    """A packed table: directory, blocks, a word of zeros."""
    blocks = []
    for first in range(0, len(rows), ROWS):
        block = rows[first : first + ROWS]
        bases = [min(row[field] for row in block) for field in range(fields)]
        sizes = [max(row[field] - base for row in block).bit_length() for field, base in enumerate(bases)]
        ends = [sum(sizes[: field + 1]) for field in range(fields)]
        bits = at = 0
        for row in block:
            for value, base, size in zip(row, bases, sizes, strict=True):
                bits |= value - base << at
                at += size
        head = b"".join(base.to_bytes(width, "little") for base in bases) + struct.pack(f"<{fields}H", *ends)
        blocks.append(head + bytes(-len(head) % 8) + bits.to_bytes((at + 63) // 64 * 8, "little"))
    place = (4 * (len(blocks) + 1) + 7) // 8
    places = [place := place + len(block) // 8 for block in [b"", *blocks]]
    directory = struct.pack(f"<{len(places)}I", *places)
    return directory + bytes(-len(directory) % 8) + b"".join(blocks) + bytes(8)


def shared(strings: Sequence[tuple[int, bytes]]) -> bytes:
    """Strings as (how many bytes of the one before, the rest)."""
    entries = [uleb(common) + uleb(len(rest)) + rest for common, rest in strings]
    blocks = [b"".join(entries[first : first + STRINGS]) for first in range(0, len(entries), STRINGS)]
    place = 4 * (len(blocks) + 1)
    return struct.pack(f"<{len(blocks) + 1}I", *[place := place + len(one) for one in [b"", *blocks]]) + b"".join(
        blocks
    )


def compact(
    rows: Sequence[tuple[int, ...]], strings: bytes, names: int, lines: Sequence[tuple[int, int]] = ()
) -> bytes:
    """An archive in the compact form; `rows` are those of Forged with numbers of the strings, of which there are
    `names`."""
    va_width = 8 if any(row[0] >> 32 for row in rows) else 4
    width = 8 if any(value >> 32 for row in rows for value in row[1:]) else 4
    tables = packed([row[:1] for row in rows], 1, va_width), packed([row[1:] for row in rows], 8, width)
    entries = packed(lines, 2)
    header, at = bytearray(b".dic" + struct.pack("<I", 1)), 0x80
    for count, body, last in (
        (len(rows), tables[0], va_width),
        (len(rows), tables[1], width),
        (None, strings, names),
        (len(lines), entries, 4),
    ):
        header += struct.pack("<Q", len(body)) + (b"" if count is None else struct.pack("<Q", count))
        header += struct.pack("<QII", at, google_crc32c.value(body), last)
        at += len(body)
    return b"".join((header, *tables, strings, entries))
