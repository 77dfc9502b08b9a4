"""Split DWARF: units whose DIEs were left out of the binary, in .dwo files or gathered in a .dwp package.

The binary keeps a skeleton per unit: the code it claims, its line program, the tables of addresses, the name and id of
its split unit. Everything else is here; what needs relocation is looked up in the binary's sections through the
skeleton's bases. In a package the units of many files share sections, and an index tells which part of each section is
a unit's. DWARF 5, sections 7.3.2, 7.3.5 and 3.1.2; GNU DebugFission for version 4.
"""

from __future__ import annotations

from _weakref import ref
from array import array
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from whence.dwarf import units
from whence.dwarf.kernels import units as units_kernel
from whence.dwarf.kernels.parts import Parts
from whence.dwarf.sections import read_sections
from whence.dwarf.unit_set import most_units
from whence.dwarf.units import WIDTH, Unit, Units
from whence.elf import ElfFile
from whence.errors import DwarfError, ElfError
from whence.forks import Lock
from whence.ranges.strings import StringSpace
from whence.window import Window

if TYPE_CHECKING:
    from whence.dwarf.info import DebugInfo

INFO, ABBREV, STR_OFFSETS, RNGLISTS = 1, 3, 6, 8  # DW_SECT_*; 8 is another section in version 2
Contributions = dict[int, int]  # DW_SECT_* -> offset


def read_index(window: Window) -> Iterator[Contributions]:
    """The rows of a package's .debug_cu_index (DWARF 5, section 7.3.5.3; version 2 is GNU's)."""
    version = window.u16(0)
    if version != 5 and window.u32(0) != 2:
        raise DwarfError(window.name, 0, "the version of an index is 2 or 5", version)
    columns, rows, slots = window.unpack("3I", 4)
    if rows > slots or (rows and not columns):
        raise DwarfError(window.name, 8, f"its rows fit its {slots} slots and {columns} columns", rows)
    tables = 16 + 12 * slots
    window.need(tables, 4 * columns * (1 + 2 * rows))
    kinds = window.unpack(f"{columns}I", tables)
    for row in range(rows):
        offsets = window.unpack(f"{columns}I", tables + 4 * columns * (1 + row))
        found = dict(zip(kinds, offsets))
        if version != 5:
            found.pop(RNGLISTS, None)
        yield found


class SplitFile:
    """The units of one .dwo or .dwp, by id.

    A file of its own per unit (`alone`) has its own string space: names are copied out of it, and it is closed, as a
    program can have tens of thousands of them.
    """

    def __init__(self, info: DebugInfo, elf: ElfFile, *, package: bool = False, alone: bool = False) -> None:
        self.elf, self.alone = elf, alone
        self.strings = StringSpace() if alone else info.strings
        self.problems: list[DwarfError | ElfError] = []
        sections = read_sections(elf, self.problems, suffix=".dwo", lines=False)
        sections.debug_addr, sections.debug_ranges = info.sections.debug_addr, info.sections.debug_ranges
        self.parts: Parts = sections.parts(self.strings, elf.order, info.code)
        rows = array("Q", bytes(8 * WIDTH * units_kernel.count(self.parts, most_units(elf))))
        units_kernel.headers(self.parts, rows, True, most_units(elf))
        if package:
            self._contribute(elf, rows)
        self.alt = read_sections(None, []).parts(self.strings, elf.order, info.code) if alone else info.alt
        units_kernel.roots(self.parts, self.alt, rows)
        self.parts.settle(rows)
        self.units = Units(rows, self.strings)
        ids = self.units.column(units.SIGNATURE)
        kinds = self.units.column(units.KIND)
        self.by_id = {id_: at for at, (id_, kind) in enumerate(zip(ids, kinds)) if kind not in units.TYPE_KINDS}

    def _contribute(self, elf: ElfFile, rows: array[int]) -> None:
        """Make the offsets of each unit count in its own part of the sections."""
        try:
            window = Window(elf.content(".debug_cu_index"), "debug_cu_index", elf.order, DwarfError)
            parts = {found[INFO]: found for found in read_index(window) if INFO in found}
        except (DwarfError, ElfError) as error:
            self.problems.append(error)
            return
        for row in range(0, len(rows), WIDTH):
            own = parts.get(rows[row + units.OFFSET], {})
            rows[row + units.ABBREV] += own.get(ABBREV, 0)
            rows[row + units.STR_BASE] += own.get(STR_OFFSETS, 0)
            rows[row + units.RNG_BASE] += own.get(RNGLISTS, 0)

    def join(self, index: int, skeleton: array[int]) -> None:
        """Give the unit what only its skeleton knows: the base of its addresses and lists."""
        rows, at = self.units.rows, index * WIDTH
        for field in (units.LOW, units.ADDR_BASE):
            rows[at + field] = skeleton[field]
        rows[at + units.HAS] |= skeleton[units.HAS] & units.HAS_LOW
        rows[at + units.RANGES_BASE] = skeleton[units.SKELETON_RANGES_BASE]


class SplitFiles:
    """Every split file of a binary: its package, its own .dwo sections, or a file per unit, opened when wanted."""

    def __init__(self, info: DebugInfo, package: ElfFile | None, find: Callable[[Unit], ElfFile | None] | None) -> None:
        self._held, self._find = ref(info), find
        self._shared: list[SplitFile] | None = None
        self._package = package
        self._lock = Lock()

    @property
    def _info(self) -> DebugInfo:
        """What has these files: it is at work, or nobody would ask."""
        info = self._held()
        assert info is not None
        return info

    def find(self, all_units: Units, index: int) -> tuple[SplitFile, int] | None:
        """The split unit of one of the units (its file and its number there): None when it is whole.

        Raises DwarfError when the split unit is not to be had. Safe from several threads.
        """
        info = self._info
        row = all_units.rows[index * WIDTH : (index + 1) * WIDTH]
        if not row[units.DWO_NAME] or row[units.FAULT]:
            return None
        name = info.strings.text(row[units.DWO_NAME])
        with self._lock:
            for file in self._gathered():
                if (at := file.by_id.get(row[units.SIGNATURE])) is not None:
                    file.join(at, row)
                    return file, at
            elf = self._find(all_units[index]) if self._find is not None else None
            if elf is None:
                raise DwarfError("debug_info", row[units.OFFSET], f"the split unit {name} is there", "no such file")
            file = SplitFile(info, elf, alone=True)
            info.problems += file.problems
        if (at := file.by_id.get(row[units.SIGNATURE])) is None:
            rule = f"{name} has the unit with id {row[units.SIGNATURE]:#x}"
            raise DwarfError("debug_info", row[units.OFFSET], rule, ", ".join(map(hex, file.by_id)) or "none")
        file.join(at, row)
        return file, at

    def _gathered(self) -> list[SplitFile]:
        """The files that hold many units: the package, and the binary itself."""
        if self._shared is None:
            info = self._info
            shared = [(self._package, True)] if self._package is not None else []
            if info.elf.section(".debug_info.dwo") is not None:
                shared.append((info.elf, False))
            self._shared = [SplitFile(info, elf, package=package) for elf, package in shared]
            for file in self._shared:
                info.problems += file.problems
        return self._shared
