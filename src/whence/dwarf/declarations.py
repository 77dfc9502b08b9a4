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
from whence.dwarf.lines import LinePrograms
from whence.ranges import Starts

if TYPE_CHECKING:
    from whence.dwarf.info import DebugInfo
    from whence.dwarf.units import Units

# The file of a start, as in names_kernel.pxd: its number in the unit read; or in another one, which is told above it.
NUMBER = 0xFFFFFFFF
OTHER, ALT = 1 << 62, 1 << 63


class Declarations:
    """One thread's: file tables of units by themselves, each read once."""

    def __init__(self, info: DebugInfo, programs: LinePrograms, paths: Paths) -> None:
        """`programs` reads the line programs of the file, `paths` are its own."""
        self._info, self._programs = info, programs
        self._alt_programs = LinePrograms(
            info.alt_sections, info.elf.order, info.lowest, paths.beside(info.alt_sections), info.strings
        )
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
        unit = (key & ~(OTHER | ALT)) >> 32
        row = unit * units.WIDTH
        offset = rows[row + units.STMT_LIST] if rows[row + units.HAS] & units.HAS_STMT_LIST else -1
        program = alt, offset, rows[row + units.COMP_DIR]  # dwz: units of many directories share a table
        if program not in self._known:
            self._known[program] = (self._alt_programs if alt else self._programs).file_names(rows, unit)
        return self._known[program]


def others(starts: Starts) -> bool:
    """Does any start's file count in another unit?"""
    return max(starts.file, default=0) > NUMBER
