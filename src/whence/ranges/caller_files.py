"""Ranges whose file is the one that their function's frame shows, at every address.

The frame of an outer function shows the file of the call inside it. A reader that takes each frame's file from the
range itself, as the Go package's does, then gives the same files as one that knows call sites.

In: a table in order of (vaddr, depth), as `merge` leaves it. Out: the same, with more ranges.

1. A range with code of its own shows its rows' file there, and at the bytes of an inlined call the call's file.
2. A range that shows several files is cut at the ends of calls, never inside one.
3. A piece without code of its own has no lines: no lookup ends there.
"""

from __future__ import annotations

from whence.interrupts import interruptible
from whence.ranges.kernels import columns as columns_kernel
from whence.ranges.kernels.caller_files import Pieces
from whence.ranges.merge import Picks, gathered
from whence.ranges.table import Ranges, zeros


@interruptible
def caller_files(table: Ranges) -> Ranges:
    """The table with the files of callers. The one given is used up. Linear in ranges, and in lines of cut ranges."""
    pieces = Pieces(len(table))
    count = pieces.cut(table)
    pick, owned = zeros("I", count), bytearray(count)
    vaddr, length, file = (zeros("Q", count) for _ in range(3))
    pieces.fill(pick, vaddr, length, file, owned)
    del pieces
    if count > len(table):
        depth = zeros("I", count)
        columns_kernel.gather_u32(pick, table.depth, depth)
        table = gathered(table, Picks(pick, pick, depth, vaddr, length))
        columns_kernel.clear_unless(owned, table.line_count)
    table.file = file
    return table
