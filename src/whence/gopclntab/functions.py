"""Functions: functab and its records as columns, read in one pass and bounded by the code they cover."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from whence._base.errors import GopclntabError
from whence._base.records import Record
from whence.gopclntab.header import PclntabHeader
from whence.gopclntab.kernels import functions as functions_kernel
from whence.gopclntab.kernels.functions import NO_FUNCTION

SAMPLES = 256


class Function(Record, frozen=True):
    """A function: [entry, end) in vaddrs. The end is the next function's entry, so padding is included."""

    entry: int
    end: int
    name: str


class FunctionExtents(Record, frozen=True):
    """The extents of all functions in the table's order, as columns: vaddrs, and names as references."""

    entry: array[int]
    end: array[int]
    name: array[int]


ROW_COLUMNS = ("entry", "end", "tree", "name", "pcsp", "pcfile", "pcln", "cu", "pcinl", "start")


class PclntabFunctions:
    """The records of functions as columns, a row per row of functab.

    `name` is an offset, NO_FUNCTION in a damaged row. `start` is the line that the function starts on, 0 if not
    recorded. `tree` is the inline tree's position as in funcdata, NO_TREE without one. `longest` and `total` are bytes
    of code: of the longest function and of all. `damaged` counts rows.
    """

    __slots__ = (
        "cu",
        "damaged",
        "end",
        "entry",
        "longest",
        "name",
        "pcfile",
        "pcinl",
        "pcln",
        "pcsp",
        "start",
        "total",
        "tree",
    )

    def __init__(self, rows: int) -> None:
        self.entry, self.end, self.tree = (array("Q", bytes(8 * rows)) for _ in range(3))
        self.name, self.pcsp, self.pcfile, self.pcln, self.cu, self.pcinl, self.start = (
            array("I", bytes(4 * rows)) for _ in range(7)
        )
        self.damaged = self.longest = self.total = 0

    def holding(self, vaddrs: Iterable[int]) -> PclntabFunctions:
        """Return the rows whose code contains any of the vaddrs, in the same order."""
        rows = array("I", bytes(4 * len(self.entry)))
        del rows[functions_kernel.rows_holding(self, array("Q", sorted(vaddrs)), rows) :]
        some = PclntabFunctions(0)
        for name in ROW_COLUMNS:
            column: array[int] = getattr(self, name)
            setattr(some, name, array(column.typecode, [column[row] for row in rows]))
        spans = [end - entry for entry, end, name in zip(some.entry, some.end, some.name) if name != NO_FUNCTION]
        some.longest, some.total = max(spans, default=0), sum(spans)
        return some


def field(data: memoryview, header: PclntabHeader, index: int) -> int:
    """Return a field of functab: entries have even indexes, offsets of records odd ones."""
    offset = header.functab_at + index * header.field
    return int.from_bytes(data[offset : offset + header.field], header.order)


def sample_offsets(data: memoryview, header: PclntabHeader) -> list[int]:
    """Return functab's first entry, samples of the others, and its last entry, which ends the table."""
    count = header.functions
    if not count:
        raise GopclntabError("functab", 0, "the table has no functions")
    sampled = range(0, count, max(1, count // SAMPLES))
    return [field(data, header, 2 * index) for index in sampled] + [field(data, header, 2 * count)]


class RecordLayout(Record, frozen=True):
    """Offsets in functab and its records, for the kernel.

    Offsets in a record count from the field after its entry; -1: the version has no such field.
    """

    big: bool
    functab: int  # offset in the table
    count: int
    field: int  # width of a field of functab, and of a record's entry
    records: int  # base of record offsets
    cu_at: int
    last_at: int
    start_at: int
    wide_last: bool  # the number of funcdata is the last word, not its last byte
    pcdata: int  # indexes of the pcdata and funcdata of inlined calls
    funcdata: int
    pointer: int  # width of a funcdata pointer; 0: funcdata are 32-bit offsets


def read_functions(
    data: memoryview, header: PclntabHeader, inlined_in: tuple[int, int], base: int, code: int
) -> PclntabFunctions:
    """Read the records of all functions.

    Args:
        inlined_in: the indexes of the pcdata and the funcdata of inlined calls.
        base: added to entries.
        code: bytes of code in the file; the functions may cover at most twice as much.
    """
    columns = PclntabFunctions(header.functions)
    version = header.version
    layout = RecordLayout(
        header.order == "big",
        header.functab_at,
        header.functions,
        header.field,
        header.functab_at if version.has_units else 0,
        version.cu_at,
        version.last_at,
        version.start_at,
        not version.has_units and _counts_are_words(data, header),
        *inlined_in,
        0 if version.relative else header.pointer,
    )
    columns.damaged, first, columns.longest, columns.total = functions_kernel.read(data, layout, base, columns)
    if columns.damaged == header.functions:
        raise GopclntabError("functab", 2 * first * header.field, "no row refers to a record with the same entry")
    if columns.total > 2 * code:
        raise GopclntabError(
            "functab", 0, f"functions cover {columns.total} bytes, but the file has {code} bytes of code"
        )
    return columns


def _counts_are_words(data: memoryview, header: PclntabHeader) -> bool:
    """Return True if a record's number of funcdata is a word (1.2 to 1.11), not its last byte (1.12 to 1.15).

    In the second case the word's other bytes are a function id and zeros. In big-endian files both have the same value.
    """
    if header.order == "big":
        return False
    for index in range(0, header.functions, max(1, header.functions // SAMPLES)):
        offset = field(data, header, 2 * index + 1) + header.field + header.version.last_at
        if offset + 4 <= len(data) and data[offset + 3]:
            return False
    return True


def move(columns: PclntabFunctions, base: int, pieces: list[tuple[int, int, int]]) -> None:
    """Move entries to where the linker put their piece of text, and sort the rows by entry again.

    The offsets in `pieces` (start, end, vaddr) count as if the pieces were contiguous.
    """
    for column, is_end in ((columns.entry, 0), (columns.end, 1)):
        for index, value in enumerate(column):
            offset = value - base
            for start, end, vaddr in pieces:
                if start + is_end <= offset < end + is_end:
                    column[index] = vaddr + offset - start
                    break
    order = sorted(range(len(columns.entry)), key=columns.entry.__getitem__)
    for name in ROW_COLUMNS:
        unsorted: array[int] = getattr(columns, name)
        setattr(columns, name, array(unsorted.typecode, [unsorted[index] for index in order]))
