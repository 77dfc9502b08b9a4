"""The bytes of an archive, version 1: header, VA table, range table, strings, line tables. Little-endian, no padding.

    0x00  4   magic 2e 64 69 61
    0x04  4   version, 1
    0x08  32  VA table      entry size (4, 8) u64 · count u64 · file offset u64 · CRC32C u32 · reserved u32
    0x28  32  range table   field size (4, 8) u64 · count u64 · file offset u64 · CRC32C u32 · reserved u32
    0x48  24  strings       size in bytes u64     · file offset u64 · CRC32C u32 · reserved u32
    0x60  32  line tables   field size (2, 4) u64 · count u64 · file offset u64 · CRC32C u32 · reserved u32
    0x80

A range is eight fields: length, depth, function, file, line index, line count, call file, call line. Names are offsets
into the strings; a line entry is two fields, the offset from the range's va and the line. What may stand behind the
line tables is described in extra.py.
"""

from __future__ import annotations

import struct
from typing import Final, NamedTuple

from whence.errors import FormatError, LidiaError, cut_off, empty_file, wrong_magic

MAGIC: Final = b".dia"
VERSION: Final = 1
HEADER_SIZE: Final = 0x80
RANGE_FIELDS: Final = 8
LINE_FIELDS: Final = 2

_LAYOUT: Final = struct.Struct("<4sI QQQII QQQII QQII QQQII")
assert _LAYOUT.size == HEADER_SIZE

# Length-prefixed strings as the Go package and whence write them: "" and then this.
OVERFLOW: Final = b"[overflow]"
LENGTH_PREFIXED_START: Final = b"\0\0\0\0\x0a\0\0\0" + OVERFLOW

# What names and line entries that ranges share may add up to, in bytes, where all of them are asked for: so many times
# the bytes that are stored, plus an allowance. Archives of real programs need 4 times at most.
NAMES_TIMES: Final = 8
NAMES_ALLOWANCE: Final = 1 << 24
LINES_TIMES: Final = 4
LINES_ALLOWANCE: Final = 1 << 20

NAMES: Final = ("VA table", "range table", "strings", "line tables")


class Section(NamedTuple):
    """One of the four: `width` is the size of an entry or field (1 for strings), `entries` how many there are."""

    name: str
    width: int
    entries: int
    offset: int
    crc: int

    @property
    def size(self) -> int:
        """In bytes."""
        per_entry = {"range table": RANGE_FIELDS, "line tables": LINE_FIELDS}.get(self.name, 1)
        return self.entries * self.width * per_entry

    @property
    def start(self) -> int:
        """The offset; 0 of an empty section, whose offset nothing checks."""
        return self.offset if self.size else 0

    @property
    def end(self) -> int:
        return self.offset + self.size


class Header(NamedTuple):
    """The four sections."""

    va: Section
    ranges: Section
    strings: Section
    lines: Section

    @property
    def end(self) -> int:
        """Where the line tables end: the documented archive ends here."""
        return max(HEADER_SIZE, *(section.end for section in self if section.size))

    def pack(self) -> bytes:
        va, ranges, strings, lines = self
        return _LAYOUT.pack(
            MAGIC, VERSION,
            va.width, va.entries, va.offset, va.crc, 0,
            ranges.width, ranges.entries, ranges.offset, ranges.crc, 0,
            strings.entries, strings.offset, strings.crc, 0,
            lines.width, lines.entries, lines.offset, lines.crc, 0,
        )  # fmt: skip

    @classmethod
    def unpack(cls, data: bytes, file_size: int) -> Header:
        """The header in the first 128 bytes, checked against the file's size. LidiaError says what does not hold."""
        if not data:
            raise empty_file(LidiaError)
        if data[:4] != MAGIC:
            hint = "whence lidia create makes an archive of an ELF file" if data[:4] == b"\x7fELF" else ""
            raise wrong_magic(LidiaError, "an archive", MAGIC, data[:4]).with_hint(hint)
        if len(data) < HEADER_SIZE:
            raise cut_off(LidiaError, "header", 0, HEADER_SIZE, len(data))
        (_, version, va_width, va_count, va_offset, va_crc, _, width, count, offset, crc, _, size, strings_offset,
         strings_crc, _, line_width, line_count, line_offset, line_crc, _) = _LAYOUT.unpack_from(data)  # fmt: skip
        header = cls(
            Section("VA table", va_width, va_count, va_offset, va_crc),
            Section("range table", width, count, offset, crc),
            Section("strings", 1, size, strings_offset, strings_crc),
            Section("line tables", line_width, line_count, line_offset, line_crc),
        )
        if version != VERSION:
            raise LidiaError("header", 4, f"the version is {VERSION}", version)
        header._check_widths()
        header._check_places(file_size)
        return header

    def _check_widths(self) -> None:
        if self.va.width not in (4, 8):
            raise LidiaError("header", 0x08, "an entry of the VA table has 4 or 8 bytes", self.va.width)
        if self.ranges.width not in (4, 8):
            raise LidiaError("header", 0x28, "a field of the range table has 4 or 8 bytes", self.ranges.width)
        if self.lines.width not in (2, 4):
            raise LidiaError("header", 0x60, "a field of the line tables has 2 or 4 bytes", self.lines.width)
        if self.ranges.entries != self.va.entries:
            raise LidiaError("header", 0x30, f"there are as many ranges as VAs, {self.va.entries}", self.ranges.entries)

    def _check_places(self, file_size: int) -> None:
        """Every section that has bytes begins where the one before it ends, and all are inside the file."""
        at = HEADER_SIZE
        for section, field in zip(self, (0x18, 0x38, 0x50, 0x70), strict=True):
            if section.size == 0:
                continue
            if section.offset != at:
                raise LidiaError("header", field, f"the {section.name} begins at {at:#x}", f"{section.offset:#x}")
            at = section.end
            if at > file_size:
                raise cut_off(LidiaError, section.name, 0, section.size, max(0, file_size - section.offset))


def too_many_names(part: str, what: str, stored: int) -> FormatError:
    """The error of names that overlap: more is asked for than the bytes that are stored justify."""
    from whence.budget import Budget

    return Budget(part, what, stored, times=NAMES_TIMES, allowance=NAMES_ALLOWANCE, error=LidiaError).reached()
