"""Functions: functab and its records as columns, read in one pass and bounded by the code they claim."""

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
    """One function, for people. [entry, end) are vaddrs; the end is the next function's entry, padding included."""

    entry: int
    end: int
    name: str


class Functions(Record, frozen=True):
    """Functions in the table's order, as columns of vaddrs and of names (references)."""

    entry: array[int]
    end: array[int]
    name: array[int]


ROW_COLUMNS = ("entry", "end", "tree", "name", "pcsp", "pcfile", "pcln", "cu", "pcinl", "start")


class FunctionColumns:
    """What the records say, a row per row of functab.

    `name` is an offset, NO_FUNCTION in a damaged row; `start` the line the function starts on, 0 where records have
    none. `tree` is where the inline tree lies, as funcdata has it, NO_TREE where there is none.
    `longest` and `together` are bytes of code: of the longest function, and of all. `damaged` counts rows.
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
        "together",
        "tree",
    )

    def __init__(self, rows: int) -> None:
        self.entry, self.end, self.tree = (array("Q", bytes(8 * rows)) for _ in range(3))
        self.name, self.pcsp, self.pcfile, self.pcln, self.cu, self.pcinl, self.start = (
            array("I", bytes(4 * rows)) for _ in range(7)
        )
        self.damaged = self.longest = self.together = 0

    def holding(self, vaddrs: Iterable[int]) -> FunctionColumns:
        """The rows whose code holds any of the vaddrs, in the same order."""
        rows = array("I", bytes(4 * len(self.entry)))
        del rows[functions_kernel.rows_holding(self, array("Q", sorted(vaddrs)), rows) :]
        some = FunctionColumns(0)
        for name in ROW_COLUMNS:
            column: array[int] = getattr(self, name)
            setattr(some, name, array(column.typecode, [column[row] for row in rows]))
        spans = [end - entry for entry, end, name in zip(some.entry, some.end, some.name) if name != NO_FUNCTION]
        some.longest, some.together = max(spans, default=0), sum(spans)
        return some


def field(data: memoryview, header: PclntabHeader, index: int) -> int:
    """A field of functab: entries have even indexes, offsets of records odd ones."""
    offset = header.functab_at + index * header.field
    return int.from_bytes(data[offset : offset + header.field], header.order)


def sample_offsets(data: memoryview, header: PclntabHeader) -> list[int]:
    """functab's first entry, samples of the others, and its last, which ends the table."""
    count = header.functions
    if not count:
        raise GopclntabError("functab", 0, "it holds at least one function", 0)
    sampled = range(0, count, max(1, count // SAMPLES))
    return [field(data, header, 2 * index) for index in sampled] + [field(data, header, 2 * count)]


class RecordLayout(Record, frozen=True):
    """Where functab and the fields of its records lie, as the kernel reads them. Offsets in a record count from the
    field behind its entry; -1 is a field that the version does not have."""

    big: bool
    functab: int  # offset in the table
    count: int
    field: int  # the width of a field of functab, and of a record's entry
    records: int  # what offsets of records count from
    cu_at: int
    last_at: int
    start_at: int
    wide_last: bool  # the number of funcdata is all of the last word, not its last byte
    pcdata: int  # which of the pcdata and funcdata describe inlined calls
    funcdata: int
    pointer: int  # the width of a funcdata pointer; 0 where funcdata are 32-bit offsets


def read_functions(
    data: memoryview, header: PclntabHeader, inlined_in: tuple[int, int], base: int, code: int
) -> FunctionColumns:
    """The columns. `inlined_in` are the indexes of the pcdata and the funcdata of inlined calls. `base` is
    added to entries; the functions may claim at most twice `code` bytes of code."""
    columns = FunctionColumns(header.functions)
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
    columns.damaged, first, columns.longest, columns.together = functions_kernel.read(data, layout, base, columns)
    if columns.damaged == header.functions:
        rule = "its rows lead to records that repeat their entries"
        raise GopclntabError("functab", 2 * first * header.field, rule, "none that does")
    if columns.together > 2 * code:
        raise GopclntabError("functab", 0, f"its functions share {code} bytes of code", f"{columns.together} bytes")
    return columns


def _counts_are_words(data: memoryview, header: PclntabHeader) -> bool:
    """Whether a record's number of funcdata is a word (1.2 to 1.11) or the word's last byte (1.12 to 1.15).

    The word's other bytes are a function id and zeros then. In big-endian files both are read alike.
    """
    if header.order == "big":
        return False
    for index in range(0, header.functions, max(1, header.functions // SAMPLES)):
        offset = field(data, header, 2 * index + 1) + header.field + header.version.last_at
        if offset + 4 <= len(data) and data[offset + 3]:
            return False
    return True


def move(columns: FunctionColumns, base: int, pieces: list[tuple[int, int, int]]) -> None:
    """Put entries where the linker moved their piece of text, and rows in order of entry again.

    Offsets count as if the pieces lay together.
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
        before: array[int] = getattr(columns, name)
        setattr(columns, name, array(before.typecode, [before[index] for index in order]))
