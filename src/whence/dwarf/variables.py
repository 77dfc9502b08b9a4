"""Single DIEs: declarations of variables, the locals of a function, and the start lines of functions and inlined calls.

The answers are those of llvm-symbolizer to DATA and FRAME (DWARFUnit.cpp, getVariableForAddress; DWARFContext.cpp,
getLocalsForAddress and getInliningInfoForAddress): a variable has the size of its type; a local has an offset from the
frame base if its location is nothing else, or if one of its location list is, the first.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from typing import TYPE_CHECKING, NamedTuple

from whence._base.model import FrameStart
from whence._base.window import sleb
from whence.dwarf.die_reader import ALT_BIT, MOST_DIES, STEPS, Die, DieReader, ordered
from whence.dwarf.kernels import constants
from whence.dwarf.kernels import variables as kernel
from whence.dwarf.kernels.units import ADDRESS_SIZE, END, LANGUAGE, OFFSET_SIZE, VERSION
from whence.dwarf.kernels.units import DIE as DIE_OFFSET
from whence.dwarf.locations import LocationLists
from whence.kernels.columns import Column

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from whence.dwarf.info import DebugInfo
    from whence.dwarf.unit_set import UnitSet
    from whence.objects.interface import ObjectFile

SIZE_LIMIT = 1 << 64
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


class Local(NamedTuple):
    """A local variable or parameter.

    Function and name as declared, file and line of the declaration, offset from the frame base in bytes, size in bytes,
    tag (HWAddressSanitizer). None for unknown numbers.
    """

    function: str
    name: str
    file: str
    line: int
    frame_offset: int | None
    size: int | None
    tag_offset: int | None


class Variables(DieReader):
    """The variables of a file's debug info. The first query reads every DIE once."""

    def __init__(self, info: DebugInfo, units: UnitSet | None = None, elf: ObjectFile | None = None) -> None:
        super().__init__(info, units, elf)
        self._starts: dict[int, FrameStart] = {}  # by DIE
        self._lists = LocationLists(info.elf)
        self._variables: tuple[array[int], array[int]] | None = None

    def declaration(self, vaddr: int) -> tuple[str, int] | None:
        """Return file and line of the declaration of the variable at a vaddr, or None."""
        starts, offsets = self._all()
        index = bisect_right(starts, vaddr)
        first = bisect_left(starts, starts[index - 1]) if index else 0
        for _ in range(STEPS):  # as in LLVM: the last DIE of the first unit whose variable extends to the vaddr
            die = self.die(offsets[first]) if first < index else None
            if die is None:
                return None
            first = bisect_left(offsets, self.units.units.value(die.unit, END), first, index)
            die = self.die(offsets[first - 1]) or die
            size = self._type_size(die.reference(constants.DW_AT_type))
            if vaddr < starts[index - 1] + (1 if size is None else size):
                file, line = self._declared(die)
                return (file, line) if file else None
        return None

    def member_offsets(self, vaddr: int, structure: str, paths: Iterable[str]) -> dict[str, int]:
        """Return the offsets in a structure of the members at `paths` ("sched.pc": pc of its member sched) that exist.

        The structure has the given name and is reached from the type of the variable at `vaddr`: through pointers,
        typedefs, and the first members of other structures, such as Go's slices.
        """
        starts, offsets = self._all()
        index = bisect_left(starts, vaddr)
        die = self.die(offsets[index]) if index < len(starts) and starts[index] == vaddr else None
        for _ in range(STEPS):
            key = 0 if die is None else die.reference(constants.DW_AT_type)
            die = self.die(key) if key else None
            if die is not None and die.tag == constants.DW_TAG_structure_type:
                if self.name(die) == structure:
                    return self._offsets_of(die, paths)
                die = next(self._members(die), None)
        return {}

    def _offsets_of(self, structure: Die, paths: Iterable[str]) -> dict[str, int]:
        members: dict[int, dict[str, tuple[int, int]]] = {}  # offset and type of members, by structure
        offsets = {}
        for path in paths:
            offset, die = 0, structure
            for name in path.split("."):
                following = self._structure(die)
                if following is None:
                    break
                die = following
                if die.key not in members:
                    members[die.key] = {
                        self.name(member_die): (member_offset, member_die.reference(constants.DW_AT_type))
                        for member_die in self._members(die)
                        if (member_offset := member_die.number(constants.DW_AT_data_member_location)) is not None
                    }
                member = members[die.key].get(name)
                target = None if member is None else self.die(member[1])
                if member is None or target is None:
                    break
                offset, die = offset + member[0], target
            else:
                offsets[path] = offset
        return offsets

    def _structure(self, die: Die) -> Die | None:
        """Return the structure that a type is, through typedefs; None for other types."""
        following: Die | None = die
        for _ in range(STEPS):
            if following is None or following.tag == constants.DW_TAG_structure_type:
                return following
            key = following.reference(constants.DW_AT_type) if following.tag == constants.DW_TAG_typedef else 0
            following = self.die(key) if key else None
        return None

    def _members(self, structure: Die) -> Iterator[Die]:
        return (child for child in self.children(structure, nested=False) if child.tag == constants.DW_TAG_member)

    def _declared(self, die: Die) -> tuple[str, int]:
        """Return file and line of a declaration, along origins and specifications."""
        file, line = "", 0
        for origin in self.origins(die):
            if not file and (number := origin.number(constants.DW_AT_decl_file)) is not None:
                file = self.file(origin, number)
            line = line or origin.number(constants.DW_AT_decl_line) or 0
        return file, line

    def frame_starts(self, vaddr: int) -> list[FrameStart]:
        """Return the starts of the function at a vaddr and of the calls inlined into it there, innermost first.

        The first query in a unit reads all of its functions once.
        """
        for variables, unit in self.units_at(vaddr):
            if chain := variables.chain_at(unit, vaddr):
                return [variables._start(offset) for _, offset in reversed(chain)]
        return []

    def first_function(self, vaddr: int) -> str:
        """Return the (linkage) name of the first function of a unit that begins where the function at a vaddr does.

        Assemblers describe each of the names that a function has. "" if there is no function.
        """
        for variables, unit in self.units_at(vaddr):
            starts, ends, offsets = variables.functions_of(unit)
            index = bisect_right(starts, vaddr) - 1
            if index >= 0 and vaddr < ends[index]:
                first = bisect_left(starts, starts[index])
                die = variables.die(min(offsets[i] for i in range(first, index + 1) if vaddr < ends[i]))
                return variables.name(die, LINKAGE_NAMES) or variables.name(die) if die is not None else ""
        return ""

    def starts_without_linkage_names(self, vaddr: int) -> list[int | None]:
        """Return the starts of the function at a vaddr and of each call inlined there, innermost first.

        None for a function that has a linkage name, or whose language has no mangling.
        """
        for variables, unit in self.units_at(vaddr):
            if chain := variables.chain_at(unit, vaddr):
                return [None if variables._has_linkage_name(offset) else start for start, offset in reversed(chain)]
        return []

    def _has_linkage_name(self, offset: int) -> bool:
        die = self.die(offset)
        assert die is not None
        for origin in self.origins(die):
            if any(name in origin.attributes for name in LINKAGE_NAMES):
                return True
            if constants.DW_AT_name in origin.attributes:
                language = self.set_of(origin).units.value(origin.unit, LANGUAGE)
                if language in UNMANGLED:
                    return True
        return False

    def _start(self, offset: int) -> FrameStart:
        start = self._starts.get(offset)
        if start is None:
            die = self.die(offset)
            assert die is not None
            kind, low, _ = die.attributes.get(constants.DW_AT_low_pc, (kernel.BLOCK, 0, 0))
            start = FrameStart(*self._declared(die), low if kind in (kernel.NUMBER, kernel.ADDRESS) else 0)
            self._starts[offset] = start
        return start

    def locals_at(self, vaddr: int) -> list[Local]:
        """Return the variables and parameters of the innermost function or inlined call at a vaddr.

        Those of calls inlined into it are included.
        """
        for unit in self.info.units_at([vaddr]):
            if (offset := self.kernel.covering(unit, vaddr)) and (function := self.die(offset)) is not None:
                return list(self._locals(function))
        return []

    def _all(self) -> tuple[array[int], array[int]]:
        """Return all addresses of variables in ascending order, and the offsets of their DIEs."""
        if self._variables is None:
            addresses, offsets = Column("Q"), Column("Q")
            self.kernel.variables(addresses, offsets)
            self._variables = ordered(addresses, addresses), ordered(addresses, offsets)
        return self._variables

    def _type_size(self, key: int, steps: int = STEPS) -> int | None:
        """Return the size of a type in bytes; None if it is unknown."""
        die = self.die(key) if key and steps else None
        if die is None:
            return None
        if (size := die.number(constants.DW_AT_byte_size)) is not None:
            return size
        pointer = self.set_of(die).units.value(die.unit, ADDRESS_SIZE)
        if die.tag in POINTERS:
            return pointer
        base = die.reference(constants.DW_AT_type)
        if die.tag == constants.DW_TAG_ptr_to_member_type:
            pointed = self.die(base) if base else None
            twice = pointed is not None and pointed.tag == constants.DW_TAG_subroutine_type
            return 2 * pointer if twice else pointer
        size = self._type_size(base, steps - 1)
        if size is not None and die.tag == constants.DW_TAG_array_type:
            for child in self.children(die):
                if child.tag == constants.DW_TAG_subrange_type:
                    size *= _elements(child)
            if not 0 <= size < SIZE_LIMIT:
                return None
        return size

    def _locals(self, function: Die) -> Iterator[Local]:
        """Yield the locals below a function; those of an inlined call have the name of the inlined function."""
        names = self.name(function)
        register = _register(self.block(function, constants.DW_AT_frame_base))
        inside: list[tuple[int, str, int | None]] = []  # open calls: their level, and the values before them
        level, offset = 1, function.end
        if not function.children:
            return
        for _ in range(MOST_DIES):
            die = self.die(offset | function.key & ALT_BIT)
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
                names, register = self.name(die), None
            level += die.children

    def _local(self, die: Die, function: str, register: int | None) -> Local:
        offsets = (_frame_offset(value, register) for value in self._locations(die))
        offset = next((value for value in offsets if value is not None), None)
        tag = die.number(constants.DW_AT_LLVM_tag_offset)
        origin = die.reference(constants.DW_AT_abstract_origin)
        declared = (self.die(origin) if origin else None) or die
        kind, name, _ = declared.attributes.get(constants.DW_AT_name, (kernel.NUMBER, 0, 0))
        number = declared.number(constants.DW_AT_decl_file)
        return Local(
            function,
            self.units.file.strings.text(name) if kind == kernel.NAME else "",
            "" if number is None else self.file(declared, number),
            declared.number(constants.DW_AT_decl_line) or 0,
            offset,
            self._type_size(declared.reference(constants.DW_AT_type)),
            tag,
        )

    def _locations(self, die: Die) -> list[bytes]:
        """Return the expressions of a DIE's location: one, or those of its list."""
        kind, value, _ = die.attributes.get(constants.DW_AT_location, (kernel.NAME, 0, 0))
        if kind == kernel.BLOCK:
            return [self.block(die, constants.DW_AT_location)]
        units = self.set_of(die).units
        version, size = units.value(die.unit, VERSION), units.value(die.unit, ADDRESS_SIZE)
        if kind == kernel.LIST_INDEX:
            root = self.die(units.value(die.unit, DIE_OFFSET) | die.key & ALT_BIT)
            base = root.number(constants.DW_AT_loclists_base) if root is not None else None
            width = units.value(die.unit, OFFSET_SIZE)
            offset = None if base is None else self._lists.offset_of(value, base, width)
        else:
            offset = value if kind == kernel.NUMBER else None
        return [] if offset is None else self._lists.expressions(version, size, offset)


def _elements(subrange: Die) -> int:
    """Return the number of elements of a dimension of an array; 1 if it is unknown."""
    count = 1
    if (stated := subrange.number(constants.DW_AT_count)) is not None:
        count = stated
    if (upper := subrange.number(constants.DW_AT_upper_bound)) is not None:
        count = _signed(upper) - _signed(subrange.number(constants.DW_AT_lower_bound) or 0) + 1
    return count


def _signed(value: int) -> int:
    return value - SIZE_LIMIT if value >> 63 else value


def _register(expression: bytes) -> int | None:
    """Return the register that is the frame base."""
    if expression and constants.DW_OP_reg0 <= expression[0] <= constants.DW_OP_reg31:
        return expression[0] - constants.DW_OP_reg0
    return None


def _frame_offset(expression: bytes, register: int | None) -> int | None:
    """Return the offset of an expression from the frame base, if it is only that (with or without a dereference)."""
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
