"""Several tables into one, in order, repaired so that every reader of an archive answers right.

In: tables in tree order (each range of depth 0 followed by the ranges inside it, by va), the best source first, all
over one string space. Out: one table in order of (va, depth).

1. Within a table the range of depth 0 that begins last counts at an address, then the shorter one, then the first (or
   the last) in the table: a function inside another one splits it, an alias hides the other. Sizes of 0 are dropped.
2. The better table's ranges lie over the others'. A range that has no name (lines without a function) takes the name of
   the one beneath it and keeps its lines.
3. What is covered in part is clipped, with its inlined ranges and its lines; an inlined range is clipped to its parent.
"""

from __future__ import annotations

from array import array
from itertools import pairwise

from whence.ranges.kernels import arrange as arrange_kernel
from whence.ranges.kernels import columns as columns_kernel
from whence.ranges.kernels import order as order_kernel
from whence.ranges.strings import StringSpace
from whence.ranges.table import Ranges, Starts

_Stretches = tuple["array[int]", "array[int]", "array[int]"]


def arrange(tables: list[Ranges], *, last_wins: bool = False) -> Ranges:
    """One table of several. The tables given are used up: their columns may be emptied or become the result's.

    `last_wins`: of ranges of depth 0 with the same addresses in one table the last counts instead of the first.
    Linear in ranges, and in lines of clipped ranges.
    """
    for table in tables:
        table.check()
    if not any(map(len, tables)):
        return tables[0] if tables else Ranges(StringSpace())
    tables = [table for table in tables if len(table)]
    bounds = array("I", [0])
    for table in tables:
        bounds.append(bounds[-1] + len(table))
    joined = join(tables)
    if len(joined) != bounds[-1]:
        raise ValueError("each table is given once")
    cut = [_stretches(joined, low, high, last_wins) for low, high in pairwise(bounds)]
    start, end, place = cut[0]
    name = place
    for lower in cut[1:]:
        room = 2 * (len(start) + len(lower[0])) + 2
        over = _words(room), _words(room), _halves(room), _halves(room)
        found = arrange_kernel.layer(joined.function, start, end, place, name, *lower, *over)
        start, end, place, name = (column[:found] for column in over)
    plan = arrange_kernel.Plan(len(joined), len(start))
    rows = plan.make(joined.va, joined.length, joined.depth, bounds, start, end, place, name, len(start))
    pick, names, depth, va, length = _halves(rows), _halves(rows), _halves(rows), _words(rows), _words(rows)
    if plan.fill(pick, names, depth, va, length) and rows == len(joined):
        joined.depth = depth
        return joined
    del plan
    return gathered(joined, pick, names, depth, va, length)


def join(tables: list[Ranges]) -> Ranges:
    """The first table, with the rows of the others behind its own. The others are emptied."""
    joined = tables[0]
    for table in tables[1:]:
        base, lines = len(joined), len(joined.line_offset)
        for column in _COLUMNS:
            getattr(joined, column).extend(getattr(table, column))
            setattr(table, column, array(getattr(table, column).typecode))
        columns_kernel.add(joined.line_index, base, lines)
        joined.starts.extend(table.starts)
        table.starts = Starts()
    return joined


_COLUMNS = (
    "va", "length", "depth", "function", "file", "line_index", "line_count", "call_file", "call_line", "source",
    "line_offset", "line_number",
)  # fmt: skip


def _stretches(joined: Ranges, low: int, high: int, last_wins: bool) -> _Stretches:
    """Which root covers which addresses, in one table: start, end, the root's place."""
    roots = arrange_kernel.count_roots(joined.depth, low, high)
    place, start, end = _halves(roots), _words(roots), _words(roots)
    if not arrange_kernel.list_roots(joined.va, joined.length, joined.depth, low, high, place, start, end):
        return start, end, place
    order = array("I", range(roots) if last_wins else range(roots - 1, -1, -1))
    for key in (array("Q", [0xFFFFFFFFFFFFFFFF - value for value in end]), start):
        room = _halves(roots)
        order = room if order_kernel.order(key, order, room, False) else order
    out_start, out_end, out_root = _words(2 * roots), _words(2 * roots), _halves(2 * roots)
    found = arrange_kernel.cover(start, end, order, _halves(roots), out_start, out_end, out_root)
    places = _halves(found)
    columns_kernel.gather_halves(out_root[:found], place, places)
    return out_start[:found], out_end[:found], places


def gathered(
    joined: Ranges, pick: array[int], names: array[int], depth: array[int], va: array[int], length: array[int]
) -> Ranges:
    """The table of the rows that are picked, with new names (the places they come from), depths and clipped addresses.

    A column of the old table goes as soon as the new one has its own.
    """
    rows = len(pick)
    out = Ranges(joined.strings, va=va, length=length, depth=depth, starts=joined.starts)
    joined.length = joined.depth = array("I")
    for column, by in (("function", names), ("file", pick), ("call_file", pick)):
        setattr(out, column, _words(rows))
        columns_kernel.gather_words(by, getattr(joined, column), getattr(out, column))
        setattr(joined, column, array("Q"))
    for column in ("line_index", "line_count", "call_line"):
        setattr(out, column, _halves(rows))
        columns_kernel.gather_halves(pick, getattr(joined, column), getattr(out, column))
        setattr(joined, column, array("I"))
    out.source = array("B", bytes(rows))
    columns_kernel.gather_bytes(names, joined.source, out.source)
    out.line_offset, out.line_number = joined.line_offset, joined.line_number
    lines = len(out.line_offset)
    move = (pick, joined.va, va, length, out.line_index, out.line_count)
    more = columns_kernel.move_lines(*move, out.line_offset, out.line_number, lines, False)
    for grown in (out.line_offset, out.line_number):
        grown.frombytes(bytes(4 * more))
    columns_kernel.move_lines(*move, out.line_offset, out.line_number, lines, True)
    return out


def _words(count: int) -> array[int]:
    return array("Q", bytes(8 * count))


def _halves(count: int) -> array[int]:
    return array("I", bytes(4 * count))
