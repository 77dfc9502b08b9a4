"""Split DWARF: units whose DIEs were left out of the binary, in .dwo files or gathered in a .dwp package.

The binary keeps a skeleton per unit: its ranges, its line program, the tables of addresses, the name and id of
its split unit. Everything else is here; what needs relocation is looked up in the binary's sections through the
skeleton's bases. In a package the units of many files share sections, and an index says which part of each section is
a unit's. DWARF 5, sections 7.3.2, 7.3.5 and 3.1.2; GNU DebugFission for version 4.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Iterator

from whence._base.errors import DwarfError, ObjectError
from whence._base.forks import Lock
from whence._base.window import Window
from whence.dwarf.kernels import constants
from whence.dwarf.kernels.units import (
    ABBREV,
    ADDR_BASE,
    DWO_NAME,
    FAULT,
    HAS,
    HAS_LOW,
    KIND,
    LOW,
    OFFSET,
    RANGES_BASE,
    RNG_BASE,
    SIGNATURE,
    SKELETON_RANGES_BASE,
    SPLIT_SECTION,
    STR_BASE,
    WIDTH,
)
from whence.dwarf.problems import Problems
from whence.dwarf.sections import Sections, read_sections
from whence.dwarf.unit_set import TYPE_KINDS, DwarfFile, Unit, UnitSet, most_units
from whence.objects.interface import ObjectFile
from whence.ranges.strings import StringSpace

Bases = dict[int, dict[int, int]]  # offset of a unit -> column -> what to add to it
Contributions = dict[int, int]  # DW_SECT_* -> offset


def read_index(window: Window) -> Iterator[Contributions]:
    """The rows of a package's .debug_cu_index (DWARF 5, section 7.3.5.3; version 2 is GNU's)."""
    version = window.u16(0)
    if version != constants.DWARF5 and window.u32(0) != constants.GNU_INDEX:
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
        if version != constants.DWARF5:
            found.pop(constants.DW_SECT_RNGLISTS, None)  # another section in version 2
        yield found


COLUMN_OF_SECTION = {  # whose offsets count in a unit's own part of the section
    constants.DW_SECT_ABBREV: ABBREV,
    constants.DW_SECT_STR_OFFSETS: STR_BASE,
    constants.DW_SECT_RNGLISTS: RNG_BASE,
}


class SplitFile:
    """The units of one .dwo or .dwp, by id.

    A file of its own per unit (`alone`) has its own string space: names are copied out of it, and it is closed, as a
    program can have tens of thousands of them.
    """

    def __init__(
        self, file: DwarfFile, skeletons: Sections, elf: ObjectFile, *, package: bool = False, alone: bool = False
    ) -> None:
        """`file` and `skeletons`: the file of the skeletons, and its sections."""
        self.elf, self.alone = elf, alone
        self.problems: list[DwarfError | ObjectError] = []
        strings = StringSpace() if alone else file.strings
        sections = read_sections(elf, self.problems, suffix=".dwo", lines=False)
        sections.debug_addr, sections.debug_ranges = skeletons.debug_addr, skeletons.debug_ranges
        alt = file.alt
        if alone:
            alt = UnitSet(DwarfFile(strings, elf.order, file.code), read_sections(None, []))
        own = DwarfFile(strings, elf.order, file.code, read=file.read, most_units=most_units(elf), alt=alt)
        bases: Bases = {}
        types: Bases = {}
        if package:
            bases = self._bases(elf, "debug_cu_index", constants.DW_SECT_INFO)
            if elf.section(".debug_tu_index") is not None:
                bases |= self._bases(elf, "debug_tu_index", constants.DW_SECT_INFO)
                types = self._bases(elf, "debug_tu_index", constants.DW_SECT_TYPES)
        self.set = UnitSet(own, sections, section=SPLIT_SECTION, bases=bases, type_bases=types)
        units = self.set.units
        self.by_id = {
            id_: row
            for row, (id_, kind) in enumerate(zip(units.column(SIGNATURE), units.column(KIND)))
            if kind not in TYPE_KINDS
        }

    def __repr__(self) -> str:
        return f"<SplitFile {self.elf.path}: {len(self.by_id)} units>"

    def _bases(self, elf: ObjectFile, name: str, section: int) -> Bases:
        """Where each unit's own parts of the sections begin, by the unit's offset in `section` and column; from the
        index of that name."""
        try:
            window = Window(elf.content(f".{name}"), name, elf.order, DwarfError)
            return {
                found[section]: {column: found.get(part, 0) for part, column in COLUMN_OF_SECTION.items()}
                for found in read_index(window)
                if section in found
            }
        except (DwarfError, ObjectError) as error:
            self.problems.append(error)
            return {}

    def join(self, row: int, skeleton: array[int]) -> None:
        """Give a unit what only its skeleton knows: the base of its addresses and lists."""
        rows, start = self.set.units.rows, row * WIDTH
        for column in (LOW, ADDR_BASE):
            rows[start + column] = skeleton[column]
        rows[start + HAS] |= skeleton[HAS] & HAS_LOW
        rows[start + RANGES_BASE] = skeleton[SKELETON_RANGES_BASE]


class SplitFiles:
    """Every split file of a binary: its package, its own .dwo sections, or a file per unit, opened when wanted."""

    def __init__(
        self, elf: ObjectFile, package: Callable[[], ObjectFile | None] | None,
        find: Callable[[Unit], ObjectFile | None] | None, problems: Problems,
    ) -> None:  # fmt: skip
        """`package` opens the package, and `find` the file of a skeleton (None: not found). What is wrong with the
        files goes to `problems`."""
        self._elf, self._package, self._find, self._problems = elf, package, find, problems
        self._shared: list[SplitFile] | None = None
        self._lock = Lock()

    def find(self, skeletons: UnitSet, index: int) -> tuple[SplitFile, int] | None:
        """The split unit of one of the units (its file and its row there): None when it is whole.

        Raises DwarfError when the split unit is not to be had. Safe from several threads.
        """
        skeleton = skeletons.units.row(index)
        if not skeleton[DWO_NAME] or skeleton[FAULT]:
            return None
        name = skeletons.file.strings.text(skeleton[DWO_NAME])
        with self._lock:
            for file in self._gathered(skeletons):
                if (row := file.by_id.get(skeleton[SIGNATURE])) is not None:
                    file.join(row, skeleton)
                    return file, row
            elf = self._find(skeletons.units[index]) if self._find is not None else None
            if elf is None:
                raise DwarfError("debug_info", skeleton[OFFSET], f"the split unit {name} is there", "no such file")
            file = SplitFile(skeletons.file, skeletons.sections, elf, alone=True)
            self._problems.extend(file.problems)
        if (row := file.by_id.get(skeleton[SIGNATURE])) is None:
            rule = f"{name} has the unit with id {skeleton[SIGNATURE]:#x}"
            raise DwarfError("debug_info", skeleton[OFFSET], rule, ", ".join(map(hex, file.by_id)) or "none")
        file.join(row, skeleton)
        return file, row

    def _gathered(self, skeletons: UnitSet) -> list[SplitFile]:
        """The files that hold many units: the package, and the binary itself."""
        if self._shared is None:
            package = self._package() if self._package is not None else None
            shared = [package] if package is not None else []
            if self._elf.section(".debug_info.dwo") is not None:
                shared.append(self._elf)
            self._shared = [
                SplitFile(skeletons.file, skeletons.sections, elf, package=elf is package) for elf in shared
            ]
            for file in self._shared:
                self._problems.extend(file.problems)
        return self._shared
