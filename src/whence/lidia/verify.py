"""Verify an archive: its checksums, and the rules that its ranges must obey."""

from __future__ import annotations

from itertools import pairwise

from whence._base.errors import ChecksumError, FormatError, LidiaError
from whence._base.model import SOURCES
from whence._base.records import Record
from whence.lidia.checksum import crc32c
from whence.lidia.kernels.inspect import Inspection, count_strings
from whence.lidia.kernels.queries import COLUMNS_HEAD
from whence.lidia.layout import (
    COLUMN_WIDTHS,
    COLUMNS,
    DISCRIMINATOR,
    DISCRIMINATORS,
    START,
    STARTS,
    ArchiveHeader,
    ArchiveSection,
    ArchiveSections,
    ExtraSection,
    wrong_crc,
)

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator


class ArchiveInfo(Record, frozen=True):
    """The content of an archive: counts, and sizes and widths of fields in bytes.

    `sources` counts the ranges of each source. `trailing_size` is the size of the data after the line tables.
    `column_width` is 0 without columns. `extra_problem` says what is wrong with the extra section, "" if nothing is.
    """

    path: str
    size: int
    ranges: int
    functions: int
    inlined: int
    deepest: int
    with_file: int
    with_lines: int
    without_length: int
    strings: int
    encoding: str
    line_entries: int
    va_width: int
    field_width: int
    line_width: int
    va_size: int
    range_size: int
    string_size: int
    line_size: int
    trailing_size: int
    build_id: str
    machine: str
    producer: str
    made_from: tuple[str, ...]
    sources: dict[str, int]
    starts: int
    column_width: int
    discriminators: int
    extra_problem: str


def check_crc(data: memoryview, section: ArchiveSection) -> None:
    """Raise ChecksumError unless the section's checksum is that of the header."""
    computed = crc32c([data[section.offset : section.end]]) if section.size else 0
    if computed != section.crc:
        raise wrong_crc(section.name, section.crc, computed)


def info(
    data: memoryview, sections: ArchiveSections, header: ArchiveHeader, extra: ExtraSection, path: str
) -> ArchiveInfo:
    """Return counts and sizes; reads the complete archive."""
    about = extra.read()
    counts = Inspection(data, sections)
    strings = data[header.strings.offset : header.strings.end]
    return ArchiveInfo(
        path=path, size=len(data), ranges=header.va_table.entries, functions=counts.functions, inlined=counts.inlined,
        deepest=counts.deepest, with_file=counts.with_file, with_lines=counts.with_lines,
        without_length=counts.without_length, strings=_count_strings(strings, sections), encoding="nul" if sections.nul
        else "length", line_entries=header.lines.entries, va_width=header.va_table.width,
        field_width=header.ranges.width, line_width=header.lines.width, va_size=header.va_table.size,
        range_size=header.ranges.size, string_size=header.strings.size, line_size=header.lines.size,
        trailing_size=len(data) - header.end, build_id=about.build_id, machine=about.machine, producer=about.producer,
        made_from=about.made_from, sources={str(source): count for source, count in zip(SOURCES, counts.sources,
        strict=False) if source and count}, starts=sections.starts, column_width=sections.column_width,
        discriminators=sections.line_discriminators + sections.call_discriminators,
        extra_problem=problem_of_extra(extra),
    )  # fmt: skip


def problems(data: memoryview, sections: ArchiveSections, header: ArchiveHeader, extra: ExtraSection) -> list[str]:
    """Return everything that is wrong, a sentence for each problem."""
    faults = Inspection(data, sections)
    out = []
    for section in header:
        try:
            check_crc(data, section)
        except ChecksumError as error:
            out.append(str(error))
    strings, entries = header.strings.size, header.lines.entries
    untidy = faults.untidy if sections.tidy else -1
    for index, section, fault in (
        (faults.unordered, header.va_table, "is not in order of (vaddr, depth)"),
        (faults.name_outside, header.ranges, f"has a name outside the {strings} bytes of strings"),
        (faults.lines_outside, header.ranges, f"has line entries outside the line tables, which have {entries}"),
        (untidy, header.ranges, "overlaps or is empty, but the extra section says that no range does"),
    ):
        if index >= 0:
            out.append(str(LidiaError(section.name, section.row_offset(index), f"range {index} {fault}")))
    out += map(str, (*problems_of_starts(extra, strings), *problems_of_columns(extra, header)))
    problem = problem_of_extra(extra)
    return [*out, problem] if problem else out


def notes(data: memoryview, sections: ArchiveSections) -> list[str]:
    """Return remarks about a valid archive, a sentence each."""
    counts = Inspection(data, sections)
    if not counts.without_length:
        return []
    ranges = "1 range has" if counts.without_length == 1 else f"{counts.without_length:,} ranges have"
    return [f"{ranges} no length and cover no address (first range {counts.empty}): the Go package keeps such symbols"]


def problem_of_extra(extra: ExtraSection) -> str:
    """Return what is wrong with the extra section; "" if nothing is or there is no section."""
    try:
        extra.check()
    except FormatError as error:
        return str(error)
    return ""


def problems_of_starts(extra: ExtraSection, string_size: int) -> Iterator[LidiaError]:
    """Yield the first error of each kind in STRT, the rows of start lines."""
    offset, size = extra.chunks.get(STARTS, (0, 0))
    rows = list(START.iter_unpack(extra.content(STARTS)[: size // START.size * START.size]))
    part = STARTS.decode()
    if size % START.size:
        yield LidiaError(part, offset, f"{size} bytes are not a multiple of {START.size}, the size of a row")
    if wrong := next((row for row, (before, after) in enumerate(pairwise(rows), 1) if before >= after), 0):
        yield LidiaError(part, offset + wrong * START.size, f"row {rows[wrong]} is out of order or a duplicate")
    outside = (row for row, (function, file, _) in enumerate(rows) if function >= string_size or file >= string_size)
    if (wrong := next(outside, -1)) >= 0:
        fault = f"row {rows[wrong]} has a name outside the {string_size} bytes of strings"
        yield LidiaError(part, offset + wrong * START.size, fault)


def _count_strings(strings: memoryview, sections: ArchiveSections) -> int:
    return bytes(strings).count(0) if sections.nul else count_strings(strings)[0]


def problems_of_columns(extra: ExtraSection, header: ArchiveHeader) -> Iterator[LidiaError]:
    """Yield the errors in the chunks of columns and discriminators."""
    offset, size = extra.chunks.get(COLUMNS, (0, 0))
    entries, ranges = header.lines.entries, header.ranges.entries
    if size:
        width = int.from_bytes(extra.content(COLUMNS)[:4], "little")
        expected = COLUMNS_HEAD + width * (entries + ranges)
        if size < COLUMNS_HEAD or width not in COLUMN_WIDTHS:
            yield LidiaError("COLS", offset, f"a column has {width} bytes, expected 1, 2 or 4")
        elif size != expected:
            fault = f"{size} bytes, expected {expected} for {entries} line entries and {ranges} ranges"
            yield LidiaError("COLS", offset, fault)
    offset, size = extra.chunks.get(DISCRIMINATORS, (0, 0))
    if not size:
        return
    content = extra.content(DISCRIMINATORS)
    count, rest = int.from_bytes(content[:4], "little"), size - COLUMNS_HEAD
    if rest < 0 or rest % DISCRIMINATOR.size or count > rest // DISCRIMINATOR.size:
        expected_size = f"expected {COLUMNS_HEAD} bytes and rows of {DISCRIMINATOR.size} bytes"
        yield LidiaError("DISC", offset, f"{size} bytes with {count} line entries, {expected_size}")
        return
    rows = list(DISCRIMINATOR.iter_unpack(content[COLUMNS_HEAD:]))
    for what, part, limit in (("line entries", rows[:count], entries), ("ranges", rows[count:], ranges)):
        numbers = [number for number, _ in part]
        if any(before >= after for before, after in pairwise(numbers)):
            yield LidiaError("DISC", offset, f"the rows of {what} are out of order or have duplicates")
        elif numbers and numbers[-1] >= limit:
            yield LidiaError("DISC", offset, f"there is a row of number {numbers[-1]}, but there are {limit} {what}")
