"""Is an archive whole: its checksums, and every rule its ranges must keep."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

from whence.errors import ChecksumError, FormatError, LidiaError
from whence.interrupts import interruptible
from whence.lidia import extra as extras
from whence.lidia import starts
from whence.lidia.crc import crc32c_of
from whence.lidia.kernels import inspect as inspect_kernel
from whence.model import SOURCES

if TYPE_CHECKING:
    from whence.lidia.layout import Header, Section


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


Places = tuple[Any, ...]  # where the sections lie, as the kernels take it


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
def info(
    data: memoryview, places: Places, header: Header, extra: extras.Found | None, about: extras.Extra,
    encoding: str, path: str,
) -> Info:  # fmt: skip
    """What is in an archive; reads all of it."""
    found = Inspected(*inspect_kernel.inspect(data, places))
    named = inspect_kernel.count_sources(data, places)
    strings = data[header.strings.offset : header.strings.end]
    return Info(
        path=path, size=len(data), ranges=header.va.entries, functions=found.functions, inlined=found.inlined,
        deepest=found.deepest, with_file=found.with_file, with_lines=found.with_lines,
        without_length=found.without_length,
        strings=inspect_kernel.count_strings(strings)[0] if encoding == "length" else bytes(strings).count(0),
        encoding=encoding, line_entries=header.lines.entries, va_width=header.va.width,
        field_width=header.ranges.width, line_width=header.lines.width, va_size=header.va.size,
        range_size=header.ranges.size, string_size=header.strings.size, line_size=header.lines.size,
        trailing_size=len(data) - header.end, build_id=about.build_id, machine=about.machine, producer=about.producer,
        made_from=about.made_from,
        sources={str(source): count for source, count in zip(SOURCES, named, strict=False) if source and count},
        starts=places[7][1], extra_problem=problem_of_extra(data, extra),
    )  # fmt: skip


@interruptible
def problems(data: memoryview, places: Places, header: Header, extra: extras.Found | None) -> list[str]:
    """Everything that is wrong, a sentence each."""
    found = Inspected(*inspect_kernel.inspect(data, places))
    out = []
    for section in header:
        try:
            check_crc(data, section)
        except ChecksumError as error:
            out.append(str(error))
    entry = 8 * header.ranges.width
    for place, part, width, rule in (
        (found.unordered, "VA table", header.va.width, "ranges are in order of (va, depth)"),
        (found.name_outside, "range table", entry, f"names lie in the {header.strings.size} bytes of the strings"),
        (found.lines_outside, "range table", entry, f"line entries are among the {header.lines.entries} of the tables"),
    ):
        if place >= 0:
            out.append(str(LidiaError(part, place * width, rule, f"range {place}")))
    if found.untidy >= 0 and extras.read(data, extra).tidy:
        rule = "functions lie apart and hold what is inlined into them, as the extra section says"
        out.append(str(LidiaError("range table", found.untidy * entry, rule, f"range {found.untidy}")))
    out += starts.problems(data, extra, header)
    problem = problem_of_extra(data, extra)
    return [*out, problem] if problem else out


@interruptible
def notes(data: memoryview, places: Places) -> list[str]:
    """What is worth knowing of an archive and breaks no rule, a sentence each."""
    found = Inspected(*inspect_kernel.inspect(data, places))
    if not found.without_length:
        return []
    count = "1 range has" if found.without_length == 1 else f"{found.without_length:,} ranges have"
    what = f"{count} no length, so no address lies there (first range {found.empty})"
    return [f"{what}: the Go package keeps such symbols"]


def problem_of_extra(data: memoryview, extra: extras.Found | None) -> str:
    """What is wrong with the extra section; "" when it is whole, or when there is none."""
    if extra is None:
        return ""
    try:
        extras.check(data, extra)
    except FormatError as error:
        return str(error)
    return ""
