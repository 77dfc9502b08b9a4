"""The bytes of an archive, version 1: header, VA table, range table, strings, line tables. Little-endian, no padding.

    0x00  4   magic 2e 64 69 61
    0x04  4   version, 1
    0x08  32  VA table      entry size (4, 8) u64 · count u64 · file offset u64 · CRC32C u32 · reserved u32
    0x28  32  range table   field size (4, 8) u64 · count u64 · file offset u64 · CRC32C u32 · reserved u32
    0x48  24  strings       size in bytes u64     · file offset u64 · CRC32C u32 · reserved u32
    0x60  32  line tables   field size (2, 4) u64 · count u64 · file offset u64 · CRC32C u32 · reserved u32
    0x80

A range is eight fields: length, depth, function, file, line index, line count, call file, call line. Names are offsets
into the strings; a line entry is two fields, the offset from the range's vaddr and the line. The numbers that kernels
need too are in kernels/queries.pxd.

After the line tables there may be an extra section, which readers of the documented format ignore:

    chunks: tag (4 ASCII letters) · u32 0 · u64 size · content
    footer, the last 32 bytes of the file:
      0x00  8  file offset of the first chunk, which is the end of the line tables
      0x08  8  size of all chunks
      0x10  4  CRC32C of all chunks; 0: no checksum
      0x14  4  version, 1
      0x18  8  magic "\\0whence+"

    tag   content
    BLID  the build-id, raw
    MACH  the machine, text
    PROD  the program that wrote the archive, text
    FROM  the files that the archive was made from, text, one line each
    SEGS  the executable segments of the file: u64 file offset, u64 vaddr, u64 size in the file
    FLAG  u32; bit 0: functions do not overlap and none is empty, so a search backwards may end at the first function
    SRCB  a byte per range: the table that named it (model.Source)
    SRCR  runs of equal bytes of SRCB: u32 count, the u32 first range of each run, the byte of each run
    STRT  where functions start: rows of u32 function, u32 file (offsets in the strings), u32 line, in that order
    COLS  columns, if requested: u32 size of a column in bytes (1, 2 or 4), u32 0, then the column of each line entry,
          then that of each range's call; 0 is unknown
    DISC  discriminators, if there are any: u32 count of line entries with one, u32 0, then for each of them u32 line
          entry, u32 discriminator, then for each range whose call has one u32 range, u32 discriminator, in order
    UNWD  unwind tables, if requested: unwind.py

Chunks with other tags are skipped. A damaged extra section never stops a lookup: `Table.info` and `verify` report it.
"""

from __future__ import annotations

import struct
import sys

from whence._base.budget import Budget
from whence._base.errors import UNSUPPORTED, ChecksumError, FormatError, LidiaError, cut_off, empty_file, wrong_magic
from whence._base.records import Record, replaced
from whence.lidia.checksum import crc32c
from whence.lidia.kernels.queries import (
    COLUMNS_HEAD,
    DISCRIMINATOR_SIZE,
    LINE_FIELDS,
    RANGE_FIELDS,
    START_FIELDS,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Iterable, Iterator, Sequence
    from typing import Final


MAGIC: Final = b".dia"
COMPACT_MAGIC: Final = b".dic"  # a form that earlier versions wrote on request
MAGICS: Final = (MAGIC, COMPACT_MAGIC)  # of files recognized as archives; compact ones are refused
VERSION: Final = 1
HEADER_SIZE: Final = 0x80

_HEADER: Final = struct.Struct("<4sI QQQII QQQII QQII QQQII")
assert _HEADER.size == HEADER_SIZE

FOOTER: Final = struct.Struct("<QQII8s")
FOOTER_MAGIC: Final = b"\0whence+"
FOOTER_VERSION: Final = 1
CHUNK_HEAD: Final = struct.Struct("<4sIQ")
_SEGMENT: Final = struct.Struct("<QQQ")
START: Final = struct.Struct(f"<{START_FIELDS}I")
DISCRIMINATOR: Final = struct.Struct("<2I")
assert DISCRIMINATOR.size == DISCRIMINATOR_SIZE
TIDY: Final = 1  # of FLAG
BUILD_ID, MACHINE, PRODUCER, MADE_FROM, SEGMENTS = b"BLID", b"MACH", b"PROD", b"FROM", b"SEGS"
FLAGS, SOURCE_BYTES, SOURCE_RUNS, STARTS = b"FLAG", b"SRCB", b"SRCR", b"STRT"
COLUMNS, DISCRIMINATORS = b"COLS", b"DISC"
UNWIND = b"UNWD"
COLUMN_WIDTHS: Final = (1, 2, 4)

# Length-prefixed strings as the Go package and whence write them: "" and then this.
LENGTH_PREFIXED_START: Final = b"\0\0\0\0\x0a\0\0\0[overflow]"

# Limits of the bytes of all names and line entries, which ranges may share, when all of them are requested: a multiple
# of
# the stored bytes plus an allowance. Archives of real programs need at most 4 times the stored bytes.
NAMES_TIMES: Final = 8
NAMES_ALLOWANCE: Final = 1 << 24
LINES_TIMES: Final = 4
LINES_ALLOWANCE: Final = 1 << 20

VA_TABLE, RANGE_TABLE, STRINGS, LINE_TABLES = "VA table", "range table", "strings", "line tables"
_FIELDS: Final[dict[str, int]] = {RANGE_TABLE: RANGE_FIELDS, LINE_TABLES: LINE_FIELDS}  # of an entry


class ArchiveSection(Record, frozen=True):
    """One of the four sections. `width` is the size of an entry or field in bytes, 1 for strings."""

    name: str
    width: int
    entries: int
    offset: int
    crc: int

    @property
    def size(self) -> int:
        """The size in bytes."""
        return self.entries * self.width * _FIELDS.get(self.name, 1)

    @property
    def start(self) -> int:
        """The offset; 0 for an empty section, whose offset is not checked."""
        return self.offset if self.size else 0

    @property
    def end(self) -> int:
        """The offset of the end of the section."""
        return self.offset + self.size

    def with_crc(self, crc: int) -> ArchiveSection:
        return ArchiveSection(self.name, self.width, self.entries, self.offset, crc)

    def row_offset(self, index: int) -> int:
        """Return the offset of a row in the section."""
        return index * self.width * _FIELDS.get(self.name, 1)


class ArchiveHeader(Record, frozen=True):
    """The four sections in file order, which is the order of iteration."""

    va_table: ArchiveSection
    ranges: ArchiveSection
    strings: ArchiveSection
    lines: ArchiveSection

    def __iter__(self) -> Iterator[ArchiveSection]:
        return iter((self.va_table, self.ranges, self.strings, self.lines))

    @property
    def end(self) -> int:
        """The end of the line tables and of the documented archive."""
        return max(HEADER_SIZE, *(section.end for section in self if section.size))

    def with_crcs(self, crcs: Iterable[int]) -> ArchiveHeader:
        va_table, ranges, strings, lines = (section.with_crc(crc) for section, crc in zip(self, crcs, strict=True))
        return ArchiveHeader(va_table, ranges, strings, lines)

    def pack(self) -> bytes:
        va_table, ranges, strings, lines = self
        return _HEADER.pack(
            MAGIC, VERSION,
            va_table.width, va_table.entries, va_table.offset, va_table.crc, 0,
            ranges.width, ranges.entries, ranges.offset, ranges.crc, 0,
            strings.entries, strings.offset, strings.crc, 0,
            lines.width, lines.entries, lines.offset, lines.crc, 0,
        )  # fmt: skip

    @classmethod
    def unpack(cls, data: bytes, file_size: int) -> ArchiveHeader:
        """Parse the first 128 bytes, and check the sections against the file's size. Raises LidiaError."""
        if not data:
            raise empty_file(LidiaError)
        if data[:4] == COMPACT_MAGIC:
            fault = "a compact archive (magic .dic), which this version does not read"
            error = LidiaError("header", 0, fault, code=UNSUPPORTED)
            raise error.with_hint("create it again: whence lidia create BINARY")
        if data[:4] != MAGIC:
            hint = "whence lidia create makes an archive of an ELF file" if data[:4] == b"\x7fELF" else ""
            raise wrong_magic(LidiaError, "an archive", data[:4], MAGIC).with_hint(hint)
        if len(data) < HEADER_SIZE:
            raise cut_off(LidiaError, "header", 0, HEADER_SIZE, len(data))
        (_, version, va_width, va_count, va_offset, va_crc, _, width, count, offset, crc, _, size, strings_offset,
         strings_crc, _, line_width, line_count, line_offset, line_crc, _,
        ) = _HEADER.unpack_from(data)  # fmt: skip
        header = cls(
            ArchiveSection(VA_TABLE, va_width, va_count, va_offset, va_crc),
            ArchiveSection(RANGE_TABLE, width, count, offset, crc),
            ArchiveSection(STRINGS, 1, size, strings_offset, strings_crc),
            ArchiveSection(LINE_TABLES, line_width, line_count, line_offset, line_crc),
        )
        if version != VERSION:
            fault = f"archive version {version}, expected {VERSION}"
            raise LidiaError("header", 4, fault, found=version, code=UNSUPPORTED)
        header._check_widths()
        header._check_order(file_size)
        return header

    def _check_widths(self) -> None:
        for section, offset, what, widths in (
            (self.va_table, 0x08, "an entry of the VA table", (4, 8)),
            (self.ranges, 0x28, "a field of the range table", (4, 8)),
            (self.lines, 0x60, "a field of the line tables", (2, 4)),
        ):
            if section.width not in widths:
                fault = f"{what} has {section.width} bytes, expected {widths[0]} or {widths[1]}"
                raise LidiaError("header", offset, fault, found=section.width)
        if self.ranges.entries != self.va_table.entries:
            fault = f"there are {self.ranges.entries} ranges, expected {self.va_table.entries}, the number of VAs"
            raise LidiaError("header", 0x30, fault, found=self.ranges.entries)

    def _check_order(self, file_size: int) -> None:
        """Check that each non-empty section begins at the end of the previous one, and that all are inside the file."""
        end = HEADER_SIZE
        for section, field in zip(self, (0x18, 0x38, 0x50, 0x70), strict=True):
            if section.size == 0:
                continue
            if section.offset != end:
                fault = f"the offset of the {section.name} is {section.offset:#x}, expected {end:#x}"
                raise LidiaError("header", field, fault, found=section.offset)
            end = section.end
            if end > file_size:
                raise cut_off(LidiaError, section.name, 0, section.size, max(0, file_size - section.offset))


class Extra(Record, frozen=True):
    """The origin of an archive, from its extra section.

    `build_id` is in hex; a missing text is "". `made_from` has the paths of the files that the archive was made from.
    `segments` are (file offset, vaddr, size in the file) of the executable segments, in bytes. `tidy` is True if
    functions do not overlap and none is empty.

    >>> Extra(build_id="00ff", machine="x86-64").replaced(producer="me").producer
    'me'
    """

    build_id: str = ""
    machine: str = ""
    producer: str = ""
    made_from: tuple[str, ...] = ()
    tidy: bool = False
    segments: tuple[tuple[int, int, int], ...] = ()
    unwind: bytes = b""  # the content of UNWD when writing; when reading, see Table.unwind

    def replaced(self, **changes: object) -> Extra:
        """Return a copy with other values of some fields."""
        return replaced(self, **changes)


def pack_extra(
    extra: Extra,
    sources: bytes,
    runs: tuple[Sequence[int], bytes] | None,
    offset: int,
    declared: bytes = b"",
    *,
    columns: Iterable[tuple[bytes, bytes]] = (),
    crc: bool = True,
) -> bytes:
    """Return the bytes of the chunks and the footer.

    Args:
        sources: the bytes of SRCB, one per range.
        runs: the first ranges and values of SRCR, which is written if it is shorter than SRCB.
        offset: the end of the line tables.
        declared: the rows of STRT.
        columns: (tag, content) of the chunks of columns.
        crc: store a checksum, else 0.
    """
    chunks = []
    for tag, content in (
        (BUILD_ID, bytes.fromhex(extra.build_id)),
        (MACHINE, extra.machine.encode()),
        (PRODUCER, extra.producer.encode()),
        (MADE_FROM, "\n".join(extra.made_from).encode("utf-8", "surrogateescape")),
        (SEGMENTS, b"".join(_SEGMENT.pack(*segment) for segment in extra.segments)),
        (FLAGS, struct.pack("<I", TIDY if extra.tidy else 0)),
        (UNWIND, extra.unwind),
    ):
        if content:
            chunks.append((tag, content))
    if runs is not None and 4 + 5 * len(runs[0]) < len(sources):
        starts, values = runs
        chunks.append((SOURCE_RUNS, struct.pack(f"<I{len(starts)}I", len(starts), *starts) + values))
    elif sources:
        chunks.append((SOURCE_BYTES, sources))
    if declared:
        chunks.append((STARTS, declared))
    chunks += columns
    body = b"".join(CHUNK_HEAD.pack(tag, 0, len(content)) + content for tag, content in chunks)
    return body + FOOTER.pack(offset, len(body), crc32c([body]) if crc else 0, FOOTER_VERSION, FOOTER_MAGIC)


def little_endian(numbers: array[int]) -> bytes:
    """Return the little-endian bytes of numbers."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


class ExtraSection:
    """The extra section of an archive whose line tables end at `end`; without a section there are no chunks.

    Only the footer and the heads of the chunks are read. `chunks` maps tags to (file offset, size); `problem` is the
    error in the section, or None.
    """

    __slots__ = ("_crc", "_data", "_end", "_start", "chunks", "problem")

    def __init__(self, data: memoryview, end: int) -> None:
        self._data, self._crc, self._start, self._end = data, 0, 0, 0
        self.chunks: dict[bytes, tuple[int, int]] = {}
        self.problem: LidiaError | None = None
        position = len(data) - FOOTER.size
        if position < 0:
            return
        offset, size, crc, version, magic = FOOTER.unpack_from(data, position)
        if magic != FOOTER_MAGIC:
            return
        if offset > position or offset + size != position:
            fault = f"{size} bytes of chunks begin at {offset:#x}, but must end at {position:#x}"
            self.problem = LidiaError("footer", position + 8, fault)
            return
        if version != FOOTER_VERSION:
            fault = f"version {version} of the extra section, expected {FOOTER_VERSION}"
            self.problem = LidiaError("footer", position + 0x14, fault)
            return
        chunks: dict[bytes, tuple[int, int]] = {}
        cursor = offset
        while cursor < position:
            if position - cursor < CHUNK_HEAD.size:
                fault = f"a chunk has {position - cursor} bytes, fewer than the {CHUNK_HEAD.size} of its head"
                self.problem = LidiaError("extra", cursor, fault)
                return
            tag, _, length = CHUNK_HEAD.unpack_from(data, cursor)
            cursor += CHUNK_HEAD.size
            if length > position - cursor:
                fault = f"a chunk has {length} bytes, but {position - cursor} are left"
                self.problem = LidiaError("extra", cursor, fault)
                return
            chunks.setdefault(tag, (cursor, length))
            cursor += length
        self.chunks, self._crc, self._start, self._end = chunks, crc, offset, position
        if offset != end:
            fault = f"the chunks begin at {offset:#x}, expected {end:#x}, the end of the line tables"
            self.problem = LidiaError("footer", position, fault)

    def check(self) -> None:
        """Raise LidiaError if the section is malformed, ChecksumError if its checksum is wrong."""
        if self.problem is not None:
            raise self.problem
        computed = crc32c([self._data[self._start : self._end]]) if self._crc else 0
        if computed != self._crc:
            raise wrong_crc("extra section", self._crc, computed)

    def content(self, tag: bytes) -> bytes:
        """Return the bytes of a chunk; b"" without the chunk."""
        offset, size = self.chunks.get(tag, (0, 0))
        return bytes(self._data[offset : offset + size])

    def view(self, tag: bytes) -> memoryview:
        """Return a view of a chunk; empty without the chunk."""
        offset, size = self.chunks.get(tag, (0, 0))
        return self._data[offset : offset + size]

    def read(self) -> Extra:
        """Decode the chunks that Extra has. Malformed chunks are left out."""
        flags, segments = self.content(FLAGS), self.content(SEGMENTS)
        machine, producer, files = (
            self.content(tag).decode("utf-8", "surrogateescape") for tag in (MACHINE, PRODUCER, MADE_FROM)
        )
        return Extra(
            self.content(BUILD_ID).hex(),
            machine,
            producer,
            tuple(files.split("\n")) if files else (),
            len(flags) == 4 and bool(flags[0] & TIDY),
            tuple(_SEGMENT.iter_unpack(segments[: len(segments) // _SEGMENT.size * _SEGMENT.size])),
        )


class ArchiveSections:
    """Offsets (in the file), widths (in bytes) and counts of an archive's sections and chunks, all inside its bytes.

    Kernels read the attributes by name. `sources` is the count of SRCB, `runs` that of SRCR; at most one is not 0.
    `column_width` is 0 without columns.
    """

    __slots__ = (
        "call_discriminators", "column_offset", "column_width", "discriminator_offset", "entries", "field_width",
        "line_discriminators", "line_offset", "line_width", "nul", "range_offset", "ranges", "run_offset", "runs",
        "source_offset", "sources", "start_offset", "starts", "string_offset", "string_size", "tidy", "va_offset",
        "va_width",
    )  # fmt: skip

    def __init__(self, data: memoryview, header: ArchiveHeader, extra: ExtraSection, *, nul: bool, tidy: bool) -> None:
        self.va_offset, self.va_width, self.ranges = (
            header.va_table.start,
            header.va_table.width,
            header.va_table.entries,
        )
        self.range_offset, self.field_width = header.ranges.start, header.ranges.width
        self.string_offset, self.string_size, self.nul = header.strings.start, header.strings.entries, nul
        self.line_offset, self.line_width, self.entries = header.lines.start, header.lines.width, header.lines.entries
        self.tidy = tidy
        self.source_offset, self.sources = extra.chunks.get(SOURCE_BYTES, (0, 0))
        self.run_offset = self.runs = 0
        if self.sources != self.ranges:
            self.sources = 0
            offset, size = extra.chunks.get(SOURCE_RUNS, (0, 0))
            runs = int.from_bytes(data[offset : offset + 4], "little") if size >= 4 else 0
            if size == 4 + 5 * runs:
                self.run_offset, self.runs = offset + 4, runs
        self.start_offset, size = extra.chunks.get(STARTS, (0, 0))
        self.starts = size // START.size
        self.column_offset = self.column_width = 0
        self.discriminator_offset = self.line_discriminators = self.call_discriminators = 0
        offset, size = extra.chunks.get(COLUMNS, (0, 0))
        width = int.from_bytes(data[offset : offset + 4], "little") if size >= COLUMNS_HEAD else 0
        if width in COLUMN_WIDTHS and size == COLUMNS_HEAD + width * (self.entries + self.ranges):
            self.column_offset, self.column_width = offset + COLUMNS_HEAD, width
        offset, size = extra.chunks.get(DISCRIMINATORS, (0, 0))
        rows, rest = divmod(size - COLUMNS_HEAD, DISCRIMINATOR_SIZE)
        count = int.from_bytes(data[offset : offset + 4], "little") if rows >= 0 else 0
        if self.column_width and count <= rows and not rest:
            self.discriminator_offset = offset + COLUMNS_HEAD
            self.line_discriminators, self.call_discriminators = count, rows - count


def too_many_names(part: str, what: str, stored: int) -> FormatError:
    """Return the error for names that overlap so much that they exceed the limit of the stored bytes."""
    return Budget(part, what, stored, times=NAMES_TIMES, allowance=NAMES_ALLOWANCE, error=LidiaError).reached()


def wrong_crc(section: str, stored: int, computed: int) -> ChecksumError:
    """Return the error for a section with a wrong checksum."""
    return ChecksumError("", None, f"the CRC32C of the {section} is {computed:#010x}, expected {stored:#010x}")
