"""Lay line rows over scopes: the output of a producer becomes ranges.

Input: scopes (functions and inlined calls, in tree order) and line rows (in address order) of a unit or a file. Output:
ranges in order of (vaddr, depth), appended to a table.

1. The scope that is last in tree order wins an address, with the chain of scopes around it. For nested scopes that is
   the innermost one; where functions or sibling calls overlap, the later one wins and the earlier one is cut around it;
   a call that extends past its function extends the chain.
2. A row belongs to the innermost range. Neighboring rows with equal file and line are one entry.
3. A range has one file. It is cut where the file of its own rows changes, never inside a child, and where no row
   describes it: no file is better than a wrong one. A row of line 0 that has a file keeps the file.
4. Rows outside all scopes become ranges of depth 0 without a name, for which `merge` uses a symbol.
5. Neighboring ranges of one inlined call (optimizers split calls) and of one file are joined.
6. A range is cut before an entry that is more than 65,535 bytes after its start, so that two bytes hold the offset.
   Only the first entry may be farther, in a range that begins with calls.
"""

from __future__ import annotations

from array import array

from whence.ranges.kernels import columns as columns_kernel
from whence.ranges.kernels import order as order_kernel
from whence.ranges.kernels import overlay as overlay_kernel
from whence.ranges.table import ColumnNumbers, check_ends, zeros

TYPE_CHECKING = False
if TYPE_CHECKING:
    from whence._base.source import Source
    from whence.ranges.table import Ranges, Rows, Scopes


def overlay_lines(scopes: Scopes, rows: Rows, out: Ranges, source: Source) -> None:
    """Append the ranges of `scopes` and `rows` to `out`.

    Linear in scopes and rows (unsorted scopes are sorted first). The GIL is released, so threads may call this at the
    same time, each with a table of its own.
    """
    overlay_groups(scopes, array("I", [len(scopes)]), rows, array("I", [len(rows)]), out, source)


def overlay_groups(
    scopes: Scopes, scope_ends: array[int], rows: Rows, row_ends: array[int], out: Ranges, source: Source,
    sweep: overlay_kernel.Sweep | None = None,
) -> None:  # fmt: skip
    """Append the ranges of several groups of scopes and rows (the units of a batch), group after group.

    `scope_ends` and `row_ends` are the ends of each group's scopes and rows. Pass a `sweep` to reuse its memory.
    """
    scopes.check()
    rows.check()
    out.check()
    check_ends(scope_ends, len(scopes))
    check_ends(row_ends, len(rows))
    if len(scope_ends) != len(row_ends):
        raise ValueError(f"{len(scope_ends)} groups of scopes but {len(row_ends)} groups of rows")
    sweep = sweep or overlay_kernel.Sweep()
    order = zeros("I", len(scopes))
    order_kernel.order_groups(scopes.vaddr, scope_ends, order, zeros("I", len(scopes)))
    sweep.run(scopes, order, rows, scope_ends, row_ends)
    ranges, lines = sweep.join(scopes)
    base, line_base = len(out), len(out.line_offset)
    grow(out, ranges, lines, source.number)
    sweep.fill(scopes, out, base, line_base)
    if rows.locations is not None:
        columns = out.columns
        if columns is None:
            columns = ColumnNumbers.unknown(base, line_base)
        columns.grow(ranges, lines)
        out.columns = columns
        locations = rows.locations
        columns_kernel.locate(out.line_number, line_base, locations, columns.line_column, columns.line_discriminator)
        columns_kernel.locate(out.call_line, base, locations, columns.call_column, columns.call_discriminator)


def by_key(keys: array[int]) -> array[int]:
    """Return the indexes of the keys in ascending order of key; equal keys keep their order."""
    first, second = zeros("I", len(keys)), zeros("I", len(keys))
    return second if order_kernel.order(keys, first, second, True) else first


def grow(out: Ranges, ranges: int, lines: int, source: int) -> None:
    """Append `ranges` ranges and `lines` line entries that are all zero."""
    by_range_u64, by_range_u32, by_line = bytes(8 * ranges), bytes(4 * ranges), bytes(4 * lines)
    for column in (out.vaddr, out.length, out.function, out.file, out.call_file):
        column.frombytes(by_range_u64)
    for column in (out.depth, out.line_index, out.line_count, out.call_line):
        column.frombytes(by_range_u32)
    out.source.frombytes(bytes([source]) * ranges)
    for column in (out.line_offset, out.line_number):
        column.frombytes(by_line)
