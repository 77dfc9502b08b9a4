"""The columns that producers fill and archives store.

Columns are `array.array`s (kernels see them as typed buffers): unsigned 64-bit "Q", 32-bit "I", 8-bit "B". A *name* is
a string reference (strings.py); a *vaddr* is an address as in the headers of the object file.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from itertools import chain
from operator import gt

from whence._base.records import Record, field
from whence.ranges.strings import StringSpace


def column(code: str) -> array[int]:
    """Return an empty column: Q, I or B."""
    return array(code)


_ZERO = {code: array(code, [0]) for code in "QIB"}


def zeros(code: str, count: int) -> array[int]:
    """Return a column of `count` zeros. Faster than array(code, bytes(size)), which copies."""
    return _ZERO[code] * count


def _q() -> array[int]:
    return array("Q")


def _i() -> array[int]:
    return array("I")


def _b() -> array[int]:
    return array("B")


def check_columns(record: Record, names: Sequence[str], codes: str) -> None:
    """Raise ValueError unless these columns are arrays of these types and of one length, as kernels need."""
    first = names[0]
    rows = len(getattr(record, first))
    for name, code in zip(names, codes, strict=True):
        column = getattr(record, name)
        if not isinstance(column, (array, memoryview)) or memoryview(column).format != code:
            raise ValueError(f"column {name} is not an array of type {code!r}")
        if len(column) != rows:
            raise ValueError(f"columns {first} and {name} have different lengths: {rows} and {len(column)}")


def check_ends(ends: Sequence[int], rows: int) -> None:
    """Raise ValueError unless the ends of groups ascend to the number of rows."""
    if any(map(gt, chain((0,), ends), ends)) or (ends[-1] if len(ends) else 0) != rows:
        raise ValueError(f"the ends of groups do not ascend to the number of rows ({rows})")


class Scopes(Record):
    """Intervals [vaddr, end) of functions and inlined calls as a producer found them, not yet cut or ordered.

    Depth 0 is a function (one scope for each of its disjoint parts); depth n+1 is inside the closest scope of depth n
    before it. Scopes are in tree order: a parent before its children, siblings in any order. `call_file` and
    `call_line` are the place of the call in the parent, for depth > 0. With Rows that have locations, `call_line` is
    the number of a location.
    """

    vaddr: array[int] = field(default_factory=_q)
    end: array[int] = field(default_factory=_q)
    depth: array[int] = field(default_factory=_i)
    function: array[int] = field(default_factory=_q)  # name
    call_file: array[int] = field(default_factory=_q)  # name
    call_line: array[int] = field(default_factory=_i)
    call_column: array[int] = field(default_factory=_i)  # empty unless requested
    call_discriminator: array[int] = field(default_factory=_i)

    def __len__(self) -> int:
        return len(self.vaddr)

    def check(self) -> None:
        """Raise ValueError unless the columns are of one length."""
        check_columns(self, ("vaddr", "end", "depth", "function", "call_file", "call_line"), "QQIQQI")
        if len(self.call_column) or len(self.call_discriminator):
            check_columns(self, ("vaddr", "call_column", "call_discriminator"), "QII")


class Locations(Record):
    """Lines with columns and discriminators, by number, for rows and calls.

    Number 0, and any number past the end, is line 0, column 0.
    """

    line: array[int] = field(default_factory=_i)
    column: array[int] = field(default_factory=_i)  # 0: unknown
    discriminator: array[int] = field(default_factory=_i)

    def __len__(self) -> int:
        return len(self.line)


class Rows(Record):
    """Line rows: from `vaddr` to the next row's vaddr, the code is from `files[file]`, `line`.

    In ascending order of vaddr; of several rows with the same vaddr the last one counts. `file` is an index into
    `files` (a column of names); NO_FILE with line 0 begins a gap that no row describes (the end of a sequence). With
    `locations`, `line` is the number of a location.
    """

    vaddr: array[int] = field(default_factory=_q)
    file: array[int] = field(default_factory=_i)
    line: array[int] = field(default_factory=_i)
    files: array[int] = field(default_factory=_q)  # names
    locations: Locations | None = None

    def __len__(self) -> int:
        return len(self.vaddr)

    def check(self) -> None:
        """Raise ValueError unless the columns are of one length."""
        check_columns(self, ("vaddr", "file", "line"), "QII")
        check_columns(self, ("files",), "Q")
        if self.locations is not None:
            check_columns(self.locations, ("line", "column", "discriminator"), "III")


NO_FILE = 0xFFFFFFFF


class Starts(Record):
    """Declarations of functions: `function` (a name) starts on `line` (from 1) of `file` (a name).

    In any order, with repetitions; a function may have several rows (static functions of one name). Only frames in that
    file have this start line.
    """

    function: array[int] = field(default_factory=_q)
    file: array[int] = field(default_factory=_q)
    line: array[int] = field(default_factory=_i)

    def __len__(self) -> int:
        return len(self.line)

    def check(self) -> None:
        """Raise ValueError unless the columns are of one length."""
        check_columns(self, ("function", "file", "line"), "QQI")

    def part(self, first: int, last: int) -> Starts:
        return Starts(self.function[first:last], self.file[first:last], self.line[first:last])

    def extend(self, other: Starts) -> None:
        self.function.extend(other.function)
        self.file.extend(other.file)
        self.line.extend(other.line)


class ColumnNumbers(Record):
    """Columns in source lines, of the line rows and calls of a table. 0: unknown."""

    line_column: array[int] = field(default_factory=_i)  # by line row
    line_discriminator: array[int] = field(default_factory=_i)
    call_column: array[int] = field(default_factory=_i)  # by range
    call_discriminator: array[int] = field(default_factory=_i)

    @classmethod
    def unknown(cls, ranges: int, lines: int) -> ColumnNumbers:
        """Return unknown columns for this many ranges and line rows."""
        by_line, by_range = bytes(4 * lines), bytes(4 * ranges)
        return cls(array("I", by_line), array("I", by_line), array("I", by_range), array("I", by_range))

    def grow(self, ranges: int, lines: int) -> None:
        """Append unknown columns for this many ranges and line rows."""
        for column in (self.line_column, self.line_discriminator):
            column.frombytes(bytes(4 * lines))
        for column in (self.call_column, self.call_discriminator):
            column.frombytes(bytes(4 * ranges))

    def extend(self, other: ColumnNumbers) -> None:
        for name in ("line_column", "line_discriminator", "call_column", "call_discriminator"):
            getattr(self, name).extend(getattr(other, name))


class Ranges(Record):
    """The table. `merge` returns it in order of (vaddr, depth): an inlined range follows the range around it.

    A range covers [vaddr, vaddr + length). Its lines are rows [line_index, line_index + line_count) of `line_offset`
    (bytes from the range's vaddr) and `line_number`; a row applies until the next one, the last until the range's end.
    All rows of a range are in its one `file`. Ranges may share rows. `starts` are the declarations of functions;
    `columns`, if requested, the columns of rows and calls.
    """

    strings: StringSpace
    vaddr: array[int] = field(default_factory=_q)
    length: array[int] = field(default_factory=_q)
    depth: array[int] = field(default_factory=_i)
    function: array[int] = field(default_factory=_q)  # name
    file: array[int] = field(default_factory=_q)  # name
    line_index: array[int] = field(default_factory=_i)
    line_count: array[int] = field(default_factory=_i)
    call_file: array[int] = field(default_factory=_q)  # name
    call_line: array[int] = field(default_factory=_i)
    source: array[int] = field(default_factory=_b)  # model.Source
    line_offset: array[int] = field(default_factory=_i)
    line_number: array[int] = field(default_factory=_i)
    starts: Starts = field(default_factory=Starts)
    columns: ColumnNumbers | None = None

    def __len__(self) -> int:
        return len(self.vaddr)

    def check(self) -> None:
        """Raise ValueError unless the columns of ranges are of one length, and those of line rows."""
        check_columns(self, PER_RANGE, "QQIQQIIQIB")
        check_columns(self, ("line_offset", "line_number"), "II")
        self.starts.check()
        if self.columns is not None:
            check_columns(self.columns, ("line_column", "line_discriminator"), "II")
            check_columns(self.columns, ("call_column", "call_discriminator"), "II")
            if (len(self.columns.line_column), len(self.columns.call_column)) != (len(self.line_offset), len(self)):
                raise ValueError("the columns of lines and calls have another length than the table")


PER_RANGE = (
    "vaddr", "length", "depth", "function", "file", "line_index", "line_count", "call_file", "call_line", "source",
)  # fmt: skip
