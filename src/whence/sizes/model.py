"""Rows of names with bytes, and what was measured."""

from __future__ import annotations

from enum import StrEnum

from whence._base.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Literal

    SizeKey = Literal["function", "inlined", "file", "unit", "section"]
    """The key that bytes are grouped by. "inlined": code of inlined calls is that of the inlined function."""

KEYS = ("function", "inlined", "file", "unit", "section")


class Kind(StrEnum):
    """The kind of bytes of a row.

    NAME: code with the name. UNNAMED: code that nothing names. PADDING: instructions between functions that are never
    run. SECTION: a section without code, or any section if bytes are grouped by section. REST: bytes of the file in no
    section, such as headers.
    """

    NAME = "name"
    UNNAMED = "unnamed"
    PADDING = "padding"
    SECTION = "section"
    REST = "rest"


class SizeOptions(Record, frozen=True):
    """The bytes that are measured, and how they are grouped.

    by: "function", "inlined", "file", "unit" or "section".
    on_disk: bytes of the file, with debug info and headers, instead of bytes in memory.
    sections: names of the sections that are measured; all if empty.
    path_prefixes: pairs of starts of paths, each with its replacement, for the paths of files and units.
    """

    by: SizeKey = "function"
    on_disk: bool = False
    sections: tuple[str, ...] = ()
    path_prefixes: tuple[tuple[str, str], ...] = ()


class SizeRow(Record, frozen=True):
    """Bytes of one name.

    name: a function, file, unit or section; for other kinds a description in brackets.
    bytes: in the measured sections.
    inlined: how many of them are in inlined calls, if grouped by "inlined".
    kind: what the bytes are.
    """

    name: str
    bytes: int
    inlined: int = 0
    kind: Kind = Kind.NAME


class Sizes(Record, frozen=True):
    """The sizes of a file: rows by descending size. The bytes of all rows are `total`.

    `sections` are the measured sections with their bytes in the file's order; they add up to `total`, except for bytes
    on disk in no section.
    """

    path: str
    options: SizeOptions
    rows: tuple[SizeRow, ...]
    sections: tuple[tuple[str, int], ...]

    @property
    def total(self) -> int:
        """The number of measured bytes."""
        return sum(row.bytes for row in self.rows)

    @property
    def named(self) -> int:
        """The number of bytes of code that has a name."""
        return sum(row.bytes for row in self.rows if row.kind is Kind.NAME)
