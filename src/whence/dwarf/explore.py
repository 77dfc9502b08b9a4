"""One unit for people who explore: its functions with their inlined calls, and its line rows.

The readers are those of ranges, but nothing is cut or joined. A function of several parts (hot and cold) is several
scopes; code that the linker dropped is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from whence._base.records import Record
from whence.dwarf.info import DebugInfo
from whence.ranges import Rows, Scopes
from whence.ranges.table import NO_FILE


class Scope(Record, frozen=True):
    """[start, end) in vaddrs of a function (depth 0) or of an inlined call.

    A call is inlined into the closest scope of one depth less before it. `call_file` and `call_line` are the place of
    the call; "" and 0 for a function.
    """

    start: int
    end: int
    depth: int
    name: str
    call_file: str = ""
    call_line: int = 0


class LineTableRow(Record, frozen=True):
    """A line row: from `vaddr` on, the code is from `file` and `line`.

    "" and line 0 after the end of a sequence, where no row describes the code.
    """

    vaddr: int
    file: str
    line: int


class UnitView:
    """The scopes and rows of one unit, read at construction."""

    def __init__(self, info: DebugInfo, index: int) -> None:
        self.unit = info.units[index]
        self._text = info.strings.text
        reader = info.reader()
        self._scopes, self._rows = reader.read_unit(index)
        self.problems = reader.finish()

    def scopes(self) -> Iterator[Scope]:
        """Yield functions and inlined calls, in the order of their DIEs."""
        scopes: Scopes = self._scopes
        for i in range(len(scopes)):
            yield Scope(
                scopes.vaddr[i],
                scopes.end[i],
                scopes.depth[i],
                self._text(scopes.function[i]),
                self._text(scopes.call_file[i]),
                scopes.call_line[i],
            )

    def rows(self) -> Iterator[LineTableRow]:
        """Yield the rows of the unit's line program, in ascending order."""
        rows: Rows = self._rows
        files = [self._text(ref) for ref in rows.files]
        for vaddr, file, line in zip(rows.vaddr, rows.file, rows.line, strict=True):
            yield LineTableRow(vaddr, "" if file == NO_FILE else files[file], line)
