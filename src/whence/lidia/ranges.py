"""The table of ranges that an archive stores, to write it in another format."""

from __future__ import annotations

import sys
from array import array

from whence._base.budget import Budget
from whence._base.errors import LidiaError
from whence.lidia.kernels.queries import (
    CALL_FILE,
    CALL_LINE,
    DEPTH,
    FILE,
    FUNCTION,
    LENGTH,
    LINE_COUNT,
    LINE_FIELDS,
    LINE_INDEX,
    RANGE_FIELDS,
)
from whence.lidia.layout import LINE_TABLES, LINES_ALLOWANCE, LINES_TIMES
from whence.ranges import Ranges, StringSpace
from whence.ranges.merge import merge

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from whence.lidia.layout import ArchiveSection
    from whence.lidia.table import Table

CODES = {2: "H", 4: "I", 8: "Q"}
PREFIX = 4  # bytes of a length before a string
U32 = 0xFFFFFFFF


def ranges_of(table: Table) -> Ranges:
    """Return the ranges of an archive in order of (vaddr, depth), repaired if they overlap; names are copied.

    Declarations and columns are left out. Raises LidiaError if line entries are shared beyond the limit of the
    archive's size.
    """
    header, data = table.header, table.content()
    strings = StringSpace()
    raw = data[header.strings.offset : header.strings.end]
    names, starts = terminated(raw) if table.encoding == "length" else (raw, {0, *starts_after_nuls(raw)})
    source = strings.ref(strings.add(names), 0)
    fields = numbers_of(data, header.ranges, RANGE_FIELDS)
    lines = numbers_of(data, header.lines, LINE_FIELDS)
    counts = fields[LINE_COUNT]
    size = header.lines.entries
    budget = Budget(
        LINE_TABLES, "line entries of ranges", size, times=LINES_TIMES, allowance=LINES_ALLOWANCE, error=LidiaError
    )
    budget.charge(sum(counts))
    first = fields[LINE_INDEX]
    for index, count in enumerate(counts):
        if first[index] + count > size:
            first[index] = counts[index] = 0

    def refs(offsets: array[int]) -> array[int]:
        return array("Q", [source + offset if offset and offset in starts else 0 for offset in offsets])

    def narrow(numbers: array[int]) -> array[int]:
        return array("I", [min(number, U32) for number in numbers])

    out = Ranges(
        strings, vaddr=table.vaddrs(), length=array("Q", fields[LENGTH]), depth=narrow(fields[DEPTH]),
        function=refs(fields[FUNCTION]), file=refs(fields[FILE]), line_index=narrow(first), line_count=narrow(counts),
        call_file=refs(fields[CALL_FILE]), call_line=narrow(fields[CALL_LINE]),
        source=array("B", table.source_numbers()), line_offset=array("I", lines[0]), line_number=array("I", lines[1]),
    )  # fmt: skip
    return merge([out])


def numbers_of(data: memoryview, section: ArchiveSection, fields: int) -> list[array[int]]:
    """Return each field of the entries of a section as a column."""
    if not section.entries:
        return [array("Q") for _ in range(fields)]
    code = CODES[section.width]
    stored = array(code)
    stored.frombytes(data[section.offset : section.end])
    if sys.byteorder == "big":
        stored.byteswap()
    return [array("Q", stored[field::fields]) for field in range(fields)]


def terminated(strings: memoryview) -> tuple[bytearray, set[int]]:
    """Return length-prefixed strings as strings with a NUL at the end, at the same offsets, and these offsets.

    A name that begins elsewhere would overlap others, and many could have one long text.
    """
    starts = set()
    out = bytearray(len(strings))
    offset = 0
    while offset + PREFIX <= len(strings):
        size = int.from_bytes(strings[offset : offset + PREFIX], "little")
        end = min(offset + PREFIX + size, len(strings))
        out[offset : end - PREFIX] = strings[offset + PREFIX : end]
        starts.add(offset)
        offset = end
    return out, starts


def starts_after_nuls(strings: memoryview) -> Iterator[int]:
    """Yield the offset after each NUL."""
    offset = 0
    for text in bytes(strings).split(b"\0"):
        offset += len(text) + 1
        yield offset
