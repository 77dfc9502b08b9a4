"""Split ranges so that each shows one file, that of its function's frame, at every address.

The frame of an outer function shows the file of the call inside it. A reader that takes each frame's file from the
range itself, as the Go package does, then gives the same files as a reader that knows call sites.

Input: a table in order of (vaddr, depth), as `merge` returns it. Output: the same table with more ranges.

1. A range with code of its own shows the file of its rows there, and the call's file at the bytes of an inlined call.
2. A range that shows several files is split at the ends of calls, never inside a call.
3. A piece without code of its own has no lines, as no lookup ends there.
"""

from __future__ import annotations

from array import array

from whence.ranges.kernels import columns as columns_kernel
from whence.ranges.kernels.caller_files import FileSplitter
from whence.ranges.merge import move_lines, resized
from whence.ranges.table import Ranges, zeros

RANGES_PER_PIECE = 8  # expected: one additional piece for this many ranges


def caller_files(table: Ranges) -> Ranges:
    """Return the table with the files of callers, and take over the columns of `table`.

    Linear in ranges, and in the lines of split ranges.
    """
    ranges = len(table)
    splitter = FileSplitter(ranges)
    capacity = ranges + ranges // RANGES_PER_PIECE
    columns = piece_columns(capacity)
    count = splitter.split(table, *columns)
    if count > capacity:
        columns = piece_columns(count)
        splitter.split(table, *columns)
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
        old_vaddrs, table.vaddr, table.length = table.vaddr, vaddr, length
        move_lines(pick, old_vaddrs, table)
        columns_kernel.clear_unless(owned, table.line_count)
    table.file = file
    return table


def piece_columns(pieces: int) -> tuple[array[int], array[int], array[int], array[int], array[int]]:
    """Return the columns of `pieces` pieces: range, vaddr, length, file, and 1 if the piece has code of its own."""
    return zeros("I", pieces), zeros("Q", pieces), zeros("Q", pieces), zeros("Q", pieces), zeros("B", pieces)
