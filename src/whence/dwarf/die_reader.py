"""DIEs of a file one by one: attributes, origins, children, names, and the functions at an address."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple, Self

from whence._base.errors import DwarfError, ObjectError
from whence._base.forks import cached_property
from whence._base.lru import Lru
from whence.dwarf.kernels import constants
from whence.dwarf.kernels import variables as kernel
from whence.dwarf.kernels.units import ALT_BIT as ALT_SHIFT
from whence.dwarf.kernels.units import DWO_NAME, OFFSET
from whence.dwarf.kernels.units import TYPES_BIT as TYPES_SHIFT
from whence.dwarf.line_files import Paths
from whence.dwarf.lines import LinePrograms
from whence.kernels.columns import Column
from whence.ranges.kernels import columns as columns_kernel
from whence.ranges.kernels import order as order_kernel
from whence.ranges.strings import Arena

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from whence.dwarf.info import DebugInfo
    from whence.dwarf.unit_set import UnitSet
    from whence.objects.interface import ObjectFile

ALT_BIT = 1 << ALT_SHIFT
TYPES_BIT = 1 << TYPES_SHIFT
FLAGS = ALT_BIT | TYPES_BIT  # of a key
STEPS = 16  # of a chain of origins, specifications or types
SPLIT_UNITS_KEPT = 64  # with their files
DIES_KEPT, ATTRIBUTES_KEPT = 4096, 64  # DIEs with at most so many attributes
NAME_TIMES, NAME_ALLOWANCE = 8, 16 << 20  # characters of all names, times the file's strings
WALKED_A_DIE = 64
MOST_DIES = 1 << 16  # that are read of one function


class Die(NamedTuple):
    """A DIE with its attributes, by name, as (kind, value, size) (kernels/variables.py).

    `key` is its offset, with ALT_BIT in the supplementary file and TYPES_BIT in .debug_types.
    """

    key: int
    tag: int
    children: bool
    end: int
    unit: int
    attributes: dict[int, tuple[int, int, int]]

    def number(self, name: int) -> int | None:
        kind, value, _ = self.attributes.get(name, (kernel.BLOCK, 0, 0))
        return value if kind == kernel.NUMBER else None

    def reference(self, name: int) -> int:
        """Return the key of the DIE that an attribute refers to, or 0."""
        kind, value, _ = self.attributes.get(name, (kernel.NUMBER, 0, 0))
        return value | self.key & FLAGS if kind == kernel.REFERENCE else 0


class DieReader:
    """Reads DIEs of a file's debug info, and of its supplementary file.

    With `units`, those of a split file, `elf`: vaddrs and files of declarations are those of the skeletons.
    """

    def __init__(self, info: DebugInfo, units: UnitSet | None = None, elf: ObjectFile | None = None) -> None:
        self.info, self.elf = info, elf or info.elf
        self.units = units = units or info.all_units
        self._alt_units = alt = units.file.alt or units
        self.kernel = kernel.VariableReader(units.kernel, alt.kernel)
        self._alt = kernel.VariableReader(alt.kernel, alt.kernel)
        self.read_count = 0  # DIEs that were read or listed
        self._text_left = NAME_TIMES * (len(units.sections.debug_str) + len(units.sections.debug_info)) + NAME_ALLOWANCE
        self._dies: Lru[int, Die | None] = Lru(DIES_KEPT)  # by key
        self._files: dict[tuple[int, int, int], str] = {}  # by ALT_BIT, unit and number
        self._functions: dict[int, tuple[array[int], array[int], array[int]]] = {}  # by unit
        self._scopes: dict[tuple[int, int], tuple[array[int], ...]] = {}  # by ALT_BIT and unit
        self._skeletons: dict[int, int] = {}  # the row of the skeleton by the row of the split unit
        self._split: Lru[int, tuple[Self, int] | None] = Lru(SPLIT_UNITS_KEPT)  # by row of the skeleton
        self._shared: dict[int, Self] = {}  # of split files that hold many units

    # DIEs

    def set_of(self, die: Die) -> UnitSet:
        """Return the units that contain a DIE: this file's, or those of the supplementary file."""
        types = self.units.types if die.key & TYPES_BIT else None
        return self._alt_units if die.key & ALT_BIT else types or self.units

    def unit_value(self, die: Die, column: int) -> int:
        """Return a number of the unit that contains a DIE."""
        return self.set_of(die).units.value(die.unit, column)

    def die(self, key: int) -> Die | None:
        """Return the DIE with a key; None if it cannot be read."""
        if key in self._dies:
            return self._dies[key]
        die = self._read(key)
        if die is None or len(die.attributes) <= ATTRIBUTES_KEPT:
            self._dies[key] = die
        return die

    def _read(self, key: int) -> Die | None:
        self.read_count += 1
        reader = self._alt if key & ALT_BIT else self.types if key & TYPES_BIT else self.kernel
        values = None if reader is None else reader.die(key & ~FLAGS)
        if values is None:
            return None
        tag, children, end, unit, attributes = values
        return Die(key, tag, children, end, unit, {name: value for name, *value in attributes})

    @cached_property
    def types(self) -> kernel.VariableReader | None:
        """Return the reader of the type units of .debug_types; None without that section."""
        units = self.units.types
        return None if units is None else kernel.VariableReader(units.kernel, self._alt_units.kernel)

    def _kernel_of(self, die: Die) -> kernel.VariableReader:
        return (self._alt if die.key & ALT_BIT else self.types if die.key & TYPES_BIT else None) or self.kernel

    def target(self, die: Die, name: int) -> int:
        """Return the key of the DIE that an attribute refers to, by a signature, too; 0 if there is none."""
        kind, value, _ = die.attributes.get(name, (kernel.NUMBER, 0, 0))
        if kind != kernel.SIGNATURE:
            return die.reference(name)
        offset = self.types.type_die(value) if self.types is not None else 0
        return offset | TYPES_BIT if offset else 0

    def origins(self, die: Die) -> Iterator[Die]:
        """Yield a DIE, then the DIEs that it refers to as origin or specification."""
        following: Die | None = die
        for _ in range(STEPS):
            if following is None:
                return
            yield following
            key = following.reference(constants.DW_AT_abstract_origin) or following.reference(
                constants.DW_AT_specification
            )
            following = self.die(key) if key else None

    def name(self, die: Die, attributes: Sequence[int] = (constants.DW_AT_name,)) -> str:
        """Return the first of some names of a DIE, along its origins; "" if it has none.

        "" as well when all names together were longer than the file's strings warrant.
        """
        for origin in self.origins(die):
            for attribute in attributes:
                kind, value, _ = origin.attributes.get(attribute, (kernel.NUMBER, 0, 0))
                if kind == kernel.NAME and self._text_left >= 0:
                    name = self.units.file.strings.text(value)
                    self._text_left -= len(name)
                    return name
        return ""

    @property
    def cost(self) -> int:
        """The work done so far: DIEs read, and bytes of DIEs walked over, 64 for a DIE."""
        kernels = (self.kernel, self._alt)
        walked: int = sum(each.walked for each in kernels)
        return self.read_count + walked // WALKED_A_DIE

    def children(self, die: Die, *, nested: bool = True) -> Iterator[Die]:
        """Yield the DIEs below a DIE in their order; with `nested`, also the DIEs below those."""
        level, offset = 1, die.end
        if not die.children:
            return
        for _ in range(MOST_DIES):
            child = self.die(offset | die.key & FLAGS)
            if child is None:
                return
            offset = child.end
            if child.tag == 0:
                level -= 1
                if level == 0:
                    return
                continue
            if nested or level == 1:
                yield child
            level += child.children

    def below(self, die: Die) -> Iterator[tuple[int, int]]:
        """Yield key and tag of each DIE directly below a DIE, without reading the others below it."""
        if die.children:
            offsets, tags = Column("Q"), Column("Q")
            self._kernel_of(die).children(die.key & ~FLAGS, offsets, tags)
            self.read_count += len(offsets) // 8
            for offset, tag in zip(offsets.numbers(), tags.numbers(), strict=True):
                yield offset | die.key & FLAGS, tag

    def scope_names(self, die: Die) -> list[str]:
        """Return the names of the namespaces and types around a DIE, outermost first; "" for those without a name."""
        key = die.key & FLAGS, die.unit
        if key not in self._scopes:
            columns = Column("Q"), Column("Q"), Column("Q")
            self._kernel_of(die).scopes(self.unit_value(die, OFFSET), *columns)
            self._scopes[key] = tuple(array("Q", column.numbers()) for column in columns)
        starts, ends, around = self._scopes[key]
        offset, names = die.key & ~FLAGS, list[str]()
        index = bisect_left(starts, offset) - 1
        while index >= 0 and len(names) < STEPS:
            if ends[index] > offset:
                scope = self.die(starts[index] | die.key & FLAGS)
                names.append("" if scope is None else self.name(scope))
            index = around[index] - 1
        return names[::-1]

    def block(self, die: Die, name: int) -> bytes:
        """Return the bytes of an attribute that is a block or an expression; b"" for others."""
        kind, offset, size = die.attributes.get(name, (kernel.NUMBER, 0, 0))
        sections = self.set_of(die).sections
        return bytes(sections.debug_info[offset : offset + size]) if kind == kernel.BLOCK else b""

    def file(self, die: Die, number: int) -> str:
        """Return the path of a file by its number in the unit of a DIE."""
        file_key = die.key & FLAGS, die.unit, number
        if file_key not in self._files:
            units, row = self.set_of(die), die.unit
            if not die.key & FLAGS and row in self._skeletons:
                units, row = self.info.all_units, self._skeletons[row]
            file = self.info.all_units.file
            arena = Arena(file.strings)
            paths = Paths(units.sections, file.order, arena, go=file.go, style=file.read.paths)
            programs = LinePrograms(units.sections, file.order, file.lowest, paths, file.strings)
            ref = programs.file_names(units.units.rows, row).ref(number)
            arena.seal()
            self._files[file_key] = file.strings.text(ref)
        return self._files[file_key]

    # functions

    def units_at(self, vaddr: int) -> Iterator[tuple[Self, int]]:
        """Yield the units that can contain a vaddr, each as the reader of its DIEs and its offset.

        A skeleton is replaced by its split unit.
        """
        for offset in self.info.units_at([vaddr]):
            row = self._rows.get(offset, -1)
            split = self._split_unit(row) if row >= 0 and self.units.units.value(row, DWO_NAME) else None
            yield split or (self, offset)

    @cached_property
    def _rows(self) -> dict[int, int]:
        """Return the row of each unit by its offset."""
        return {offset: row for row, offset in enumerate(self.units.units.column(OFFSET))}

    def _split_unit(self, skeleton: int) -> tuple[Self, int] | None:
        """Return the split unit of a skeleton, as its reader and offset; None if it is missing."""
        if skeleton not in self._split:
            self._split[skeleton] = self._find_split_unit(skeleton)
        return self._split[skeleton]

    def _find_split_unit(self, skeleton: int) -> tuple[Self, int] | None:
        try:
            split = self.info.split.find(self.units, skeleton)
        except (DwarfError, ObjectError, OSError):
            return None
        if split is None:
            return None
        file, row = split
        reader = self._shared.get(id(file)) or type(self)(self.info, file.set, file.elf)
        if not file.single:
            self._shared[id(file)] = reader
        reader._skeletons[row] = skeleton
        return reader, file.set.units.value(row, OFFSET)

    def functions_of(self, unit: int) -> tuple[array[int], array[int], array[int]]:
        """Return start, end and DIE of the ranges of a unit's functions, in order of address."""
        if unit not in self._functions:
            columns = Column("Q"), Column("Q"), Column("Q")
            self.kernel.functions(unit, *columns)
            starts, ends, offsets = (ordered(columns[0], column) for column in columns)
            self._functions[unit] = starts, ends, offsets
        return self._functions[unit]

    def chain_at(self, unit: int, vaddr: int) -> list[tuple[int, int]]:
        """Return the function of a unit at a vaddr and the calls inlined into it there, outermost first.

        Each is the start of its first range and the offset of its DIE; [] if no function covers the vaddr.
        """
        starts, ends, offsets = self.functions_of(unit)
        index = bisect_right(starts, vaddr) - 1
        if index < 0 or vaddr >= ends[index]:
            return []
        firsts, chain = Column("Q"), Column("Q")
        self.kernel.chain(offsets[index], vaddr, firsts, chain)
        return [*zip(firsts.numbers(), chain.numbers(), strict=True)]


def ordered(keys: Column, column: Column) -> array[int]:
    """Return a column's numbers in the order of the keys; equal keys keep their order."""
    count = len(keys)
    order, scratch = array("I", bytes(4 * count)), array("I", bytes(4 * count))
    if order_kernel.order(keys.numbers(), order, scratch, True):
        order = scratch
    out = array("Q", bytes(8 * count))
    columns_kernel.gather_u64(order, column.numbers(), out)
    return out
