"""Where functions are declared, when that is in another unit than the one that is read.

A DW_AT_decl_file counts in the line program of the unit that holds the DIE. Mostly that is the unit being read, whose
program is read with it; link-time optimization and dwz put the DIE into another one, whose file table is then read by
itself.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from whence.dwarf import units
from whence.dwarf.line_files import FileNames, Paths
from whence.dwarf.line_header import read_header, read_names
from whence.errors import DwarfError
from whence.ranges import Starts
from whence.window import Window

if TYPE_CHECKING:
    from whence.dwarf.info import DebugInfo
    from whence.dwarf.sections import Sections
    from whence.dwarf.units import Units

# The file of a start, as in names_kernel.pxd: its number in the unit read; or in another one, which is told above it.
NUMBER = 0xFFFFFFFF
OTHER, ALT = 1 << 62, 1 << 63


class Declarations:
    """One thread's: file tables of units by themselves, each read once."""

    def __init__(self, info: DebugInfo, sections: Sections, paths: Paths) -> None:
        self._info, self._sections, self._paths = info, sections, paths
        self._alt_paths = paths.beside(info.alt_sections)
        self._known: dict[tuple[bool, int, int], FileNames] = {}  # by supplementary file or not, program, directory

    def names_of_others(self, starts: Starts, own: Units) -> dict[int, int]:
        """The file of each start (by place) that counts in another unit than the one read: of `own`, or of the
        supplementary file."""
        if not others(starts):
            return {}
        names = {key: self._files(key, own).ref(key & NUMBER) for key in set(starts.file) if key > NUMBER}
        return {place: names[key] for place, key in enumerate(starts.file) if key > NUMBER}

    @staticmethod
    def forget_others(starts: Starts) -> None:
        """What a split unit takes from others of its file is not known: those have no line program."""
        if others(starts):  # the last number stands for no file: no table is that long
            starts.file = array("Q", [min(key, NUMBER) for key in starts.file])

    def _files(self, key: int, own: Units) -> FileNames:
        """The files of the unit that a start's file counts in."""
        alt = bool(key & ALT)
        rows = (self._info.alt_units if alt else own).rows
        row = (key & ~(OTHER | ALT)) >> 32
        rows = rows[row * units.WIDTH : (row + 1) * units.WIDTH]
        paths = self._alt_paths if alt else self._paths
        if not rows[units.HAS] & units.HAS_STMT_LIST:
            return FileNames.none(paths)
        program = alt, rows[units.STMT_LIST], rows[units.COMP_DIR]  # dwz: units of many directories share a table
        if program not in self._known:
            self._known[program] = self._read(alt, rows, paths)
        return self._known[program]

    def _read(self, alt: bool, unit: array[int], paths: Paths) -> FileNames:
        """The tables of a line program, which itself is left alone; whoever runs it tells what is wrong with them."""
        sections = self._info.alt_sections if alt else self._sections
        line = Window(sections.debug_line, "debug_line", self._info.elf.order, DwarfError)
        comp_dir = self._info.strings.raw(unit[units.COMP_DIR])
        problems: list[DwarfError] = []
        try:
            header = read_header(line, unit[units.STMT_LIST], unit[units.ADDRESS_SIZE], problems)
            if paths.spend(header.program - header.offset):
                return read_names(line, header, comp_dir, paths, problems, unit[units.STR_BASE])
        except DwarfError:
            pass
        return FileNames.none(paths)


def others(starts: Starts) -> bool:
    """Does any start's file count in another unit?"""
    return max(starts.file, default=0) > NUMBER
