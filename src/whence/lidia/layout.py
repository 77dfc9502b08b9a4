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

What stands behind the line tables is an extra section that readers of the documented format do not see:

    chunks, one after the other: tag (4 ASCII letters) · u32 0 · u64 size · that many bytes
    footer, the last 32 bytes of the file:
      0x00  8  file offset of the first chunk, which is the end of the line tables
      0x08  8  size of all chunks
      0x10  4  CRC32C of all chunks; 0: none was made
      0x14  4  version, 1
      0x18  8  magic "\\0whence+"

    tag   content
    BLID  the build-id, raw
    MACH  the machine, text
    PROD  what wrote the archive, text
    FROM  the files it was made from, text, one a line
    SEGS  where the code of the file lies: for each executable segment u64 file offset, u64 vaddr, u64 bytes in the file
    FLAG  u32; bit 0: functions do not overlap and none is empty, so a walk back may end at the first function
    SRCB  a byte per range: which table named it (model.Source)
    SRCR  the same as runs: u32 count, so many u32 first ranges, so many bytes
    STRT  where functions start: rows of u32 function, u32 file (offsets in the strings), u32 line, in that order
    COLS  columns, where they were asked for: u32 bytes of a column (1, 2 or 4), u32 0, then the column of each line
          entry, then that of each range's call; 0 is unknown
    DISC  discriminators, where there are any: u32 count of line entries that have one, u32 0, then for each of them u32
          line entry, u32 discriminator, then for each range whose call has one u32 range, u32 discriminator, in order
    UNWD  what unwinds the file's code, where it was asked for: unwind.py

Chunks with other tags are skipped. A damaged extra section never stops a lookup: `Table.info` and `verify` report it.
"""

from __future__ import annotations

import struct
import sys

from whence._base.budget import Budget
from whence._base.errors import UNSUPPORTED, ChecksumError, FormatError, LidiaError, cut_off, empty_file, wrong_magic
from whence._base.records import Record, values_of
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

    from typing_extensions import Buffer

MAGIC: Final = b".dia"
COMPACT_MAGIC: Final = b".dic"  # a form that earlier versions wrote on request
MAGICS: Final = (MAGIC, COMPACT_MAGIC)  # of what is opened as an archive (and refused, if compact)
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

# What names and line entries that ranges share may add up to, in bytes, where all of them are asked for: so many times
# the bytes that are stored, plus an allowance. Archives of real programs need 4 times at most.
NAMES_TIMES: Final = 8
NAMES_ALLOWANCE: Final = 1 << 24
LINES_TIMES: Final = 4
LINES_ALLOWANCE: Final = 1 << 20

VA_TABLE, RANGE_TABLE, STRINGS, LINE_TABLES = "VA table", "range table", "strings", "line tables"
_FIELDS: Final[dict[str, int]] = {RANGE_TABLE: RANGE_FIELDS, LINE_TABLES: LINE_FIELDS}  # of an entry


class ArchiveSection(Record, frozen=True):
    """One of the four: `width` is the size of an entry or field in bytes (1 for strings), `entries` how many there are;
    `offset` is in the file."""

    name: str
    width: int
    entries: int
    offset: int
    crc: int

    @property
    def size(self) -> int:
        """In bytes."""
        return self.entries * self.width * _FIELDS.get(self.name, 1)

    @property
    def start(self) -> int:
        """The offset; 0 of an empty section, whose offset nothing checks."""
        return self.offset if self.size else 0

    @property
    def end(self) -> int:
        """The offset behind the section."""
        return self.offset + self.size

    def with_crc(self, crc: int) -> ArchiveSection:
        return ArchiveSection(self.name, self.width, self.entries, self.offset, crc)

    def row_offset(self, index: int) -> int:
        """Where a row lies in the section."""
        return index * self.width * _FIELDS.get(self.name, 1)


class ArchiveHeader(Record, frozen=True):
    """The four sections, in the order in which they lie; iteration returns them."""

    va_table: ArchiveSection
    ranges: ArchiveSection
    strings: ArchiveSection
    lines: ArchiveSection

    def __iter__(self) -> Iterator[ArchiveSection]:
        return iter((self.va_table, self.ranges, self.strings, self.lines))

    @property
    def end(self) -> int:
        """Where the line tables end: the documented archive ends here."""
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
        """The header in the first 128 bytes, checked against the file's size. LidiaError says what does not hold."""
        if not data:
            raise empty_file(LidiaError)
        if data[:4] == COMPACT_MAGIC:
            fault = "a compact archive, which this version does not read (the magic at 0x0 is .dic)"
            error = LidiaError("header", 0, "the magic is .dia", data[:4], fault=fault, code=UNSUPPORTED)
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
            fault = f"an archive of version {version} (header+0x4), expected {VERSION}"
            raise LidiaError("header", 4, f"the version is {VERSION}", version, fault=fault, code=UNSUPPORTED)
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
                expected = f"{widths[0]} or {widths[1]}"
                fault = f"{what} has {section.width} bytes (header+{offset:#x}), expected {expected}"
                raise LidiaError("header", offset, f"{what} has {expected} bytes", section.width, fault=fault)
        if self.ranges.entries != self.va_table.entries:
            vaddrs = self.va_table.entries
            fault = f"there are {self.ranges.entries} ranges (header+0x30), expected {vaddrs}, as many as VAs"
            rule = f"there are as many ranges as VAs, {vaddrs}"
            raise LidiaError("header", 0x30, rule, self.ranges.entries, fault=fault)

    def _check_order(self, file_size: int) -> None:
        """Every section that has bytes begins where the one before it ends, and all are inside the file."""
        end = HEADER_SIZE
        for section, field in zip(self, (0x18, 0x38, 0x50, 0x70), strict=True):
            if section.size == 0:
                continue
            if section.offset != end:
                begins = f"the {section.name} {'begin' if section.name.endswith('s') else 'begins'} at"
                fault = f"{begins} {section.offset:#x} (header+{field:#x}), expected {end:#x}"
                raise LidiaError("header", field, f"{begins} {end:#x}", f"{section.offset:#x}", fault=fault)
            end = section.end
            if end > file_size:
                raise cut_off(LidiaError, section.name, 0, section.size, max(0, file_size - section.offset))


class Extra(Record, frozen=True):
    """What an archive says about itself. Absent text is ""; `build_id` is hex; `segments` are (file offset, vaddr,
    bytes in the file) of the executable segments; `tidy`: functions lie apart, none is empty."""

    build_id: str = ""
    machine: str = ""
    producer: str = ""
    made_from: tuple[str, ...] = ()
    tidy: bool = False
    segments: tuple[tuple[int, int, int], ...] = ()
    unwind: bytes = b""  # UNWD, to be written; readers ask Table.unwind

    def replaced(self, **changes: object) -> Extra:
        """A copy with other values of some fields."""
        return Extra(**{**dict(zip(type(self)._fields, values_of(self), strict=True)), **changes})  # type: ignore[arg-type]


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
    """The chunks and the footer. `sources`: a byte per range; `runs` (first ranges, values): the same in short;
    `declared`: the rows of STRT; `columns`: the chunks of columns (tag, content). Without
    `crc` the checksum is 0, as those of the sections are then."""
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
    return body + FOOTER.pack(offset, len(body), crc32c_of(body) if crc else 0, FOOTER_VERSION, FOOTER_MAGIC)


def little_endian(numbers: array[int]) -> bytes:
    """The numbers' bytes as the format wants them, whatever the machine."""
    if sys.byteorder == "big":
        numbers = numbers[:]
        numbers.byteswap()
    return numbers.tobytes()


class ExtraSection:
    """An extra section as a reader found it, in an archive whose line tables end at `end`; one that is not there has no
    chunks. Reads the footer and the heads of the chunks, no content.

    `chunks` maps tags to (file offset, size); `problem` is what is wrong with the section, or None.
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
            self._refuse(
                "footer",
                position + 8,
                f"{size} bytes of chunks from {offset:#x} on",
                f"the chunks end at {position:#x}",
            )
            return
        if version != FOOTER_VERSION:
            self._refuse("footer", position + 0x14, f"version {version}", f"the version is {FOOTER_VERSION}")
            return
        chunks: dict[bytes, tuple[int, int]] = {}
        cursor = offset
        while cursor < position:
            if position - cursor < CHUNK_HEAD.size:
                self._refuse("extra", cursor, f"{position - cursor} bytes", f"a chunk has at least {CHUNK_HEAD.size}")
                return
            tag, _, length = CHUNK_HEAD.unpack_from(data, cursor)
            cursor += CHUNK_HEAD.size
            if length > position - cursor:
                self._refuse("extra", cursor, f"a chunk of {length} bytes", f"{position - cursor} are left")
                return
            chunks.setdefault(tag, (cursor, length))
            cursor += length
        self.chunks, self._crc, self._start, self._end = chunks, crc, offset, position
        if offset != end:
            rule = f"they begin where the line tables end, at {end:#x}"
            self._refuse("footer", position, f"the chunks begin at {offset:#x}", rule)

    def _refuse(self, part: str, offset: int, fault: str, rule: str) -> None:
        self.problem = LidiaError(part, offset, rule, fault, fault=f"{fault} ({part}+{offset:#x}): {rule}")

    def check(self) -> None:
        """Raise LidiaError when the section is broken, ChecksumError when its bytes have another checksum."""
        if self.problem is not None:
            raise self.problem
        found = crc32c_of(self._data[self._start : self._end]) if self._crc else 0
        if found != self._crc:
            raise wrong_crc("extra section", self._crc, found)

    def content(self, tag: bytes) -> bytes:
        """The bytes of a chunk; b"" of one that is not there."""
        offset, size = self.chunks.get(tag, (0, 0))
        return bytes(self._data[offset : offset + size])

    def view(self, tag: bytes) -> memoryview:
        """The same without a copy."""
        offset, size = self.chunks.get(tag, (0, 0))
        return self._data[offset : offset + size]

    def read(self) -> Extra:
        """What the chunks say. What cannot be read is left out."""
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
    """Where everything lies in an archive's bytes: the kernels read this object's attributes by name.

    Offsets are in the file, widths in bytes, the rest are counts; all of it lies inside the bytes. `sources` counts the
    bytes that say which table named each range, `runs` those of the other form; at most one of them is not 0.
    `column_width` is 0 where columns were not stored.
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
    """The error of names that overlap: more is asked for than the bytes that are stored justify."""
    return Budget(part, what, stored, times=NAMES_TIMES, allowance=NAMES_ALLOWANCE, error=LidiaError).reached()


_STEP: Final = 1 << 20


def crc32c(parts: Iterable[bytes]) -> int:
    """CRC32C (Castagnoli), as the sections carry it, of several parts one after the other."""
    import google_crc32c

    value: int = 0
    for part in parts:
        value = google_crc32c.extend(value, part)
    return value


def crc32c_of(data: Buffer) -> int:
    """The same of one buffer, a piece at a time.

    >>> hex(crc32c_of(b"123456789"))
    '0xe3069283'
    """
    view = memoryview(data)
    return crc32c(bytes(view[offset : offset + _STEP]) for offset in range(0, len(view), _STEP))


def wrong_crc(section: str, stored: int, found: int) -> ChecksumError:
    """The error of a section whose bytes are not those its checksum was made of."""
    rule = f"its bytes have the CRC32C {stored:#010x}"
    fault = f"the CRC32C of the {section} is {found:#010x}, expected {stored:#010x}"
    return ChecksumError(f"lidia {section}", 0, rule, f"{found:#010x}", fault=fault)
