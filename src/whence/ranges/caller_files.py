"""Ranges whose file is the one that their function's frame shows, at every address.

The frame of an outer function shows the file of the call inside it. A reader that takes each frame's file from the
range itself, as the Go package's does, then gives the same files as one that knows call sites.

In: a table in order of (vaddr, depth), as `merge` leaves it. Out: the same, with more ranges.

1. A range with code of its own shows its rows' file there, and at the bytes of an inlined call the call's file.
2. A range that shows several files is cut at the ends of calls, never inside one.
3. A piece without code of its own has no lines: no lookup ends there.
"""

from __future__ import annotations

from array import array

from whence.ranges.kernels import columns as columns_kernel
from whence.ranges.kernels.caller_files import Pieces
from whence.ranges.merge import move_lines, resized
from whence.ranges.table import Ranges, zeros

MORE = 8  # ranges for each of which there is room for one more piece, at first


def caller_files(table: Ranges) -> Ranges:
    """The table with the files of callers. The one given is used up. Linear in ranges, and in lines of cut ranges."""
    ranges = len(table)
    pieces = Pieces(ranges)
    room = ranges + ranges // MORE
    columns = room_for(room)
    count = pieces.cut(table, *columns)
    if count > room:
        columns = room_for(count)
        pieces.cut(table, *columns)
    pick, vaddr, length, file, owned = columns
    for column in columns:
        del column[count:]
    if count > ranges:
        for name in ("function", "call_file"):
            columns_kernel.spread_u64(pick, resized(getattr(table, name), count))
        for name in ("depth", "line_index", "line_count", "call_line"):
            columns_kernel.spread_u32(pick, resized(getattr(table, name), count))
        columns_kernel.spread_u8(pick, resized(table.source, count))
        if (numbers := table.columns) is not None:
            columns_kernel.spread_u32(pick, resized(numbers.call_column, count))
            columns_kernel.spread_u32(pick, resized(numbers.call_discriminator, count))
        before, table.vaddr, table.length = table.vaddr, vaddr, length
        move_lines(pick, before, table)
        columns_kernel.clear_unless(owned, table.line_count)
    table.file = file
    return table


def room_for(pieces: int) -> tuple[array[int], array[int], array[int], array[int], array[int]]:
    """Columns of so many pieces: the range of each, its vaddr, length and file, and whether it has own bytes."""
    return zeros("I", pieces), zeros("Q", pieces), zeros("Q", pieces), zeros("Q", pieces), zeros("B", pieces)
