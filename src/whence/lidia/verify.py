"""Is an archive whole: its checksums, and every rule its ranges must keep."""

from __future__ import annotations

from itertools import pairwise

from whence._base.errors import ChecksumError, FormatError, LidiaError
from whence._base.model import SOURCES
from whence._base.records import Record
from whence.lidia.kernels import inspect as inspect_kernel
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
    crc32c_of,
    wrong_crc,
)


class ArchiveInfo(Record, frozen=True):
    """What is in an archive: sizes in bytes, widths of fields in bytes, counts."""

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
    """Raise ChecksumError unless the section's bytes have the checksum that the header has."""
    found = crc32c_of(data[section.offset : section.end]) if section.size else 0
    if found != section.crc:
        raise wrong_crc(section.name, section.crc, found)


def info(
    data: memoryview, sections: ArchiveSections, header: ArchiveHeader, extra: ExtraSection, path: str
) -> ArchiveInfo:
    """What is in an archive; reads all of it."""
    about = extra.read()
    found = inspect_kernel.Inspection(data, sections)
    strings = data[header.strings.offset : header.strings.end]
    return ArchiveInfo(
        path=path, size=len(data), ranges=header.va_table.entries,
        functions=found.functions, inlined=found.inlined,
        deepest=found.deepest, with_file=found.with_file, with_lines=found.with_lines,
        without_length=found.without_length,
        strings=_count_strings(strings, sections),
        encoding="nul" if sections.nul else "length",
        line_entries=header.lines.entries, va_width=header.va_table.width,
        field_width=header.ranges.width, line_width=header.lines.width, va_size=header.va_table.size,
        range_size=header.ranges.size, string_size=header.strings.size, line_size=header.lines.size,
        trailing_size=len(data) - header.end, build_id=about.build_id, machine=about.machine, producer=about.producer,
        made_from=about.made_from,
        sources={str(source): count for source, count in zip(SOURCES, found.sources, strict=False) if source and count},
        starts=sections.starts, column_width=sections.column_width,
        discriminators=sections.line_discriminators + sections.call_discriminators,
        extra_problem=problem_of_extra(extra),
    )  # fmt: skip


def problems(data: memoryview, sections: ArchiveSections, header: ArchiveHeader, extra: ExtraSection) -> list[str]:
    """Everything that is wrong, a sentence each."""
    found = inspect_kernel.Inspection(data, sections)
    out = []
    for section in header:
        try:
            check_crc(data, section)
        except ChecksumError as error:
            out.append(str(error))
    strings, entries = header.strings.size, header.lines.entries
    untidy = found.untidy if sections.tidy else -1
    for index, section, fault, rule in (
        (found.unordered, header.va_table, "is out of order", "ranges are in order of (vaddr, depth)"),
        (found.name_outside, header.ranges, "has a name outside the strings", f"there are {strings} bytes"),
        (found.lines_outside, header.ranges, "has line entries outside the line tables", f"there are {entries}"),
        (untidy, header.ranges, "overlaps, or is empty", "functions lie apart, as the extra section says"),
    ):
        if index >= 0:
            out.append(str(_broken(section.name, section.row_offset(index), f"range {index} {fault}", rule)))
    out += problems_of_starts(extra, header.strings.size)
    out += problems_of_columns(extra, header)
    problem = problem_of_extra(extra)
    return [*out, problem] if problem else out


def notes(data: memoryview, sections: ArchiveSections) -> list[str]:
    """What is worth knowing of an archive and breaks no rule, a sentence each."""
    found = inspect_kernel.Inspection(data, sections)
    if not found.without_length:
        return []
    count = "1 range has" if found.without_length == 1 else f"{found.without_length:,} ranges have"
    what = f"{count} no length, so no address lies there (first range {found.empty})"
    return [f"{what}: the Go package keeps such symbols"]


def problem_of_extra(extra: ExtraSection) -> str:
    """What is wrong with the extra section; "" when it is whole, or when there is none."""
    try:
        extra.check()
    except FormatError as error:
        return str(error)
    return ""


def problems_of_starts(extra: ExtraSection, string_size: int) -> list[str]:
    """What is wrong with the rows of where functions start, a sentence for each rule that is broken."""
    offset, size = extra.chunks.get(STARTS, (0, 0))
    rows = list(START.iter_unpack(extra.content(STARTS)[: size // START.size * START.size]))
    part, out = STARTS.decode(), []
    if size % START.size:
        out.append(_broken(part, offset, f"{size} bytes", f"it is a whole number of rows of {START.size}"))
    if wrong := next((row for row, (before, after) in enumerate(pairwise(rows), 1) if before >= after), 0):
        out.append(_broken(part, offset + wrong * START.size, f"row {rows[wrong]}", "rows are in order, each once"))
    outside = (row for row, (function, file, _) in enumerate(rows) if function >= string_size or file >= string_size)
    if (wrong := next(outside, -1)) >= 0:
        rule = f"names lie in the {string_size} bytes of the strings"
        out.append(_broken(part, offset + wrong * START.size, f"row {rows[wrong]}", rule))
    return list(map(str, out))


def _count_strings(strings: memoryview, sections: ArchiveSections) -> int:
    return bytes(strings).count(0) if sections.nul else inspect_kernel.count_strings(strings)[0]


def problems_of_columns(extra: ExtraSection, header: ArchiveHeader) -> list[str]:
    """What is wrong with the columns and discriminators, a sentence for each rule that is broken."""
    offset, size = extra.chunks.get(COLUMNS, (0, 0))
    entries, ranges = header.lines.entries, header.ranges.entries
    out = []
    if size:
        width = int.from_bytes(extra.content(COLUMNS)[:4], "little")
        if size < COLUMNS_HEAD or width not in COLUMN_WIDTHS:
            out.append(LidiaError("COLS", offset, "a column has 1, 2 or 4 bytes", width))
        elif size != COLUMNS_HEAD + width * (entries + ranges):
            rule = f"it has a column for each of {entries} line entries and {ranges} ranges, {width} bytes each"
            out.append(LidiaError("COLS", offset, rule, f"{size} bytes"))
    offset, size = extra.chunks.get(DISCRIMINATORS, (0, 0))
    if size:
        content = extra.content(DISCRIMINATORS)
        count, rest = int.from_bytes(content[:4], "little"), size - COLUMNS_HEAD
        if rest < 0 or rest % DISCRIMINATOR.size or count > rest // DISCRIMINATOR.size:
            rule = f"it is {COLUMNS_HEAD} bytes and a whole number of rows of {DISCRIMINATOR.size}"
            out.append(LidiaError("DISC", offset, rule, f"{size} bytes, {count} line entries"))
            return list(map(str, out))
        rows = list(DISCRIMINATOR.iter_unpack(content[COLUMNS_HEAD:]))
        for what, part, most in (("line entries", rows[:count], entries), ("ranges", rows[count:], ranges)):
            numbers = [number for number, _ in part]
            if any(before >= after for before, after in pairwise(numbers)) or (numbers and numbers[-1] >= most):
                rule = f"its rows name {what}, of which there are {most}, in order, each once"
                out.append(LidiaError("DISC", offset, rule, f"{len(part)} rows"))
    return list(map(str, out))


def _broken(part: str, offset: int, fault: str, rule: str) -> LidiaError:
    return LidiaError(part, offset, rule, fault, fault=f"{fault} ({part}+{offset:#x}): {rule}")
