"""Is an archive whole: its checksums, and every rule its ranges must keep."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from whence.errors import ChecksumError, FormatError, LidiaError
from whence.interrupts import interruptible
from whence.lidia.kernels import inspect as inspect_kernel
from whence.lidia.kernels.queries import RANGE_FIELDS
from whence.lidia.layout import (
    RANGE_TABLE,
    START,
    STARTS,
    VA_TABLE,
    ExtraSection,
    Header,
    Section,
    Sections,
    crc32c_of,
)
from whence.model import SOURCES

if TYPE_CHECKING:
    from whence.lidia.table import Table


@dataclass(frozen=True, slots=True)
class Info:
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
    extra_problem: str


class Inspected(NamedTuple):
    """What a walk over all ranges found. The last five are the first range that breaks a rule, -1 when none does."""

    functions: int
    inlined: int
    deepest: int
    with_file: int
    with_lines: int
    without_length: int
    unordered: int
    empty: int
    name_outside: int
    lines_outside: int
    untidy: int


@interruptible
def check_crc(data: memoryview, section: Section) -> None:
    """Raise ChecksumError unless the section's bytes have the checksum the header gives."""
    have = crc32c_of(data[section.offset : section.end]) if section.size else 0
    if have != section.crc:
        raise ChecksumError(
            f"lidia {section.name}", 0, f"its bytes have the CRC32C {section.crc:#010x}", f"{have:#010x}"
        )


@interruptible
def info(data: memoryview, sections: Sections, extra: ExtraSection, table: Table) -> Info:
    """What is in an archive; reads all of it."""
    header, about = table.header, table.about
    found = Inspected(*inspect_kernel.inspect(data, sections))
    named = inspect_kernel.count_sources(data, sections)
    strings = table.strings
    return Info(
        path=table.path, size=len(data), ranges=header.va.entries, functions=found.functions, inlined=found.inlined,
        deepest=found.deepest, with_file=found.with_file, with_lines=found.with_lines,
        without_length=found.without_length,
        strings=inspect_kernel.count_strings(strings)[0] if not sections.nul else bytes(strings).count(0),
        encoding=table.encoding, line_entries=header.lines.entries, va_width=header.va.width,
        field_width=header.ranges.width, line_width=header.lines.width, va_size=header.va.size,
        range_size=header.ranges.size, string_size=header.strings.size, line_size=header.lines.size,
        trailing_size=len(data) - header.end, build_id=about.build_id, machine=about.machine, producer=about.producer,
        made_from=about.made_from,
        sources={str(source): count for source, count in zip(SOURCES, named, strict=False) if source and count},
        starts=sections.starts, extra_problem=problem_of_extra(extra),
    )  # fmt: skip


@interruptible
def problems(data: memoryview, sections: Sections, header: Header, extra: ExtraSection) -> list[str]:
    """Everything that is wrong, a sentence each."""
    found = Inspected(*inspect_kernel.inspect(data, sections))
    out = []
    for section in header:
        try:
            check_crc(data, section)
        except ChecksumError as error:
            out.append(str(error))
    entry = RANGE_FIELDS * header.ranges.width
    for index, part, width, rule in (
        (found.unordered, VA_TABLE, header.va.width, "ranges are in order of (va, depth)"),
        (found.name_outside, RANGE_TABLE, entry, f"names lie in the {header.strings.size} bytes of the strings"),
        (found.lines_outside, RANGE_TABLE, entry, f"line entries are among the {header.lines.entries} of the tables"),
    ):
        if index >= 0:
            out.append(str(LidiaError(part, index * width, rule, f"range {index}")))
    if found.untidy >= 0 and sections.tidy:
        rule = "functions lie apart and hold what is inlined into them, as the extra section says"
        out.append(str(LidiaError(RANGE_TABLE, found.untidy * entry, rule, f"range {found.untidy}")))
    out += problems_of_starts(extra, header.strings.size)
    problem = problem_of_extra(extra)
    return [*out, problem] if problem else out


@interruptible
def notes(data: memoryview, sections: Sections) -> list[str]:
    """What is worth knowing of an archive and breaks no rule, a sentence each."""
    found = Inspected(*inspect_kernel.inspect(data, sections))
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
    part = STARTS.decode()
    out = []
    if size % START.size:
        out.append(LidiaError(part, offset, f"it is a whole number of rows of {START.size} bytes", size))
    if wrong := next((row for row, (before, after) in enumerate(pairwise(rows), 1) if before >= after), 0):
        out.append(LidiaError(part, offset + wrong * START.size, "rows are in order, each once", rows[wrong]))
    outside = (row for row, (function, file, _) in enumerate(rows) if function >= string_size or file >= string_size)
    if (wrong := next(outside, -1)) >= 0:
        rule = f"names lie in the {string_size} bytes of the strings"
        out.append(LidiaError(part, offset + wrong * START.size, rule, rows[wrong]))
    return list(map(str, out))
