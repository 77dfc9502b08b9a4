"""From what a producer found to ranges: rows laid over scopes.

In: scopes (functions and inlined calls, in tree order) and line rows (in address order) of one unit or one whole file.
Out: ranges in order of (vaddr, depth), appended to a table.

1. At each address the scope that comes last in tree order counts, with the chain of scopes it stands in. For nested
   scopes that is the innermost one; where functions or sibling calls overlap, the later one wins and the earlier is
   cut around it; a call that sticks out of its function takes its chain along.
2. A row goes to the innermost range. Rows with equal file and line are one entry.
3. A range has one file. Where the file of its own rows changes, the range is cut, never inside a child. Where no row
   describes it, it is cut as well, so that there the answer has no file instead of a wrong one. A row of line 0 that
   has a file keeps the file.
4. Rows outside every scope become ranges of depth 0 without a name; `merge` lays a symbol under them.
5. Neighbours that are the same inlined call (optimizers leave its parts side by side) and of one file are one range.
6. A range is also cut before an entry lies more than 65,535 bytes behind its start, so that two bytes hold its offset.
   The first entry alone may lie further behind, in a range that begins with calls of so many bytes.
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
    """Append the ranges of these scopes and rows to `out`.

    Linear in scopes and rows (sorting the scopes by vaddr comes on top where they are not). The lock of the interpreter
    is not held while it works, so threads may do this at once, each into a table of its own.
    """
    overlay_groups(scopes, array("I", [len(scopes)]), rows, array("I", [len(rows)]), out, source)


def overlay_groups(
    scopes: Scopes, scope_ends: array[int], rows: Rows, row_ends: array[int], out: Ranges, source: Source,
    sweep: overlay_kernel.Sweep | None = None,
) -> None:  # fmt: skip
    """The same for many groups at once (the units of a batch), one after the other, each for itself: `scope_ends` and
    `row_ends` say where the scopes and rows of each group end. Who has many batches keeps a `sweep` for them."""
    scopes.check()
    rows.check()
    out.check()
    check_ends(scope_ends, len(scopes))
    check_ends(row_ends, len(rows))
    if len(scope_ends) != len(row_ends):
        raise ValueError(f"each group has scopes and rows: {len(scope_ends)} and {len(row_ends)} ends")
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
    """The indexes of the keys in ascending order of key; equal keys keep their order."""
    first, second = zeros("I", len(keys)), zeros("I", len(keys))
    return second if order_kernel.order(keys, first, second, True) else first


def grow(out: Ranges, ranges: int, lines: int, source: int) -> None:
    """Room for so many more ranges and line entries, all zero."""
    by_range_u64, by_range_u32, by_line = bytes(8 * ranges), bytes(4 * ranges), bytes(4 * lines)
    for column in (out.vaddr, out.length, out.function, out.file, out.call_file):
        column.frombytes(by_range_u64)
    for column in (out.depth, out.line_index, out.line_count, out.call_line):
        column.frombytes(by_range_u32)
    out.source.frombytes(bytes([source]) * ranges)
    for column in (out.line_offset, out.line_number):
        column.frombytes(by_line)
