"""Split DWARF: units whose DIEs are not in the binary but in .dwo files or in a .dwp package.

The binary has a skeleton for each unit: its ranges, its line program, its part of .debug_addr, and the name and id of
the split unit. Everything else is in the split unit; addresses are looked up in the binary's sections through the
skeleton's bases. In a package the units of many files share sections, and an index says which part of each section
belongs to which unit. DWARF 5, sections 7.3.2, 7.3.5 and 3.1.2; GNU DebugFission for version 4.
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
    HAS_RANGES,
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
    """Yield the rows of a package's .debug_cu_index (DWARF 5, section 7.3.5.3; version 2 is GNU's)."""
    version = window.u16(0)
    if version != constants.DWARF5 and window.u32(0) != constants.GNU_INDEX:
        raise DwarfError(window.name, 0, f"index version {version} is not supported (2 and 5 are)")
    columns, rows, slots = window.unpack("3I", 4)
    if rows > slots or (rows and not columns):
        raise DwarfError(window.name, 8, f"{rows} rows do not fit into {slots} slots and {columns} columns")
    tables = 16 + 12 * slots
    window.need(tables, 4 * columns * (1 + 2 * rows))
    kinds = window.unpack(f"{columns}I", tables)
    for row in range(rows):
        offsets = window.unpack(f"{columns}I", tables + 4 * columns * (1 + row))
        row_offsets = dict(zip(kinds, offsets))
        if version != constants.DWARF5:
            row_offsets.pop(constants.DW_SECT_RNGLISTS, None)  # it has another meaning in version 2
        yield row_offsets


COLUMN_OF_SECTION = {  # with offsets that are relative to the unit's part of the section
    constants.DW_SECT_ABBREV: ABBREV,
    constants.DW_SECT_STR_OFFSETS: STR_BASE,
    constants.DW_SECT_RNGLISTS: RNG_BASE,
}


class SplitFile:
    """The units of one .dwo or .dwp file, by id.

    A file with a single unit (`single`) has its own string space: names are copied out of it and the file is closed, as
    a program can have tens of thousands of such files.
    """

    def __init__(
        self, file: DwarfFile, skeletons: Sections, elf: ObjectFile, *, package: bool = False, single: bool = False
    ) -> None:
        """Read the units. `file` and `skeletons`: the file with the skeletons, and its sections."""
        self.elf, self.single = elf, single
        self.problems: list[DwarfError | ObjectError] = []
        strings = StringSpace() if single else file.strings
        sections = read_sections(elf, self.problems, suffix=".dwo", lines=False)
        sections.debug_addr, sections.debug_ranges = skeletons.debug_addr, skeletons.debug_ranges
        alt = file.alt
        if single:
            alt = UnitSet(DwarfFile(strings, elf.order, file.code), read_sections(None, []))
        own = DwarfFile(strings, elf.order, file.code, read=file.read, most_units=most_units(elf), alt=alt)
        bases: Bases = {}
        types: Bases = {}
        if package:
            bases = self._bases(elf, ".debug_cu_index", constants.DW_SECT_INFO)
            if elf.section(".debug_tu_index") is not None:
                bases |= self._bases(elf, ".debug_tu_index", constants.DW_SECT_INFO)
                types = self._bases(elf, ".debug_tu_index", constants.DW_SECT_TYPES)
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
        """Return the start of each unit's parts of sections from an index, by offset in `section` and column."""
        try:
            window = Window(elf.content(name), name, elf.order, DwarfError)
            return {
                parts[section]: {column: parts.get(kind, 0) for kind, column in COLUMN_OF_SECTION.items()}
                for parts in read_index(window)
                if section in parts
            }
        except (DwarfError, ObjectError) as error:
            self.problems.append(error)
            return {}

    def join(self, row: int, skeleton: array[int]) -> None:
        """Set what only the skeleton of a unit knows: the bases of its addresses and lists."""
        rows, start = self.set.units.rows, row * WIDTH
        for column in (LOW, ADDR_BASE):
            rows[start + column] = skeleton[column]
        rows[start + HAS] |= skeleton[HAS] & HAS_LOW
        rows[start + RANGES_BASE] = skeleton[SKELETON_RANGES_BASE]


class SplitFiles:
    """The split files of a binary: its package, its own .dwo sections, or a file for each unit, opened on demand."""

    def __init__(
        self, elf: ObjectFile, package: Callable[[], ObjectFile | None] | None,
        find: Callable[[Unit], ObjectFile | None] | None, problems: Problems,
    ) -> None:  # fmt: skip
        """Make the split files of a binary, opening none yet.

        Args:
            elf: the binary.
            package: opens the package, or returns None.
            find: opens the file of a skeleton, or returns None.
            problems: receives errors in the files.
        """
        self._elf, self._package, self._find, self._problems = elf, package, find, problems
        self._shared: list[SplitFile] | None = None
        self._lock = Lock()

    def find(self, skeletons: UnitSet, index: int) -> tuple[SplitFile, int] | None:
        """Return the split unit (its file and row there) of a unit that is a skeleton; None for other units.

        Also None for a missing unit without code, such as a module that Clang or Swift imported (.pcm).
        Raises DwarfError if a split unit with code is missing. Threads may call it.
        """
        skeleton = skeletons.units.row(index)
        if not skeleton[DWO_NAME] or skeleton[FAULT]:
            return None
        has_code = skeleton[HAS] & (HAS_LOW | HAS_RANGES)
        name = skeletons.file.strings.text(skeleton[DWO_NAME])
        with self._lock:
            for file in self._gathered(skeletons):
                if (row := file.by_id.get(skeleton[SIGNATURE])) is not None:
                    file.join(row, skeleton)
                    return file, row
            elf = self._find(skeletons.units[index]) if self._find is not None else None
            if elf is None and not has_code:
                return None
            if elf is None:
                raise DwarfError(".debug_info", skeleton[OFFSET], f"split unit {name} not found")
            file = SplitFile(skeletons.file, skeletons.sections, elf, single=True)
            self._problems.extend(file.problems)
        row = file.by_id.get(skeleton[SIGNATURE])
        if row is None and not has_code:
            return None
        if row is None:
            problem = f"{name} has no unit with id {skeleton[SIGNATURE]:#x}"
            raise DwarfError(".debug_info", skeleton[OFFSET], problem, found=[*file.by_id])
        file.join(row, skeleton)
        return file, row

    def _gathered(self, skeletons: UnitSet) -> list[SplitFile]:
        """Return the files with many units: the package and the binary itself."""
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
