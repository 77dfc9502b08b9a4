"""Functions into ranges: what the kernel gets to read, how much it may make of it, and what came out."""

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
    from whence.gopclntab.functions import FunctionColumns
    from whence.gopclntab.header import PclntabHeader
    from whence.gopclntab.inlining import Trees

HOPS_PER_BYTE = 8  # steps up the inline trees that are spent per byte of code; real programs need under 0.1
RANGES_PER_FUNCTION = 7  # room at first; real programs have 4 to 7
BYTES_PER_ROW = 19  # of code, room at first; real programs have 18 to 30
SLACK = 64  # ranges and rows that any table may have

COLUMNS = (
    *("vaddr", "length", "depth", "function", "file"),
    *("line_index", "line_count", "call_file", "call_line"),
    *("line_offset", "line_number"),
)


class FunctionTables(Record, frozen=True):
    """The parts of the table that ranges are made of, as the kernel reads them. Names are references."""

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
    """The parts, with names and file names made sources of `strings`."""
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
    functions: FunctionColumns,
    trees: Trees | None,
    *,
    lines: bool,
    files: bool,
) -> tuple[Ranges, int, int]:
    """The ranges of every function, how many functions lost their lines to damage, and how many their inlined calls.

    Raises GopclntabError when there are more ranges than twice the instructions: that is no code.
    """
    count = len(functions.entry)
    most = count + functions.together // tables.quantum
    # a run takes two bytes of pctab and a quantum of code, or stands still
    runs = min(functions.longest // tables.quantum, len(tables.pctab) // 2) + MAX_STANDSTILL + 1
    columns = ranges_kernel.RangeColumns(
        min(most, RANGES_PER_FUNCTION * count),
        functions.together // BYTES_PER_ROW + SLACK if lines else 0,
        2 * most + SLACK,
    )
    hops = HOPS_PER_BYTE * functions.together + MAX_DEPTH
    builder = ranges_kernel.RangeBuilder(functions, tables, trees, lines, files, runs, hops)
    if not builder.run(columns):
        raise GopclntabError("functions", None, "their ranges are fewer than their instructions", f"over {most}")
    out = Ranges(strings)
    for name in COLUMNS:
        getattr(out, name).frombytes(getattr(columns, name))
    out.source.frombytes(bytes([Source.GOPCLNTAB.number]) * len(out.vaddr))
    if lines and files:
        start = array("I")
        start.frombytes(columns.start_line)
        out.starts = Starts(out.function[:], out.file[:], start)
    return out, builder.damaged_lines, builder.damaged_trees
