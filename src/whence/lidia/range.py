"""A range as a person adds it to an archive and sees it in one."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Sequence

    LineTable = Sequence[tuple[int, int]]


class LineTableEntry(NamedTuple):
    """From `offset` bytes after its range's VA on, the code comes from line `line_number`."""

    offset: int
    line_number: int


class Range(NamedTuple):
    """[va, va + length) of one function, or of one inlined call (depth > 0), of one file.

    `call_file` and `call_line` say where an inlined call was made. `line_table` has (offset, line) entries.
    `start_line` is the line of `file` the function starts on, 0 where it is not known.
    """

    va: int
    length: int
    function: str
    file: str = ""
    call_file: str = ""
    call_line: int = 0
    depth: int = 0
    line_table: LineTable = ()
    source: str = "given"
    start_line: int = 0
