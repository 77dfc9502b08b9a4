"""The columns that producers fill and lidia writes down.

Columns are `array.array`s (kernels see them as typed buffers): unsigned 64-bit "Q", 32-bit "I", 8-bit "B". A *name* is
a string reference (strings.py); a *vaddr* is an address as the ELF file's own headers count.
"""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence

from whence.ranges.strings import StringSpace
from whence.records import Record, field


def column(code: str) -> array[int]:
    """An empty column: Q, I or B."""
    return array(code)


def _q() -> array[int]:
    return array("Q")


def _i() -> array[int]:
    return array("I")


def _b() -> array[int]:
    return array("B")


def check_columns(record: Record, names: Sequence[str], codes: str) -> None:
    """Raise ValueError unless these columns are arrays of these types and of one length, as kernels take them."""
    first = names[0]
    rows = len(getattr(record, first))
    for name, code in zip(names, codes, strict=True):
        column = getattr(record, name)
        if not isinstance(column, (array, memoryview)) or memoryview(column).format != code:
            raise ValueError(f"the column {name} is an array of type {code!r}")
        if len(column) != rows:
            raise ValueError(f"the columns {first} and {name} have a row each for one thing: {rows} and {len(column)}")


def check_ends(ends: Sequence[int], rows: int) -> None:
    """Raise ValueError unless the ends of groups ascend to the number of rows."""
    if any(end < before for before, end in zip([0, *ends], ends)) or (ends[-1] if len(ends) else 0) != rows:
        raise ValueError(f"the ends of groups ascend to the {rows} rows there are")


class Scopes(Record):
    """What a producer found: intervals [va, end) of functions and inlined calls, not yet cut or ordered.

    Depth 0 is a function (one scope for each disjoint part of it); depth n+1 lies inside the scope of depth n that
    comes before it. Scopes stand in tree order: a parent before its children, siblings in any order.
    `call_file` and `call_line` say where a scope of depth > 0 was called in its parent.
    """

    va: array[int] = field(default_factory=_q)
    end: array[int] = field(default_factory=_q)
    depth: array[int] = field(default_factory=_i)
    function: array[int] = field(default_factory=_q)  # name
    call_file: array[int] = field(default_factory=_q)  # name
    call_line: array[int] = field(default_factory=_i)

    def __len__(self) -> int:
        return len(self.va)

    def check(self) -> None:
        """Raise ValueError unless the columns are of one length."""
        check_columns(self, ("va", "end", "depth", "function", "call_file", "call_line"), "QQIQQI")


class Rows(Record):
    """Line rows: from `va` to the next row's va the code comes from `files[file]`, `line`.

    In ascending order of va; of several rows with the same va the last one counts. `file` is an index into `files`
    (a column of names); NO_FILE with line 0 starts a stretch that no row describes (the end of a sequence).
    """

    va: array[int] = field(default_factory=_q)
    file: array[int] = field(default_factory=_i)
    line: array[int] = field(default_factory=_i)
    files: array[int] = field(default_factory=_q)  # names

    def __len__(self) -> int:
        return len(self.va)

    def check(self) -> None:
        """Raise ValueError unless the columns are of one length."""
        check_columns(self, ("va", "file", "line"), "QII")
        check_columns(self, ("files",), "Q")


NO_FILE = 0xFFFFFFFF


class Starts(Record):
    """Where functions are declared: `function` (a name) starts on `line` (from 1) of `file` (a name).

    In any order, with repetitions; a function may have several rows (static ones of one name). Only a frame that lies
    in that very file is told to start there.
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


class Ranges(Record):
    """The table. `arrange` leaves it in order of (va, depth): an inlined range follows the range it lies in.

    A range covers [va, va + length). Its lines are rows [line_index, line_index + line_count) of `line_offset` (bytes
    from the range's va) and `line_number`; a row holds to the next one, the last to the range's end. All rows of a
    range are of its one `file`. Ranges may share rows. `starts` says on which lines functions begin.
    """

    strings: StringSpace
    va: array[int] = field(default_factory=_q)
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

    def __len__(self) -> int:
        return len(self.va)

    def check(self) -> None:
        """Raise ValueError unless the columns of ranges are of one length, and those of line rows."""
        check_columns(self, PER_RANGE, "QQIQQIIQIB")
        check_columns(self, ("line_offset", "line_number"), "II")
        self.starts.check()

    def holding(self, vaddrs: Iterable[int]) -> Ranges:
        """The ranges that hold any of the vaddrs, of a table in order of va whose ranges are all of depth 0."""
        last = {bisect_right(self.va, vaddr) - 1 for vaddr in vaddrs}
        places = sorted(last - {-1})
        out = Ranges(self.strings, line_offset=self.line_offset, line_number=self.line_number, starts=self.starts)
        for name in PER_RANGE:
            column = getattr(self, name)
            setattr(out, name, array(column.typecode, map(column.__getitem__, places)))
        return out


PER_RANGE = (
    "va", "length", "depth", "function", "file", "line_index", "line_count", "call_file", "call_line", "source",
)  # fmt: skip
