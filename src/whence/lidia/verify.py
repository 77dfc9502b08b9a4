"""Is an archive whole: its checksums, and every rule its ranges must keep."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from whence.errors import ChecksumError, FormatError
from whence.lidia import extra as extras
from whence.lidia import lookup_kernel
from whence.lidia.crc import crc32c_of

if TYPE_CHECKING:
    from whence.lidia.layout import Header, Section


class Inspected(NamedTuple):
    """What a walk over all ranges found. The last four are the first range that breaks a rule, -1 when none does."""

    functions: int
    inlined: int
    deepest: int
    with_file: int
    with_lines: int
    unordered: int
    empty: int
    name_outside: int
    lines_outside: int


def check_crc(data: memoryview, section: Section) -> None:
    """Raise ChecksumError unless the section's bytes have the checksum the header gives."""
    have = crc32c_of(data[section.offset : section.end]) if section.size else 0
    if have != section.crc:
        raise ChecksumError(
            f"lidia {section.name}", 0, f"its bytes have the CRC32C {section.crc:#010x}", f"{have:#010x}"
        )


def problems(
    archive: lookup_kernel.Archive, data: memoryview, header: Header, found: Inspected, extra: extras.Found | None
) -> list[str]:
    """Everything that is wrong, a sentence each."""
    out = []
    for section in header.sections:
        try:
            check_crc(data, section)
        except ChecksumError as error:
            out.append(str(error))
    entry = 8 * header.ranges.width
    for place, part, width, rule in (
        (found.unordered, "VA table", header.va.width, "ranges are in order of (va, depth)"),
        (found.empty, "range table", entry, "a range has a length"),
        (found.name_outside, "range table", entry, f"names lie in the {header.strings.size} bytes of the strings"),
        (found.lines_outside, "range table", entry, f"line entries are among the {header.lines.count} of the tables"),
    ):
        if place >= 0:
            out.append(f"lidia {part}+{place * width:#x}: {rule} (found range {place})")
    problem = problem_of_extra(data, extra)
    return [*out, problem] if problem else out


def problem_of_extra(data: memoryview, extra: extras.Found | None) -> str:
    """What is wrong with the extra section; "" when it is whole, or when there is none."""
    if extra is None:
        return ""
    try:
        extras.check(data, extra)
    except FormatError as error:
        return str(error)
    return ""
