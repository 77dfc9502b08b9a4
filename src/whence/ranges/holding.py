"""The part of a table that answers for given addresses, for a query whose addresses are all known.

Input: a table in tree order, and vaddrs. Output: the ranges that contain any of the vaddrs, with the line rows that do.
The frames at each of the vaddrs equal those of the whole table, even after `merge`.

Ranges keep their length: of several ranges of depth 0 at an address, `merge` prefers the last to begin.
"""

from __future__ import annotations

from array import array

from whence.ranges.kernels import columns as columns_kernel
from whence.ranges.kernels import holding as holding_kernel
from whence.ranges.table import ColumnNumbers, Ranges, zeros


def holding(table: Ranges, vaddrs: memoryview) -> Ranges:
    """Return the ranges that contain any of `vaddrs` (in ascending order), with all declarations.

    Linear in ranges, and in the line rows of the result.
    """
    table.check()
    rows = zeros("I", len(table))
    rows = rows[: holding_kernel.holding(table, vaddrs, rows)]
    count = len(rows)
    out = Ranges(table.strings, starts=table.starts)
    for name in ("vaddr", "length", "function", "file", "call_file"):
        setattr(out, name, zeros("Q", count))
        columns_kernel.gather_u64(rows, getattr(table, name), getattr(out, name))
    for name in ("depth", "call_line"):
        setattr(out, name, zeros("I", count))
        columns_kernel.gather_u32(rows, getattr(table, name), getattr(out, name))
    out.source = array("B", bytes(count))
    columns_kernel.gather_u8(rows, table.source, out.source)
    out.line_index, out.line_count = zeros("I", count), zeros("I", count)
    if (columns := table.columns) is not None:
        out.columns = ColumnNumbers.unknown(count, 0)
        columns_kernel.gather_u32(rows, columns.call_column, out.columns.call_column)
        columns_kernel.gather_u32(rows, columns.call_discriminator, out.columns.call_discriminator)
    lines = holding_kernel.held_lines(rows, table, vaddrs, out, False)
    out.line_offset, out.line_number = zeros("I", lines), zeros("I", lines)
    if out.columns is not None:
        out.columns.grow(0, lines)
    holding_kernel.held_lines(rows, table, vaddrs, out, True)
    return out
