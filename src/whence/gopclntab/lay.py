"""Columns for ranges_kernel: how much room it gets, and when it has had enough."""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from whence.errors import GopclntabError
from whence.gopclntab.header import Header
from whence.gopclntab.inlining import SHAPES, Trees
from whence.gopclntab.kernels import ranges as ranges_kernel
from whence.model import Source
from whence.ranges import Ranges, Starts, StringSpace

if TYPE_CHECKING:
    from whence.gopclntab.functions import Columns

MAX_DEPTH = 256  # as the kernel has it
MAX_STANDSTILL = 64
HOPS_PER_BYTE = 8  # steps up the inline trees that are spent per byte of code; real programs need under 0.1
RANGES_PER_FUNCTION = 7  # room at first; real programs have 4 to 7
BYTES_PER_ROW = 19  # of code, room at first; real programs have 18 to 30

RANGE_COLUMNS = (
    *("va", "length", "depth", "function", "file"),
    *("line_index", "line_count", "call_file", "call_line"),
)
LINE_COLUMNS = ("line_offset", "line_number")


def _not_empty(data: memoryview) -> memoryview:
    return data if len(data) else memoryview(b"\0")


def _resize(out: Ranges, columns: tuple[str, ...], rows: int) -> None:
    """Give the columns that many rows; new ones are zeros."""
    for name in columns:
        column: array[int] = getattr(out, name)
        if not len(column):
            setattr(out, name, array(column.typecode, [0]) * rows)
        elif rows < len(column):
            del column[rows:]
        elif rows > len(column):
            column.extend(array(column.typecode, [0]) * (rows - len(column)))


def lay(
    strings: StringSpace,
    header: Header,
    columns: Columns,
    pctab: memoryview,
    names: memoryview,
    texts: memoryview,
    file_table: memoryview,
    trees: Trees | None,
    *,
    lines: bool,
    files: bool,
) -> tuple[Ranges, int, int]:
    """The ranges of every function, how many functions lost their lines to damage, and how many their inlined calls."""
    out = Ranges(strings)
    names_base = strings.ref(strings.add(names), 0)
    texts_base = names_base if texts is names else strings.ref(strings.add(texts), 0)
    shape = trees.shape if trees is not None else SHAPES["1.20"][0]

    # a run takes two bytes of pctab and a quantum of code, or stands still
    runs = min(columns.longest // header.quantum, len(pctab) // 2) + MAX_STANDSTILL + 2
    run_starts, run_values = array("I", bytes(12 * runs)), array("i", bytes(12 * runs))
    rows = array("I", bytes(3 * 3 * 4 * runs))
    stack = array("i", bytes(4 * 5 * (MAX_DEPTH + 1)))
    start = array("I")
    state = array("Q", [0, 0, 0, 0, 0, HOPS_PER_BYTE * columns.together + MAX_DEPTH])

    most = len(columns.entry) + columns.together // header.quantum  # more ranges than instructions are not code
    room = min(most, RANGES_PER_FUNCTION * len(columns.entry))
    line_room = columns.together // BYTES_PER_ROW + 64 if lines else 0
    while True:
        _resize(out, RANGE_COLUMNS, room)
        _resize(out, LINE_COLUMNS, line_room)
        start.frombytes(bytes(4 * (room - len(start))))
        full = ranges_kernel.lay(
            _not_empty(pctab),
            trees.data if trees is not None and len(trees.data) else memoryview(b"\0"),
            _not_empty(file_table),
            header.order == "big",
            header.quantum,
            lines,
            files,
            trees is not None,
            len(names),
            names_base,
            len(texts),
            texts_base,
            1 if header.version.cu_at < 0 else 0,
            shape.size,
            shape.name_at,
            shape.parent_width,
            shape.pc_at,
            shape.start_at,
            columns.entry,
            columns.end,
            columns.name,
            columns.pcsp,
            columns.pcfile,
            columns.pcln,
            columns.cu,
            columns.pcinl,
            columns.start,
            columns.tree,
            trees.base if trees is not None else 0,
            run_starts,
            run_values,
            rows,
            stack,
            state,
            *(getattr(out, name) for name in RANGE_COLUMNS + LINE_COLUMNS),
            start,
        )
        if not full:
            break
        if room >= 2 * most and line_room >= 2 * most:
            raise GopclntabError("functions", None, "their ranges are fewer than their instructions", f"over {most}")
        room = min(2 * room, 2 * most)
        line_room = min(2 * line_room, 2 * most)
    _resize(out, RANGE_COLUMNS, state[1])
    _resize(out, LINE_COLUMNS, state[2])
    out.source.frombytes(bytes([Source.GOPCLNTAB.number]) * state[1])
    if lines and files:
        out.starts = Starts(out.function[:], out.file[:], start[: state[1]])
    return out, state[3], state[4]
