"""The table of an object file at the addresses of the linked file.

Input: a table in tree order, and pieces of code with their new addresses. Output: the parts of the ranges in these
pieces, with their line rows, also in tree order. Code outside of all pieces was dropped by the linker.
"""

from __future__ import annotations

from array import array

from whence._base.records import Record
from whence.ranges.kernels import columns as columns_kernel
from whence.ranges.kernels import moved as moved_kernel
from whence.ranges.table import ColumnNumbers, Ranges, zeros


class Pieces(Record):
    """Pieces of code [start, end), ascending and without overlaps, and the new address of each start."""

    start: array[int]
    end: array[int]
    target: array[int]


class MovedRows(Record):
    """Ranges and line rows of the result, with the rows that they come from."""

    place: array[int]
    vaddr: array[int]
    length: array[int]
    line_index: array[int]
    line_count: array[int]
    line_place: array[int]
    line_offset: array[int]

    @classmethod
    def of_size(cls, ranges: int, lines: int) -> MovedRows:
        """Return columns of this many ranges and line rows."""
        return cls(
            zeros("I", ranges), zeros("Q", ranges), zeros("Q", ranges), zeros("I", ranges), zeros("I", ranges),
            zeros("I", lines), zeros("I", lines),
        )  # fmt: skip


def moved(table: Ranges, pieces: Pieces) -> Ranges:
    """Return the parts of ranges in pieces of code, at their new addresses, with all declarations."""
    table.check()
    rows = MovedRows.of_size(*moved_kernel.moved(table, pieces, MovedRows.of_size(0, 0), False))
    moved_kernel.moved(table, pieces, rows, True)
    ranges, lines = len(rows.place), len(rows.line_place)
    out = Ranges(
        table.strings, vaddr=rows.vaddr, length=rows.length, line_index=rows.line_index, line_count=rows.line_count,
        line_offset=rows.line_offset, starts=table.starts,
    )  # fmt: skip
    for name in ("function", "file", "call_file"):
        setattr(out, name, zeros("Q", ranges))
        columns_kernel.gather_u64(rows.place, getattr(table, name), getattr(out, name))
    for name in ("depth", "call_line"):
        setattr(out, name, zeros("I", ranges))
        columns_kernel.gather_u32(rows.place, getattr(table, name), getattr(out, name))
    out.source = zeros("B", ranges)
    columns_kernel.gather_u8(rows.place, table.source, out.source)
    out.line_number = zeros("I", lines)
    columns_kernel.gather_u32(rows.line_place, table.line_number, out.line_number)
    if (columns := table.columns) is not None:
        out.columns = ColumnNumbers.unknown(ranges, lines)
        for name in ("call_column", "call_discriminator"):
            columns_kernel.gather_u32(rows.place, getattr(columns, name), getattr(out.columns, name))
        for name in ("line_column", "line_discriminator"):
            columns_kernel.gather_u32(rows.line_place, getattr(columns, name), getattr(out.columns, name))
    return out
