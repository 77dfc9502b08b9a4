"""Write a table of ranges as an archive.

    widths   the smallest possible: VAs and range fields 4 or 8 bytes, line fields 2 or 4
    strings  each name once, in order of first use: the function, file and call file of each range
    lines    equal runs of entries once
    CRC32C   of every section

With compat="go" the bytes equal the Go package's for the same ranges in the same order: line tables are not shared,
ranges are sorted by (vaddr, depth) after their names were numbered, sizes are cut to 32 bits, and there is no extra
section.
"""

from __future__ import annotations

import io
import os
import struct
from array import array
from bisect import bisect_left

from whence._base.budget import Budget
from whence._base.cores import share
from whence._base.files import atomic_write
from whence._base.records import Record, replaced
from whence._version import __version__
from whence.lidia.checksum import crc32c
from whence.lidia.compressed import codec_named, compressed
from whence.lidia.kernels import encode as encode_kernel
from whence.lidia.kernels import strings as strings_kernel
from whence.lidia.kernels.located import LocatedLines, highest, numbered, packed
from whence.lidia.layout import (
    COLUMNS,
    DISCRIMINATOR,
    DISCRIMINATORS,
    HEADER_SIZE,
    LINE_TABLES,
    RANGE_TABLE,
    STRINGS,
    VA_TABLE,
    ArchiveHeader,
    ArchiveSection,
    Extra,
    little_endian,
    pack_extra,
)
from whence.ranges.kernels import columns as columns_kernel
from whence.ranges.kernels import order as order_kernel

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from typing import BinaryIO, Literal, TypedDict, Unpack

    from whence.lidia.kernels import located as located_kernel
    from whence.ranges import Ranges

    Strings = Literal["length", "nul"]
    Compat = Literal["go"] | None

    class WriteFields(TypedDict, total=False):
        """The fields of WriteOptions as keyword arguments."""

        crc: bool
        lines: bool
        files: bool
        strings: Strings
        compat: Compat
        extra: Extra | None


MANY = 1 << 13  # ranges of a table that is encoded on two cores
_STEP = 1 << 15  # ranges encoded at a time
_PIECE = 1 << 20  # bytes written at a time
_U8 = 0xFF
_U16 = 0xFFFF
_U32 = 0xFFFFFFFF


class Written(Record, frozen=True):
    """The content of a written archive: counts, and sizes in bytes."""

    ranges: int
    functions: int
    inlined: int
    strings: int
    line_entries: int
    va_size: int
    range_size: int
    string_size: int
    line_size: int
    extra_size: int
    size: int
    unnamed: int = 0  # names left out because they exceed the limit of the stored names


NAMES_TIMES = 8  # of the bytes of names in the archived files; linkers let names overlap a little
NAMES_ALLOWANCE = 1 << 24


def names_budget(ranges: Ranges) -> Budget:
    """Return the limit of the bytes of all names of ranges."""
    stored = sum(map(len, ranges.strings.sources))
    return Budget("names", "texts", stored, times=NAMES_TIMES, allowance=NAMES_ALLOWANCE)


class WriteOptions(Record, frozen=True):
    """The contents of an archive and their encoding.

    crc: store checksums; else they are 0. compat="go" always stores them.
    lines, files: store line tables, and the paths of source files.
    strings: how names are delimited, "length" or "nul".
    compat: "go" writes the bytes of Pyroscope's Go package.
    extra: the origin of the archive, for the extra section.
    """

    crc: bool = True
    lines: bool = True
    files: bool = True
    strings: Strings = "length"
    compat: Compat = None
    extra: Extra | None = None


WRITE_DEFAULTS = WriteOptions()


def write(
    ranges: Ranges,
    out: BinaryIO | str | os.PathLike[str],
    *,
    options: WriteOptions = WRITE_DEFAULTS,
    **changes: Unpack[WriteFields],
) -> Written:
    """Write an archive of ranges.

    Args:
        ranges: in order of (vaddr, depth), as `whence.ranges.merge` returns them.
        out: a path, which is written completely or not at all, and compressed if it ends in .gz or .zst; or a binary
            file object, which is written from its current position.
        options: what is stored.
        changes: fields of WriteOptions by name, which replace those of `options`: crc, lines, files, strings, compat,
            extra.

    Raises:
        ValueError: the ranges are out of order or refer to missing line rows, or an option has an unknown value.
        OSError: the file can't be written.
    """
    options = replaced(options, **changes)
    if not isinstance(out, (str, os.PathLike)):
        return _write(ranges, out, options)
    with atomic_write(out) as target, compressed(target, codec_named(os.fspath(out))) as file:
        return _write(ranges, file, options)


def _write(ranges: Ranges, out: BinaryIO, options: WriteOptions) -> Written:
    compat, crc = options.compat, options.crc
    if options.strings not in ("length", "nul"):
        raise ValueError(f"unknown strings={options.strings!r}: use 'length' or 'nul'")
    if compat not in (None, "go"):
        raise ValueError(f"unknown compat={compat!r}: use None or 'go'")
    body = _Body(ranges, options.lines, options.files, options.strings == "nul", compat == "go")
    header = body.header
    if compat is None:
        about = (options.extra or Extra()).replaced(tidy=body.tidy)
        if not about.producer:
            about = about.replaced(producer=f"whence {__version__}")
        tail = pack_extra(
            about,
            ranges.source.tobytes(),
            body.source_runs(),
            header.end,
            body.starts,
            columns=body.column_chunks(),
            crc=crc,
        )
    else:
        tail = b""
        crc = True
    if crc and out.seekable():
        start = out.tell()
        out.write(bytes(HEADER_SIZE))
        crcs = [crc32c(_copied(part, out)) for part in body.parts()]
        out.write(tail)
        out.seek(start)
        out.write(header.with_crcs(crcs).pack())
        out.seek(start + header.end + len(tail))
    else:
        crcs = [crc32c(part) for part in body.parts()] if crc else [0, 0, 0, 0]
        out.write(header.with_crcs(crcs).pack())
        for part in body.parts():
            out.writelines(part)
        out.write(tail)
    return Written(
        ranges=header.va_table.entries, functions=body.functions, inlined=header.va_table.entries - body.functions,
        strings=body.names.count, line_entries=header.lines.entries, va_size=header.va_table.size,
        range_size=header.ranges.size, string_size=header.strings.size, line_size=header.lines.size,
        extra_size=len(tail), size=header.end + len(tail), unnamed=body.names.dropped,
    )  # fmt: skip


def to_bytes(ranges: Ranges, *, options: WriteOptions = WRITE_DEFAULTS, **changes: Unpack[WriteFields]) -> bytes:
    """Return an archive of ranges as bytes; the options and errors are those of `write`."""
    out = io.BytesIO()
    write(ranges, out, options=options, **changes)
    return out.getvalue()


def _copied(parts: Iterator[bytes], out: BinaryIO) -> Iterator[bytes]:
    """Yield the parts after writing each to `out`."""
    for part in parts:
        out.write(part)
        yield part


class EncodedColumns:
    """The columns of ranges as they are written; kernels read them by name. Names are numbers of strings."""

    __slots__ = (
        "call_file", "call_line", "depth", "file", "function", "length", "line_count", "line_index", "line_number",
        "line_offset", "vaddr",
    )  # fmt: skip

    vaddr: array[int]
    length: array[int]
    depth: array[int]
    function: memoryview | array[int]
    file: memoryview | array[int]
    call_file: memoryview | array[int]
    call_line: array[int]
    line_index: memoryview | array[int]
    line_count: array[int]
    line_offset: array[int]
    line_number: array[int]

    def __init__(self, ranges: Ranges, go: bool) -> None:
        for name in ("vaddr", "length", "depth", "call_line", "line_index", "line_count", "line_offset", "line_number"):
            setattr(self, name, getattr(ranges, name))
        if go:
            self.length = array("Q", [length & _U32 for length in ranges.length])

    def sort(self) -> None:
        """Sort by (vaddr, depth), stably."""
        count = len(self.vaddr)
        order, spare = array("I", bytes(4 * count)), array("I", bytes(4 * count))
        if order_kernel.order(array("Q", self.depth), order, spare, True):
            order, spare = spare, order
        if order_kernel.order(self.vaddr, order, spare, False):
            order = spare
        for name in ("vaddr", "length"):
            moved = array("Q", bytes(8 * count))
            columns_kernel.gather_u64(order, getattr(self, name), moved)
            setattr(self, name, moved)
        for name in ("depth", "function", "file", "line_index", "line_count", "call_file", "call_line"):
            moved = array("I", bytes(4 * count))
            columns_kernel.gather_u32(order, getattr(self, name), moved)
            setattr(self, name, moved)


class _Body:
    """The four sections before encoding: names are numbered, line runs stored, widths chosen."""

    def __init__(self, ranges: Ranges, lines: bool, files: bool, nul: bool, go: bool) -> None:
        ranges.check()
        count = len(ranges)
        self.ranges = ranges
        self.columns = columns = EncodedColumns(ranges, go)
        seed = int.from_bytes(os.urandom(8), "little")
        # names and lines are independent
        steps = [
            lambda: self._add_names(lines, files, nul, go, seed),
            lambda: self._add_lines(lines, go, seed),
        ]
        share(range(1 if count < MANY else 2), steps, lambda _, step: step())
        survey = self.survey
        self.tidy, self.functions = survey.tidy, survey.functions
        if not survey.ordered:
            columns.sort()
        string = self.names.offset.numbers()
        self.tables = encode_kernel.RangeEncoder(columns, string, lines)
        largest = max(survey.most_length, string[-1], self.lines.entries)
        va_table = ArchiveSection(VA_TABLE, 8 if survey.most_vaddr > _U32 else 4, count, HEADER_SIZE, 0)
        fields = ArchiveSection(RANGE_TABLE, 8 if largest > _U32 else 4, count, va_table.end, 0)
        texts = ArchiveSection(STRINGS, 1, self.names.size, fields.end, 0)
        self.header = ArchiveHeader(
            va_table, fields, texts, ArchiveSection(LINE_TABLES, self.line_width, self.lines.entries, texts.end, 0)
        )

    def _add_names(self, lines: bool, files: bool, nul: bool, go: bool, seed: int) -> None:
        """Assign numbers to the names and make the rows of STRT."""
        ranges = self.ranges
        self.names = strings_kernel.Interner(ranges.strings.sources, nul, seed, names_budget(ranges).most)
        self.names.number(ranges, files)
        for name in ("function", "file", "call_file"):
            setattr(self.columns, name, getattr(self.names, name).numbers())
        self.starts = start_rows(ranges, self.names) if lines and files and not go else b""

    def _add_lines(self, lines: bool, go: bool, seed: int) -> None:
        """Survey the ranges and store their line runs."""
        columns, ranges = self.columns, self.ranges
        self.survey = survey = encode_kernel.Survey(columns, lines)
        if survey.fault >= 0:
            raise ValueError(f"range {survey.fault} refers to missing line rows")
        if not survey.ordered and not go:
            raise ValueError("the ranges are not in order of (vaddr, depth): use whence.ranges.merge or lidia.Builder")
        self.line_width = 4 if survey.most_line > _U16 else 2
        self.lines: encode_kernel.LineTables | located_kernel.LocatedLines
        if ranges.columns is not None and lines and not go:
            self.lines = self.located = LocatedLines(self.line_width, seed)
            columns.line_index = self.located.add(ranges).numbers()
        else:
            self.located = None
            self.lines = encode_kernel.LineTables(self.line_width, seed, len(ranges))
            if lines:
                columns.line_index = self.lines.add(columns, not go).numbers()

    def parts(self) -> Iterator[Iterator[bytes]]:
        """Yield the bytes of the four sections, each in pieces."""
        header, tables = self.header, self.tables
        yield (
            tables.va_table(low, high, header.va_table.width) for low, high in _steps(header.va_table.entries, _STEP)
        )
        yield (
            tables.range_table(low, high, header.ranges.width) for low, high in _steps(header.va_table.entries, _STEP)
        )
        yield (self.names.part(low, high) for low, high in _steps(header.strings.size, _PIECE))
        yield (self.lines.part(low, high) for low, high in _steps(header.lines.size, _PIECE))

    def column_chunks(self) -> list[tuple[bytes, bytes]]:
        """Return the chunks of columns and discriminators, if the table has columns."""
        columns = self.ranges.columns
        if columns is None or self.located is None:
            return []
        by_line, discriminators = (column.numbers() for column in self.located.line_columns())
        largest = max(highest(by_line), highest(columns.call_column))
        width = 4 if largest > _U16 else 2 if largest > _U8 else 1
        content = packed(by_line, width) + packed(columns.call_column, width)
        chunks = [(COLUMNS, struct.pack("<II", width, 0) + content)]
        of_lines, of_calls = numbered(discriminators), numbered(columns.call_discriminator)
        if of_lines or of_calls:
            count = len(of_lines) // DISCRIMINATOR.size
            chunks.append((DISCRIMINATORS, struct.pack("<II", count, 0) + of_lines + of_calls))
        return chunks

    def source_runs(self) -> tuple[Sequence[int], bytes] | None:
        """Return the sources of the ranges as runs (first ranges, values), or None if there are too many."""
        runs = encode_kernel.SourceRuns(self.ranges.source)
        return (runs.first.numbers(), bytes(runs.value)) if runs.few else None


def _steps(count: int, step: int) -> Iterator[tuple[int, int]]:
    """Yield [0, count) in pieces."""
    return ((low, min(low + step, count)) for low in range(0, count, step))


def start_rows(ranges: Ranges, names: strings_kernel.Interner) -> bytes:
    """Return the rows of STRT: function, file (offsets of strings) and line, sorted and distinct.

    A row applies to frames with this function and file, so a declaration is kept if the archive has both names. A file
    may have two spellings: link-time optimization writes lines below another directory than declarations
    (`/build/x/src/a.c`, and `./src/a.c` after -ffile-prefix-map). A relative path that the archive does not have means
     the absolute path that ends with it, if there is exactly one.

    `names` has numbered the names of the ranges. There are no rows if offsets need more than 32 bits.
    """
    starts, string = ranges.starts, names.offset.numbers()
    if not len(starts) or string[-1] > _U32:
        return b""
    function, file = names.find(starts.function).numbers(), names.find(starts.file).numbers()
    if len(absent := strings_kernel.absent_rows(file)):
        file = _respelled(ranges, names, file, absent.numbers())
    return little_endian(array("I", encode_kernel.start_rows(function, file, starts.line, string).numbers()))


def _respelled(ranges: Ranges, names: strings_kernel.Interner, file: memoryview, absent: memoryview) -> array[int]:
    """Return the numbers of the files, replacing absent relative paths by the absolute paths that they mean."""
    refs = ranges.starts.file
    # reversed, so that paths with equal endings are adjacent
    backwards = sorted((path[::-1], number) for number, path in names.absolute_paths())
    meant: dict[int, int] = {}
    for ref in {refs[row] for row in absent}:
        ending = (b"/" + ranges.strings.raw(ref).removeprefix(b"./"))[::-1]
        nearest = bisect_left(backwards, (ending, 0))
        alike = [number for path, number in backwards[nearest : nearest + 2] if path.startswith(ending)]
        if len(alike) == 1:
            meant[ref] = alike[0]
    numbers = array("I", file.tobytes())
    for row in absent if meant else ():
        numbers[row] = meant.get(refs[row], numbers[row])
    return numbers
