"""Several tables into one, in order, repaired so that every reader of an archive answers right.

In: tables in tree order (each range of depth 0 followed by the ranges inside it, by vaddr), the best source first, all
over one string space. Out: one table in order of (vaddr, depth).

1. Within a table the range of depth 0 that begins last counts at an address, then the shorter one, then the first (or
   the last) in the table: a function inside another one splits it, an alias hides the other. Sizes of 0 are dropped.
2. The better table's ranges lie over the others'. A range that has no name (lines without a function) takes the name of
   the one beneath it and keeps its lines.
3. What is covered in part is clipped, with its inlined ranges and its lines; an inlined range is clipped to its parent.
"""

from __future__ import annotations

from array import array
from itertools import pairwise

from whence._base.records import Record
from whence.ranges.kernels import columns as columns_kernel
from whence.ranges.kernels import merge as merge_kernel
from whence.ranges.kernels import order as order_kernel
from whence.ranges.strings import StringSpace
from whence.ranges.table import ColumnNumbers, Ranges, Starts, zeros


class Stretches(Record):
    """Which range of depth 0 covers which addresses: [start, end), the range's index, the index of the one that names
    it."""

    start: array[int]
    end: array[int]
    place: array[int]
    name: array[int]

    @classmethod
    def room(cls, count: int) -> Stretches:
        return cls(zeros("Q", count), zeros("Q", count), zeros("I", count), zeros("I", count))

    def first(self, count: int) -> Stretches:
        """The first ones of these."""
        return Stretches(self.start[:count], self.end[:count], self.place[:count], self.name[:count])

    def __len__(self) -> int:
        return len(self.start)


class Picks(Record):
    """Rows of a table to be: the index of the range that each comes from and of the one that names it, its depth and
    where it lies."""

    place: array[int]
    name: array[int]
    depth: array[int]
    vaddr: array[int]
    length: array[int]

    @classmethod
    def room(cls, rows: int) -> Picks:
        return cls(zeros("I", rows), zeros("I", rows), zeros("I", rows), zeros("Q", rows), zeros("Q", rows))

    def cut(self, rows: int) -> None:
        """Keep no more than so many rows."""
        for column in (self.place, self.name, self.depth, self.vaddr, self.length):
            del column[rows:]


def merge(tables: list[Ranges], *, last_wins: bool = False) -> Ranges:
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
    if len(set(map(id, tables))) != len(tables):
        raise ValueError("each table is given once")
    joined = join(tables)
    cut = [_stretches(joined, low, high, last_wins) for low, high in pairwise(bounds)]
    best = cut[0]
    for lower in cut[1:]:
        out = Stretches.room(2 * (len(best) + len(lower)) + 2)
        best = out.first(merge_kernel.layer(joined.function, best, lower, out))
    plan = merge_kernel.MergePlan(len(joined))
    picks = Picks.room(len(joined))
    rows = plan.make(joined, bounds, best, picks)
    if rows > len(joined):
        picks = Picks.room(rows)
        plan.make(joined, bounds, best, picks)
    picks.cut(rows)
    if plan.same:
        joined.depth = picks.depth
        return joined
    del plan
    return gathered(joined, picks)


def join(tables: list[Ranges]) -> Ranges:
    """The first table, with the rows of the others behind its own. The others are emptied."""
    joined, others = tables[0], tables[1:]
    base, lines = len(joined), len(joined.line_offset)
    for table in others:
        if joined.columns is not None or table.columns is not None:
            if joined.columns is None:
                joined.columns = ColumnNumbers.unknown(base, lines)
            joined.columns.extend(table.columns or ColumnNumbers.unknown(len(table), len(table.line_offset)))
            table.columns = None
        columns_kernel.add(table.line_index, 0, lines)
        base, lines = base + len(table), lines + len(table.line_offset)
        joined.starts.extend(table.starts)
        table.starts = Starts()
    for column in _COLUMNS:
        parts = [getattr(table, column) for table in others]
        if len(parts) == 1:
            getattr(joined, column).extend(parts[0])
        else:
            getattr(joined, column).frombytes(b"".join(parts))  # which makes room once
        for table in others:
            setattr(table, column, array(getattr(table, column).typecode))
        del parts
    return joined


_COLUMNS = (
    "vaddr", "length", "depth", "function", "file", "line_index", "line_count", "call_file", "call_line", "source",
    "line_offset", "line_number",
)  # fmt: skip


def _stretches(joined: Ranges, low: int, high: int, last_wins: bool) -> Stretches:
    """Which root covers which addresses, in one table."""
    count = merge_kernel.count_roots(joined.depth, low, high)
    roots = Stretches.room(count)
    if not merge_kernel.list_roots(joined, low, high, roots):
        roots.name = roots.place
        return roots
    order = array("I", range(count) if last_wins else range(count - 1, -1, -1))
    shorter_last = zeros("Q", count)
    columns_kernel.complement(roots.end, shorter_last)
    for key in (shorter_last, roots.start):
        room = zeros("I", count)
        order = room if order_kernel.order(key, order, room, False) else order
    out = Stretches.room(2 * count)
    out = out.first(merge_kernel.cover(roots, order, zeros("I", count), out))
    places = zeros("I", len(out))
    columns_kernel.gather_u32(out.place, roots.place, places)
    out.place = out.name = places
    return out


def gathered(joined: Ranges, picks: Picks) -> Ranges:
    """The table of the rows that are picked, with new names, depths and clipped addresses.

    What an old column took holds the new column that comes next: memory that was not used before costs more than
    copying does.
    """
    rows = len(picks.place)
    out = Ranges(joined.strings, vaddr=picks.vaddr, length=picks.length, depth=picks.depth, starts=joined.starts)
    wide, narrow = joined.length, joined.depth
    joined.length, joined.depth = array("Q"), array("I")
    for column, by in (("function", picks.name), ("file", picks.place), ("call_file", picks.place)):
        old = getattr(joined, column)
        columns_kernel.gather_u64(by, old, resized(wide, rows))
        setattr(out, column, wide)
        setattr(joined, column, array("Q"))
        wide = old
    for column in ("line_index", "line_count", "call_line"):
        old = getattr(joined, column)
        columns_kernel.gather_u32(picks.place, old, resized(narrow, rows))
        setattr(out, column, narrow)
        setattr(joined, column, array("I"))
        narrow = old
    out.source = zeros("B", rows)
    columns_kernel.gather_u8(picks.name, joined.source, out.source)
    out.line_offset, out.line_number = joined.line_offset, joined.line_number
    if (columns := joined.columns) is not None:
        out.columns = ColumnNumbers(columns.line_column, columns.line_discriminator, zeros("I", rows), zeros("I", rows))
        columns_kernel.gather_u32(picks.place, columns.call_column, out.columns.call_column)
        columns_kernel.gather_u32(picks.place, columns.call_discriminator, out.columns.call_discriminator)
    move_lines(picks.place, joined.vaddr, out)
    return out


def resized(column: array[int], rows: int) -> array[int]:
    """The column, with so many rows."""
    if rows > len(column):
        column.extend(zeros(column.typecode, rows - len(column)))
    else:
        del column[rows:]
    return column


def move_lines(places: array[int], old_vaddrs: array[int], table: Ranges) -> None:
    """Let the clipped ranges of a table have the line rows that are still theirs. `places` says which of the
    `old_vaddrs` was a range's."""
    offset, number, column, discriminator = columns_kernel.move_lines(places, old_vaddrs, table)
    table.line_offset.frombytes(offset)
    table.line_number.frombytes(number)
    if table.columns is not None:
        table.columns.line_column.frombytes(column)
        table.columns.line_discriminator.frombytes(discriminator)
