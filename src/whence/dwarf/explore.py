"""One unit, for people who explore: its functions with the calls inlined into them, and its line rows.

The same readers as for ranges, before anything is cut or put together. A function of several parts (hot and cold) is
several scopes; code that the linker dropped is left out.
"""

from __future__ import annotations

from collections.abc import Iterator

from whence._base.records import Record
from whence.dwarf.info import DebugInfo
from whence.ranges import Rows, Scopes
from whence.ranges.table import NO_FILE


class Scope(Record, frozen=True):
    """[start, end) in vaddrs of a function (depth 0) or of a call inlined into the scope of one less that came before.

    `call_file` and `call_line` say where it was called; "" and 0 for a function.
    """

    start: int
    end: int
    depth: int
    name: str
    call_file: str = ""
    call_line: int = 0


class LineTableRow(Record, frozen=True):
    """From this vaddr on the code is of this file and line. "" and line 0: no row describes it (a sequence's end)."""

    vaddr: int
    file: str
    line: int


class UnitView:
    """The scopes and rows of one unit of a file, read when made."""

    def __init__(self, info: DebugInfo, index: int) -> None:
        self.unit = info.units[index]
        self._text = info.strings.text
        reader = info.reader()
        self._scopes, self._rows = reader.read_unit(index)
        self.problems = reader.finish()

    def scopes(self) -> Iterator[Scope]:
        """Functions and inlined calls, in the order of their DIEs."""
        found: Scopes = self._scopes
        for i in range(len(found)):
            yield Scope(
                found.vaddr[i],
                found.end[i],
                found.depth[i],
                self._text(found.function[i]),
                self._text(found.call_file[i]),
                found.call_line[i],
            )

    def rows(self) -> Iterator[LineTableRow]:
        """The rows of the unit's line program, in ascending order."""
        found: Rows = self._rows
        files = [self._text(ref) for ref in found.files]
        for vaddr, file, line in zip(found.vaddr, found.file, found.line, strict=True):
            yield LineTableRow(vaddr, "" if file == NO_FILE else files[file], line)
