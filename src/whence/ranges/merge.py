"""Merge several tables into one, in order and free of contradictions, so that any reader answers correctly.

Input: tables over one string space, the best source first, each in tree order (every range of depth 0 is followed by
the ranges inside it, by vaddr). Output: one table in order of (vaddr, depth).

1. Within a table, the range of depth 0 that begins last wins an address, then the shorter one, then the first (or the
   last) in the table: a function inside another one splits it, an alias hides the other. A range that continues the
   function before it began with that function: another range that begins there wins. Ranges of size 0 are dropped.
2. Ranges of a better table win over others. A range without a name (lines without a function) takes the name of the
   range below it and keeps its lines.
3. A range that is covered in part is clipped, with its inlined ranges and its lines; an inlined range is clipped to its
   parent.
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
    """Addresses by the range of depth 0 that covers them: [start, end), and two rows of the table.

    `place` is the row of the range, `name` the row of the range that names it.
    """

    start: array[int]
    end: array[int]
    place: array[int]
    name: array[int]

    @classmethod
    def of_size(cls, count: int) -> Stretches:
        """Return columns of `count` stretches."""
        return cls(zeros("Q", count), zeros("Q", count), zeros("I", count), zeros("I", count))

    def first(self, count: int) -> Stretches:
        """Return the first `count` stretches."""
        return Stretches(self.start[:count], self.end[:count], self.place[:count], self.name[:count])

    def __len__(self) -> int:
        return len(self.start)


class Picks(Record):
    """Rows of the merged table: the old rows that they come from and that name them, their depth, vaddr and length."""

    place: array[int]
    name: array[int]
    depth: array[int]
    vaddr: array[int]
    length: array[int]

    @classmethod
    def of_size(cls, rows: int) -> Picks:
        """Return columns of `rows` rows."""
        return cls(zeros("I", rows), zeros("I", rows), zeros("I", rows), zeros("Q", rows), zeros("Q", rows))

    def cut(self, rows: int) -> None:
        """Delete all but the first `rows` rows."""
        for column in (self.place, self.name, self.depth, self.vaddr, self.length):
            del column[rows:]


def merge(tables: list[Ranges], *, last_wins: bool = False) -> Ranges:
    """Return one table of several, and take over their columns: the given tables may be empty afterwards.

    With `last_wins`, the last of several ranges of depth 0 at the same addresses in one table wins instead of the
    first. Linear in ranges, and in the lines of clipped ranges.
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
        raise ValueError("a table is given twice")
    joined = join(tables)
    cut = [_stretches(joined, low, high, last_wins) for low, high in pairwise(bounds)]
    best = cut[0]
    for lower in cut[1:]:
        out = Stretches.of_size(2 * (len(best) + len(lower)) + 2)
        best = out.first(merge_kernel.layer(joined.function, best, lower, out))
    plan = merge_kernel.MergePlan(len(joined))
    picks = Picks.of_size(len(joined))
    rows = plan.make(joined, bounds, best, picks)
    if rows > len(joined):
        picks = Picks.of_size(rows)
        plan.make(joined, bounds, best, picks)
    picks.cut(rows)
    if plan.same:
        joined.depth = picks.depth
        return joined
    del plan
    return gathered(joined, picks)


def join(tables: list[Ranges]) -> Ranges:
    """Append the rows of all other tables to the first, empty the others, and return the first."""
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
            getattr(joined, column).frombytes(b"".join(parts))  # grows once
        for table in others:
            setattr(table, column, array(getattr(table, column).typecode))
        del parts
    return joined


_COLUMNS = (
    "vaddr", "length", "depth", "function", "file", "line_index", "line_count", "call_file", "call_line", "source",
    "line_offset", "line_number",
)  # fmt: skip


def _stretches(joined: Ranges, low: int, high: int, last_wins: bool) -> Stretches:
    """Return which range of depth 0 covers which addresses, for rows [low, high)."""
    count = merge_kernel.count_roots(joined.depth, low, high)
    roots = Stretches.of_size(count)
    if not merge_kernel.list_roots(joined, low, high, roots):
        roots.name = roots.place
        return roots
    order = array("I", range(count) if last_wins else range(count - 1, -1, -1))
    tie_keys = zeros("Q", count)
    merge_kernel.write_tie_keys(roots, tie_keys)
    for key in (tie_keys, roots.start):
        scratch = zeros("I", count)
        order = scratch if order_kernel.order(key, order, scratch, False) else order
    out = Stretches.of_size(2 * count)
    out = out.first(merge_kernel.cover(roots, order, zeros("I", count), out))
    places = zeros("I", len(out))
    columns_kernel.gather_u32(out.place, roots.place, places)
    out.place = out.name = places
    return out


def gathered(joined: Ranges, picks: Picks) -> Ranges:
    """Return the table of the picked rows, with new names, depths and clipped addresses.

    Each old column is reused for the next new one: writing to fresh memory costs more than copying.
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
    """Return the column, resized to `rows` rows."""
    if rows > len(column):
        column.extend(zeros(column.typecode, rows - len(column)))
    else:
        del column[rows:]
    return column


def move_lines(places: array[int], old_vaddrs: array[int], table: Ranges) -> None:
    """Rewrite the line rows of clipped ranges of a table.

    `places` are the old rows of the ranges, `old_vaddrs` the vaddrs by old row.
    """
    offset, number, column, discriminator = columns_kernel.move_lines(places, old_vaddrs, table)
    table.line_offset.frombytes(offset)
    table.line_number.frombytes(number)
    if table.columns is not None:
        table.columns.line_column.frombytes(column)
        table.columns.line_discriminator.frombytes(discriminator)
