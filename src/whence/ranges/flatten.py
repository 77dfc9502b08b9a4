"""A table back into functions with their inlined calls and line rows, as other formats store them.

The inverse of overlay.py: the parts of a function or call that the table cuts where the file changes are joined, and a
function's rows are in order of vaddr, those of all calls together. A part of a function that is not adjacent to the
others, such as cold code, is a function of its own.
"""

from __future__ import annotations

from array import array

from whence._base.records import Record
from whence.kernels.rows import numbered, taken
from whence.ranges.kernels.flatten import Flattener
from whence.ranges.table import Ranges, Rows, Scopes

TYPE_CHECKING = False
if TYPE_CHECKING:
    from whence.kernels.columns import Column


class FlatTable(Record):
    """Scopes and rows in groups, each a function of depth 0 with its inlined calls. File 0 of the rows is unknown.

    scope_ends, row_ends: the ends of each function's scopes and rows.
    source: the table that named each scope.
    nameless: the number of ranges without a function, which are left out.
    skipped: the number of ranges that no function contains, or that are nested too deeply.
    """

    scopes: Scopes
    scope_ends: memoryview
    rows: Rows
    row_ends: memoryview
    source: array[int]
    nameless: int
    skipped: int

    def __len__(self) -> int:
        """Return the number of functions."""
        return len(self.scope_ends)


def as_array(column: Column) -> array[int]:
    """Return the numbers of a column."""
    out = array(column.typecode)
    out.frombytes(column)
    return out


def flatten(table: Ranges) -> FlatTable:
    """Return the functions of a table, which is in order of (vaddr, depth)."""
    table.check()
    numbers, distinct = numbered(array("Q", [0]) + table.file, "Q")
    names: dict[bytes, int] = {}  # threads that read debug info have references of their own
    by_ref = array("I", [names.setdefault(table.strings.raw(ref), len(names)) for ref in distinct.numbers()])
    refs = dict(zip(reversed(by_ref), reversed(distinct.numbers()), strict=True))
    files = taken(by_ref, "I", numbers.numbers()[1:]).numbers()
    flattener = Flattener(table.strings.sources)
    flattener.run(table, files)
    row = flattener.row.numbers()
    scopes = Scopes(
        as_array(flattener.vaddr),
        as_array(flattener.end),
        as_array(flattener.depth),
        as_array(taken(table.function, "Q", row)),
        as_array(taken(table.call_file, "Q", row)),
        as_array(taken(table.call_line, "I", row)),
    )
    rows = Rows(
        as_array(flattener.row_vaddr),
        as_array(flattener.row_file),
        as_array(flattener.row_line),
        array("Q", map(refs.__getitem__, range(len(names)))),
    )
    return FlatTable(
        scopes,
        flattener.scope_ends.numbers(),
        rows,
        flattener.row_ends.numbers(),
        as_array(taken(table.source, "B", row)),
        flattener.nameless,
        flattener.skipped,
    )
