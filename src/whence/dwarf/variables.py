"""What single DIEs say: where the variable at an address is declared, the locals of the function at an address, and
where it and the calls inlined into it start.

As llvm-symbolizer answers DATA and FRAME and describes frames (DWARFUnit.cpp, getVariableForAddress; DWARFContext.cpp,
getLocalsForAddress and getInliningInfoForAddress): a variable has the size of its type, a local the offset from the
frame's base where its location is nothing but that: of a location list, the first that is.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from whence._base.errors import DwarfError, ObjectError
from whence._base.forks import cached_property
from whence._base.lru import Lru
from whence._base.model import FrameStart
from whence._base.window import sleb
from whence.dwarf.kernels import constants
from whence.dwarf.kernels import variables as kernel
from whence.dwarf.kernels.units import ADDRESS_SIZE, DWO_NAME, END, LANGUAGE, OFFSET, OFFSET_SIZE, VERSION
from whence.dwarf.kernels.units import ALT_BIT as ALT_PLACE
from whence.dwarf.kernels.units import DIE as DIE_OFFSET
from whence.dwarf.line_files import Paths
from whence.dwarf.lines import LinePrograms
from whence.dwarf.locations import LocationLists
from whence.kernels.columns import Column
from whence.ranges.kernels import columns as columns_kernel
from whence.ranges.kernels import order as order_kernel
from whence.ranges.strings import Arena

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from whence.dwarf.info import DebugInfo
    from whence.dwarf.unit_set import UnitSet

ALT_BIT = 1 << ALT_PLACE
STEPS = 16  # of a chain of origins, specifications or types
LARGEST = 1 << 64  # a size beyond is none
POINTERS = (constants.DW_TAG_pointer_type, constants.DW_TAG_reference_type, constants.DW_TAG_rvalue_reference_type)
FUNCTIONS = (constants.DW_TAG_subprogram, constants.DW_TAG_inlined_subroutine)
LINKAGE_NAMES = (constants.DW_AT_linkage_name, constants.DW_AT_MIPS_linkage_name)
# Languages in which a function's name is its linkage name, as binutils have it (dwarf2.c, mangle_style)
UNMANGLED = frozenset({
    constants.DW_LANG_C89, constants.DW_LANG_C, constants.DW_LANG_Cobol74, constants.DW_LANG_Cobol85,
    constants.DW_LANG_Fortran77, constants.DW_LANG_Pascal83, constants.DW_LANG_C99, constants.DW_LANG_PLI,
    constants.DW_LANG_UPC, constants.DW_LANG_C11, constants.DW_LANG_Mips_Assembler,
})  # fmt: skip
LOCALS = (constants.DW_TAG_variable, constants.DW_TAG_formal_parameter)
SPLIT_UNITS_KEPT = 64  # with the files of those that have one of their own
MOST_DIES = 1 << 16  # of one function that are looked at


class Local(NamedTuple):
    """A local variable or parameter: its function and name as they are declared, where, its offset from the frame's
    base, its size in bytes, its tag (HWAddressSanitizer); None for a number that is not known."""

    function: str
    name: str
    file: str
    line: int
    frame_offset: int | None
    size: int | None
    tag_offset: int | None


class Die(NamedTuple):
    """One DIE: attributes by name as (kind, value, size), see kernels/variables.py. `key` is its offset, with
    ALT_BIT in the supplementary file."""

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
        """The key of the DIE an attribute refers to; 0 for none."""
        kind, value, _ = self.attributes.get(name, (kernel.NUMBER, 0, 0))
        return value | self.key & ALT_BIT if kind == kernel.REFERENCE else 0


class Variables:
    """The variables of a file's debug info. The first question about an address looks at every DIE, once.

    With `units`, those of a split file: the vaddrs of DIEs and the files of declarations count in their skeletons.
    """

    def __init__(self, info: DebugInfo, units: UnitSet | None = None) -> None:
        self._info = info
        self._units = units = units or info.all_units
        self._alt_units = alt = units.file.alt or units
        self._own = kernel.VariableReader(units.kernel, alt.kernel)
        self._alt = kernel.VariableReader(alt.kernel, alt.kernel)
        self._files: dict[tuple[int, int, int], str] = {}  # by supplementary file or not, unit and number
        self._functions: dict[int, tuple[array[int], array[int], array[int]]] = {}  # by unit
        self._starts: dict[int, FrameStart] = {}  # by DIE
        self._lists = LocationLists(info.elf)
        self._placed: tuple[array[int], array[int]] | None = None
        self._skeletons: dict[int, int] = {}  # the row of the skeleton, by that of the split unit
        self._split: Lru[int, tuple[Variables, int] | None] = Lru(SPLIT_UNITS_KEPT)  # by row of the skeleton
        self._shared: dict[int, Variables] = {}  # of split files that hold many units

    def declaration(self, vaddr: int) -> tuple[str, int] | None:
        """File and line of the declaration of the variable that lies at a vaddr; None when there is none."""
        starts, offsets = self._all()
        index = bisect_right(starts, vaddr)
        first = bisect_left(starts, starts[index - 1]) if index else 0
        for _ in range(STEPS):  # of several DIEs the last one of the first unit that has it reach so far, as LLVM does
            found = self._die(offsets[first]) if first < index else None
            if found is None:
                return None
            first = bisect_left(offsets, self._units.units.value(found.unit, END), first, index)
            found = self._die(offsets[first - 1]) or found
            size = self._type_size(found.reference(constants.DW_AT_type))
            if vaddr < starts[index - 1] + (1 if size is None else size):
                file, line = self._declared(found)
                return (file, line) if file else None
        return None

    def member_offsets(self, vaddr: int, structure: str, paths: Iterable[str]) -> dict[str, int]:
        """Offsets in a structure of the members at `paths` ("sched.pc": pc of its member sched), as far as it has them.

        The structure is the one of that name that the type of the variable at `vaddr` leads to: through pointers,
        typedefs, and the first members of other structures, such as Go's slices.
        """
        starts, offsets = self._all()
        index = bisect_left(starts, vaddr)
        die = self._die(offsets[index]) if index < len(starts) and starts[index] == vaddr else None
        for _ in range(STEPS):
            key = 0 if die is None else die.reference(constants.DW_AT_type)
            die = self._die(key) if key else None
            if die is not None and die.tag == constants.DW_TAG_structure_type:
                if self._name(die) == structure:
                    return self._at_paths(die, paths)
                die = next(self._members(die), None)
        return {}

    def _at_paths(self, structure: Die, paths: Iterable[str]) -> dict[str, int]:
        known: dict[int, dict[str, tuple[int, int]]] = {}  # offset and type of members, by structure
        found = {}
        for path in paths:
            offset, die = 0, structure
            for name in path.split("."):
                following = self._leads_to(die)
                if following is None:
                    break
                die = following
                if die.key not in known:
                    known[die.key] = {
                        self._name(one): (at, one.reference(constants.DW_AT_type))
                        for one in self._members(die)
                        if (at := one.number(constants.DW_AT_data_member_location)) is not None
                    }
                member = known[die.key].get(name)
                target = None if member is None else self._die(member[1])
                if member is None or target is None:
                    break
                offset, die = offset + member[0], target
            else:
                found[path] = offset
        return found

    def _leads_to(self, die: Die) -> Die | None:
        """The structure that a type is, perhaps by other names; None for other types."""
        following: Die | None = die
        for _ in range(STEPS):
            if following is None or following.tag == constants.DW_TAG_structure_type:
                return following
            key = following.reference(constants.DW_AT_type) if following.tag == constants.DW_TAG_typedef else 0
            following = self._die(key) if key else None
        return None

    def _members(self, structure: Die) -> Iterator[Die]:
        return (one for one in self._children(structure, nested=False) if one.tag == constants.DW_TAG_member)

    def _declared(self, die: Die) -> tuple[str, int]:
        """File and line of a declaration, looked for along origins and what they complete."""
        file, line = "", 0
        for one in self._origins(die):
            if not file and (number := one.number(constants.DW_AT_decl_file)) is not None:
                file = self._file(one, number)
            line = line or one.number(constants.DW_AT_decl_line) or 0
        return file, line

    def frame_starts(self, vaddr: int) -> list[FrameStart]:
        """Of the function at a vaddr and the calls inlined into it there, innermost first. The first question in a unit
        looks at all of its functions, once."""
        for variables, unit in self._units_at(vaddr):
            starts, ends, offsets = variables._functions_of(unit)
            index = bisect_right(starts, vaddr) - 1
            if index >= 0 and vaddr < ends[index]:
                firsts, chain = Column("Q"), Column("Q")
                variables._own.chain(offsets[index], vaddr, firsts, chain)
                return [variables._start(offset) for offset in reversed(chain.numbers())]
        return []

    def first_function(self, vaddr: int) -> str:
        """The linkage name, or the name, of the first function of a unit that begins where the one at a vaddr does:
        assemblers describe each of the names that a function has. "" when there is none."""
        for variables, unit in self._units_at(vaddr):
            starts, ends, offsets = variables._functions_of(unit)
            at = bisect_right(starts, vaddr) - 1
            if at >= 0 and vaddr < ends[at]:
                first = bisect_left(starts, starts[at])
                die = variables._die(min(offsets[one] for one in range(first, at + 1) if vaddr < ends[one]))
                return variables._name(die, LINKAGE_NAMES) or variables._name(die) if die is not None else ""
        return ""

    def starts_without_linkage_names(self, vaddr: int) -> list[int | None]:
        """Return where the first range of the function at `vaddr` and of each call inlined into it there starts,
        innermost first. None for one that has a linkage name, and for one whose language has no mangling."""
        for variables, unit in self._units_at(vaddr):
            starts, ends, offsets = variables._functions_of(unit)
            index = bisect_right(starts, vaddr) - 1
            if index >= 0 and vaddr < ends[index]:
                firsts, chain = Column("Q"), Column("Q")
                variables._own.chain(offsets[index], vaddr, firsts, chain)
                rows = zip(firsts.numbers(), chain.numbers(), strict=True)
                return [None if variables._has_linkage_name(offset) else start for start, offset in reversed([*rows])]
        return []

    def _has_linkage_name(self, offset: int) -> bool:
        die = self._die(offset)
        assert die is not None
        for origin in self._origins(die):
            if any(name in origin.attributes for name in LINKAGE_NAMES):
                return True
            if constants.DW_AT_name in origin.attributes:
                language = self._set_of(origin).units.value(origin.unit, LANGUAGE)
                if language in UNMANGLED:
                    return True
        return False

    def _units_at(self, vaddr: int) -> Iterator[tuple[Variables, int]]:
        """The offsets of the units that can hold a vaddr, each with the reader of its DIEs: a skeleton's split unit in
        place of the skeleton."""
        for offset in self._info.units_at([vaddr]):
            row = self._rows.get(offset, -1)
            split = self._split_unit(row) if row >= 0 and self._units.units.value(row, DWO_NAME) else None
            yield split or (self, offset)

    @cached_property
    def _rows(self) -> dict[int, int]:
        """The row of each unit, by offset."""
        return {offset: row for row, offset in enumerate(self._units.units.column(OFFSET))}

    def _split_unit(self, skeleton: int) -> tuple[Variables, int] | None:
        """The split unit of a skeleton: the reader of its file, and its offset there. None if it is missing."""
        if skeleton not in self._split:
            self._split[skeleton] = self._find_split_unit(skeleton)
        return self._split[skeleton]

    def _find_split_unit(self, skeleton: int) -> tuple[Variables, int] | None:
        try:
            found = self._info.split.find(self._units, skeleton)
        except (DwarfError, ObjectError, OSError):
            return None
        if found is None:
            return None
        file, row = found
        variables = self._shared.get(id(file)) or Variables(self._info, file.set)
        if not file.alone:
            self._shared[id(file)] = variables
        variables._skeletons[row] = skeleton
        return variables, file.set.units.value(row, OFFSET)

    def _start(self, offset: int) -> FrameStart:
        found = self._starts.get(offset)
        if found is None:
            die = self._die(offset)
            assert die is not None
            kind, low, _ = die.attributes.get(constants.DW_AT_low_pc, (kernel.BLOCK, 0, 0))
            found = FrameStart(*self._declared(die), low if kind in (kernel.NUMBER, kernel.ADDRESS) else 0)
            self._starts[offset] = found
        return found

    def _functions_of(self, unit: int) -> tuple[array[int], array[int], array[int]]:
        """Start, end and DIE of the spans of a unit's functions, in order of address."""
        if unit not in self._functions:
            columns = Column("Q"), Column("Q"), Column("Q")
            self._own.functions(unit, *columns)
            starts, ends, offsets = (_ordered(columns[0], column) for column in columns)
            self._functions[unit] = starts, ends, offsets
        return self._functions[unit]

    def locals_at(self, vaddr: int) -> list[Local]:
        """The variables and parameters of the innermost function or inlined call at a vaddr, and of what is inlined
        into it."""
        for unit in self._info.units_at([vaddr]):
            if (offset := self._own.covering(unit, vaddr)) and (function := self._die(offset)) is not None:
                return list(self._locals(function))
        return []

    def _all(self) -> tuple[array[int], array[int]]:
        """Addresses in ascending order, and the offset of the DIE at each; DIEs of one address in the file's order."""
        if self._placed is None:
            addresses, offsets = Column("Q"), Column("Q")
            self._own.variables(addresses, offsets)
            self._placed = _ordered(addresses, addresses), _ordered(addresses, offsets)
        return self._placed

    def _set_of(self, die: Die) -> UnitSet:
        """The units that a DIE's belongs to: this file's, or those of the supplementary one."""
        return self._alt_units if die.key & ALT_BIT else self._units

    def _die(self, key: int) -> Die | None:
        reader = self._alt if key & ALT_BIT else self._own
        found = reader.die(key & ~ALT_BIT)
        if found is None:
            return None
        tag, children, end, unit, attributes = found
        return Die(key, tag, children, end, unit, {name: value for name, *value in attributes})

    def _origins(self, die: Die) -> Iterator[Die]:
        """A DIE, then those it refers to as its origin or what it completes."""
        following: Die | None = die
        for _ in range(STEPS):
            if following is None:
                return
            yield following
            key = following.reference(constants.DW_AT_abstract_origin) or following.reference(
                constants.DW_AT_specification
            )
            following = self._die(key) if key else None

    def _name(self, die: Die, attributes: Sequence[int] = (constants.DW_AT_name,)) -> str:
        for one in self._origins(die):
            for attribute in attributes:
                kind, value, _ = one.attributes.get(attribute, (kernel.NUMBER, 0, 0))
                if kind == kernel.NAME:
                    return self._units.file.strings.text(value)
        return ""

    def _file(self, die: Die, number: int) -> str:
        """The path of a file, by its number in the unit of a DIE."""
        which = die.key & ALT_BIT, die.unit, number
        if which not in self._files:
            units, row = self._set_of(die), die.unit
            if not die.key & ALT_BIT and row in self._skeletons:
                units, row = self._info.all_units, self._skeletons[row]
            file = self._info.all_units.file
            arena = Arena(file.strings)
            paths = Paths(units.sections, file.order, arena, go=file.go, style=file.read.paths)
            programs = LinePrograms(units.sections, file.order, file.lowest, paths, file.strings)
            ref = programs.file_names(units.units.rows, row).ref(number)
            arena.seal()
            self._files[which] = file.strings.text(ref)
        return self._files[which]

    def _children(self, die: Die, *, nested: bool = True) -> Iterator[Die]:
        """The DIEs below one in their order, with those below them if `nested`."""
        level, offset = 1, die.end
        if not die.children:
            return
        for _ in range(MOST_DIES):
            child = self._die(offset | die.key & ALT_BIT)
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

    def _type_size(self, key: int, steps: int = STEPS) -> int | None:
        """Bytes of a type; None when nothing says it."""
        die = self._die(key) if key and steps else None
        if die is None:
            return None
        if (size := die.number(constants.DW_AT_byte_size)) is not None:
            return size
        pointer = self._set_of(die).units.value(die.unit, ADDRESS_SIZE)
        if die.tag in POINTERS:
            return pointer
        base = die.reference(constants.DW_AT_type)
        if die.tag == constants.DW_TAG_ptr_to_member_type:
            pointed = self._die(base) if base else None
            twice = pointed is not None and pointed.tag == constants.DW_TAG_subroutine_type
            return 2 * pointer if twice else pointer
        size = self._type_size(base, steps - 1)
        if size is not None and die.tag == constants.DW_TAG_array_type:
            for child in self._children(die):
                if child.tag == constants.DW_TAG_subrange_type:
                    size *= _elements(child)
            if not 0 <= size < LARGEST:
                return None
        return size

    def _locals(self, function: Die) -> Iterator[Local]:
        """The locals below a function; those of what is inlined into it are of the inlined function."""
        names = self._name(function)
        register = _register(self._block(function, constants.DW_AT_frame_base))
        inside: list[tuple[int, str, int | None]] = []  # of calls that are open: their level, and what was before
        level, offset = 1, function.end
        if not function.children:
            return
        for _ in range(MOST_DIES):
            die = self._die(offset | function.key & ALT_BIT)
            if die is None:
                return
            offset = die.end
            if die.tag == 0:
                level -= 1
                if level == 0:
                    return
                if inside and inside[-1][0] == level:
                    _, names, register = inside.pop()
                continue
            if die.tag in LOCALS:
                yield self._local(die, names, register)
                if die.children:
                    level += 1
                continue
            if die.tag == constants.DW_TAG_inlined_subroutine and die.children:
                inside.append((level, names, register))
                names, register = self._name(die), None
            level += die.children

    def _local(self, die: Die, function: str, register: int | None) -> Local:
        offsets = (_frame_offset(one, register) for one in self._locations(die))
        offset = next((one for one in offsets if one is not None), None)
        tag = die.number(constants.DW_AT_LLVM_tag_offset)
        origin = die.reference(constants.DW_AT_abstract_origin)
        declared = (self._die(origin) if origin else None) or die
        kind, name, _ = declared.attributes.get(constants.DW_AT_name, (kernel.NUMBER, 0, 0))
        number = declared.number(constants.DW_AT_decl_file)
        return Local(
            function,
            self._units.file.strings.text(name) if kind == kernel.NAME else "",
            "" if number is None else self._file(declared, number),
            declared.number(constants.DW_AT_decl_line) or 0,
            offset,
            self._type_size(declared.reference(constants.DW_AT_type)),
            tag,
        )

    def _locations(self, die: Die) -> list[bytes]:
        """The expressions of a DIE's location: one, or those of its list."""
        kind, value, _ = die.attributes.get(constants.DW_AT_location, (kernel.NAME, 0, 0))
        if kind == kernel.BLOCK:
            return [self._block(die, constants.DW_AT_location)]
        units = self._set_of(die).units
        version, size = units.value(die.unit, VERSION), units.value(die.unit, ADDRESS_SIZE)
        if kind == kernel.LIST_INDEX:
            root = self._die(units.value(die.unit, DIE_OFFSET) | die.key & ALT_BIT)
            base = root.number(constants.DW_AT_loclists_base) if root is not None else None
            width = units.value(die.unit, OFFSET_SIZE)
            at = None if base is None else self._lists.offset_of(value, base, width)
        else:
            at = value if kind == kernel.NUMBER else None
        return [] if at is None else self._lists.expressions(version, size, at)

    def _block(self, die: Die, name: int) -> bytes:
        kind, offset, size = die.attributes.get(name, (kernel.NUMBER, 0, 0))
        sections = self._set_of(die).sections
        return bytes(sections.debug_info[offset : offset + size]) if kind == kernel.BLOCK else b""


def _ordered(keys: Column, column: Column) -> array[int]:
    """A column's numbers in the order of the keys; equal ones as they were."""
    count = len(keys)
    order, room = array("I", bytes(4 * count)), array("I", bytes(4 * count))
    if order_kernel.order(keys.numbers(), order, room, True):
        order = room
    out = array("Q", bytes(8 * count))
    columns_kernel.gather_u64(order, column.numbers(), out)
    return out


def _elements(subrange: Die) -> int:
    """How many elements a dimension of an array has; 1 when it does not say."""
    count = 1
    if (stated := subrange.number(constants.DW_AT_count)) is not None:
        count = stated
    if (upper := subrange.number(constants.DW_AT_upper_bound)) is not None:
        count = _signed(upper) - _signed(subrange.number(constants.DW_AT_lower_bound) or 0) + 1
    return count


def _signed(value: int) -> int:
    return value - LARGEST if value >> 63 else value


def _register(expression: bytes) -> int | None:
    """The register that is the frame's base."""
    if expression and constants.DW_OP_reg0 <= expression[0] <= constants.DW_OP_reg31:
        return expression[0] - constants.DW_OP_reg0
    return None


def _frame_offset(expression: bytes, register: int | None) -> int | None:
    """The offset from the frame's base that an expression adds, if it does no more than follow the pointer there."""
    if not expression:
        return None
    based = register is not None and expression[0] == constants.DW_OP_breg0 + register
    if expression[0] != constants.DW_OP_fbreg and not based:
        return None
    try:
        value, end = sleb(expression, 1, len(expression))
    except (EOFError, OverflowError):
        return None
    return value if expression[end:] in (b"", bytes([constants.DW_OP_deref])) else None
