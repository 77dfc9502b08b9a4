"""The options of reading an object file, passed as one value through every layer."""

from __future__ import annotations

from whence._base.records import Record

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import TypedDict

    from whence._base.model import NameStyle, PathStyle

    class ReadFields(TypedDict, total=False):
        """The fields of ReadOptions as keyword arguments."""

        dwarf: bool
        symtab: bool
        gopclntab: bool
        names: NameStyle
        paths: PathStyle
        columns: bool
        skip_line_zero: bool
        demangle: bool | Callable[[str], str]
        jobs: int | None


class ReadOptions(Record, frozen=True):
    """The parts of an object file that are read, and how they are rendered.

    dwarf, symtab, gopclntab: whether to use this source of names.
    names: how debug info names functions: "qualified", "linkage" or "short" (NameStyle).
    paths: how the paths of source files are joined: "joined", "once", "relative" or "listed" (PathStyle).
    columns: read columns and discriminators, which costs time and memory.
    skip_line_zero: give code of line 0 the last nonzero line before it in its sequence.
    demangle: return readable names; a function replaces whence.demangle.demangle.
    jobs: number of threads; None for one per core.
    """

    dwarf: bool = True
    symtab: bool = True
    gopclntab: bool = True
    names: NameStyle = "qualified"
    paths: PathStyle = "joined"
    columns: bool = False
    skip_line_zero: bool = False
    demangle: bool | Callable[[str], str] = False
    jobs: int | None = None

    @property
    def every_source(self) -> bool:
        """True if no source of names is left out."""
        return self.dwarf and self.symtab and self.gopclntab


DEFAULTS = ReadOptions()
