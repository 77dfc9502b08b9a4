"""Functions into ranges: the kernel's input, its bounds, and the resulting table."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from whence._base.errors import GopclntabError
from whence._base.records import Record
from whence._base.source import Source
from whence.gopclntab.kernels import ranges as ranges_kernel
from whence.gopclntab.kernels.constants import MAX_DEPTH, MAX_STANDSTILL
from whence.ranges import Ranges, Starts, StringSpace

if TYPE_CHECKING:
    from whence.gopclntab.functions import PclntabFunctions
    from whence.gopclntab.header import PclntabHeader
    from whence.gopclntab.inlining import Trees

HOPS_PER_BYTE = 8  # limit of steps up the inline trees per byte of code; real programs need under 0.1
RANGES_PER_FUNCTION = 7  # initial capacity; real programs have 4 to 7
BYTES_PER_ROW = 19  # of code, for the initial capacity; real programs have 18 to 30
SLACK = 64  # ranges and rows that any table may have

COLUMNS = (
    *("vaddr", "length", "depth", "function", "file"),
    *("line_index", "line_count", "call_file", "call_line"),
    *("line_offset", "line_number"),
)


class FunctionTables(Record, frozen=True):
    """The parts of the table that ranges are made of, for the kernel. Names are references."""

    big: bool
    quantum: int
    lowest_file: int  # the first file number of a unit
    pctab: memoryview  # pc-value tables
    names_size: int
    names_base: int
    texts_size: int  # of the file names
    texts_base: int
    file_table: memoryview  # from file numbers to file names, 32 bits each


def make_tables(
    strings: StringSpace,
    header: PclntabHeader,
    pctab: memoryview,
    names: memoryview,
    texts: memoryview,
    file_table: memoryview,
) -> FunctionTables:
    """Collect the parts, and add names and file names to `strings`."""
    names_base = strings.ref(strings.add(names), 0)
    texts_base = names_base if texts is names else strings.ref(strings.add(texts), 0)
    return FunctionTables(
        header.order == "big",
        header.quantum,
        0 if header.version.has_units else 1,
        pctab,
        len(names),
        names_base,
        len(texts),
        texts_base,
        file_table,
    )


def function_ranges(
    strings: StringSpace,
    tables: FunctionTables,
    functions: PclntabFunctions,
    trees: Trees | None,
    *,
    lines: bool,
    files: bool,
) -> tuple[Ranges, int, int]:
    """Return the ranges of all functions, and how many functions lost their lines and their inlined calls to damage.

    Raises:
        GopclntabError: there are more ranges than twice the instructions, so the table is not about code.
    """
    count = len(functions.entry)
    limit = count + functions.total // tables.quantum
    # a run needs two bytes of pctab and a quantum of code, or does not move the pc
    runs = min(functions.longest // tables.quantum, len(tables.pctab) // 2) + MAX_STANDSTILL + 1
    columns = ranges_kernel.RangeColumns(
        min(limit, RANGES_PER_FUNCTION * count),
        functions.total // BYTES_PER_ROW + SLACK if lines else 0,
        2 * limit + SLACK,
    )
    hops = HOPS_PER_BYTE * functions.total + MAX_DEPTH
    builder = ranges_kernel.RangeBuilder(functions, tables, trees, lines, files, runs, hops)
    if not builder.run(columns):
        raise GopclntabError("functions", None, f"more ranges than twice the {limit} instructions")
    out = Ranges(strings)
    for name in COLUMNS:
        getattr(out, name).frombytes(getattr(columns, name))
    out.source.frombytes(bytes([Source.GOPCLNTAB.number]) * len(out.vaddr))
    if lines and files:
        start = array("I")
        start.frombytes(columns.start_line)
        out.starts = Starts(out.function[:], out.file[:], start)
    return out, builder.damaged_lines, builder.damaged_trees
