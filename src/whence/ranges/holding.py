"""The part of a table that answers for some addresses: all that is read for a question whose addresses are all known.

In: a table in tree order, and vaddrs. Out: the ranges that hold any of the vaddrs, with the line rows that do, and a
chain at each of the vaddrs that is the same as in the whole table, also after `merge`.

Ranges stay as long as they were: of several ranges of depth 0 at an address `merge` takes the one that begins last.
"""

from __future__ import annotations

from array import array

from whence.ranges.kernels import columns as columns_kernel
from whence.ranges.kernels import holding as holding_kernel
from whence.ranges.table import ColumnNumbers, Ranges, zeros


def holding(table: Ranges, vaddrs: memoryview) -> Ranges:
    """The ranges that hold any of the vaddrs, which ascend. Linear in ranges, and in the line rows of those that do.

    All starts stay: they are by name.
    """
    table.check()
    place = zeros("I", len(table))
    place = place[: holding_kernel.holding(table, vaddrs, place)]
    kept = len(place)
    out = Ranges(table.strings, starts=table.starts)
    for name in ("vaddr", "length", "function", "file", "call_file"):
        setattr(out, name, zeros("Q", kept))
        columns_kernel.gather_u64(place, getattr(table, name), getattr(out, name))
    for name in ("depth", "call_line"):
        setattr(out, name, zeros("I", kept))
        columns_kernel.gather_u32(place, getattr(table, name), getattr(out, name))
    out.source = array("B", bytes(kept))
    columns_kernel.gather_u8(place, table.source, out.source)
    out.line_index, out.line_count = zeros("I", kept), zeros("I", kept)
    if (columns := table.columns) is not None:
        out.columns = ColumnNumbers.unknown(kept, 0)
        columns_kernel.gather_u32(place, columns.call_column, out.columns.call_column)
        columns_kernel.gather_u32(place, columns.call_discriminator, out.columns.call_discriminator)
    lines = holding_kernel.held_lines(place, table, vaddrs, out, False)
    out.line_offset, out.line_number = zeros("I", lines), zeros("I", lines)
    if out.columns is not None:
        out.columns.grow(0, lines)
    holding_kernel.held_lines(place, table, vaddrs, out, True)
    return out
