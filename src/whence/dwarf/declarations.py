"""Where functions are declared, with the file numbers of their units made names.

A DW_AT_decl_file counts in the line program of the unit that holds the DIE. Mostly that is the unit being read;
link-time optimization and dwz put the DIE into another one, whose file table is then read by itself.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable
from typing import TYPE_CHECKING

from whence.dwarf import units
from whence.dwarf.line_files import FileNames, LineSections, Paths
from whence.dwarf.line_header import read_header, read_names
from whence.errors import DwarfError
from whence.ranges import Starts
from whence.window import Window

if TYPE_CHECKING:
    from whence.dwarf.info import DebugInfo
    from whence.dwarf.unit_set import UnitSet
    from whence.dwarf.units import Units

ALT_FILE = 63  # as in names_kernel.pxd
NUMBER = 0xFFFFFFFF


class Declarations:
    """One thread's: gathers what a Scoper met until the files of the batch are known."""

    def __init__(self, info: DebugInfo, of: UnitSet, paths: Paths) -> None:
        self._own = _Tables(info, of.units, info.sections, paths)
        self._alt = _Tables(info, info.alt_units, info.alt_sections, paths.beside(info.alt_sections))
        self._waiting = Starts()
        self._done = Starts()

    def files_of(self, index: int) -> FileNames:
        """The files of a unit."""
        return self._own.of_unit(index)

    def add(self, found: Starts, files: FileNames | None) -> None:
        """What was met; `files`: the one table that all of it counts in (a split unit's), else each its own unit's."""
        if files is None:
            self._waiting.extend(found)
        else:
            _give_names(found, lambda key: 0 if key >> ALT_FILE else files.ref(key & NUMBER))
            self._done.extend(found)

    def take(self) -> Starts:
        """Everything since the last time, its files as names (0 where they are not known)."""
        out, found = self._done, self._waiting
        _give_names(found, self._name)
        out.extend(found)
        self._done, self._waiting = Starts(), Starts()
        return out

    def _name(self, key: int) -> int:
        side = self._alt if key >> ALT_FILE else self._own
        return side.of_unit((key & ~(1 << ALT_FILE)) >> 32).ref(key & NUMBER)


def _give_names(found: Starts, name: Callable[[int], int]) -> None:
    """Names in place of the files' keys: a unit's number << 32 | the number in its table."""
    named = {key: name(key) for key in set(found.file)}
    found.file = array("Q", map(named.__getitem__, found.file))


class _Tables:
    """The file tables of the units of one file: those of a batch as they were read, others by themselves."""

    def __init__(self, info: DebugInfo, rows: Units, sections: LineSections, paths: Paths) -> None:
        self._info, self._units, self._paths = info, rows, paths
        self._line = Window(sections.debug_line, "debug_line", info.elf.order, DwarfError)
        self._others: dict[int, FileNames] = {}  # by line program
        self._none = FileNames.none(paths)

    def of_unit(self, index: int) -> FileNames:
        """The files of a unit."""
        row = index * units.WIDTH
        rows = self._units.rows[row : row + units.WIDTH]
        if not rows[units.HAS] & units.HAS_STMT_LIST:
            return self._none
        offset = rows[units.STMT_LIST]
        if offset not in self._others:
            comp_dir = self._info.strings.raw(rows[units.COMP_DIR])
            self._others[offset] = self._read(offset, rows[units.ADDRESS_SIZE], comp_dir)
        return self._others[offset]

    def _read(self, offset: int, address_size: int, comp_dir: bytes) -> FileNames:
        """The tables of a line program, which itself is left alone; whoever runs it tells what is wrong with them."""
        problems: list[DwarfError] = []
        try:
            header = read_header(self._line, offset, address_size, problems)
            if self._paths.spend(header.program - offset):
                return read_names(self._line, header, comp_dir, self._paths, problems)
        except DwarfError:
            pass
        return self._none
