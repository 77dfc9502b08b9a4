"""The variables in scope at an address: of a function and of each call inlined there, as debug info declares them.

Variables of the innermost lexical block are first, as in gdb's lists. Variables that only the abstract
instance of a function has were optimized out (DWARF 5, section 3.3.8).
"""

from __future__ import annotations

from itertools import islice
from typing import TYPE_CHECKING, NamedTuple

from whence._base.lru import Lru
from whence.dwarf.die_reader import FLAGS
from whence.dwarf.kernels import constants
from whence.dwarf.kernels import variables as kernel
from whence.dwarf.kernels.units import ADDR_BASE, ADDRESS_SIZE, LOW, OFFSET, OFFSET_SIZE, VERSION
from whence.dwarf.kernels.units import DIE as DIE_OFFSET
from whence.dwarf.locations import ListUnit, LocationLists
from whence.kernels.columns import Column
from whence.types.type_reader import TypeReader

if TYPE_CHECKING:
    from collections.abc import Iterator

    from whence.dwarf.die_reader import Die, DieReader
    from whence.types.model import Type

MOST_VARIABLES = 1 << 12  # of a function at an address
MOST_BLOCKS = 1 << 12  # lexical blocks that are read of a function
BLOCK_DEPTH = 256  # of lexical blocks; Rust has one for each `let`
MOST_CALLS = 1 << 16  # call sites of a function
FUNCTIONS_KEPT = 1024
PLANS_KEPT = 1 << 16
PARAMETER_TAGS = (constants.DW_TAG_call_site_parameter, constants.DW_TAG_GNU_call_site_parameter)
MOST_PARAMETERS = 256  # of a call
VARIABLES = (constants.DW_TAG_variable, constants.DW_TAG_formal_parameter)
HEADER_SIZES = {4: 12, 8: 20}  # of .debug_loclists, by the size of its offsets
NO_VALUE = (kernel.BLOCK, 0, 0)


class Declared(NamedTuple):
    """A variable in scope. `dies` are its DIE, and the origins or specifications that it refers to."""

    name: str
    dies: tuple[Die, ...]
    is_argument: bool
    line: int

    def attribute(self, name: int) -> tuple[Die, tuple[int, int, int]] | None:
        """Return the first DIE that has an attribute, and its value."""
        for die in self.dies:
            if name in die.attributes:
                return die, die.attributes[name]
        return None


class Plan(NamedTuple):
    """The type of a variable, and its constant value, or the expression for its location, each with the DIE."""

    type: Type
    constant: tuple[Die, tuple[int, int, int]] | None
    located: tuple[bytes, Die] | None


class FunctionScope(NamedTuple):
    """A function, or a call inlined into it, at an address, with its variables, innermost block first."""

    key: int
    file: UnitReader
    is_inlined: bool
    variables: tuple[Declared, ...]


class UnitReader:
    """Reads scopes, types and locations of the DIEs of one section of units: a file's, or a split file's."""

    def __init__(self, dies: DieReader) -> None:
        self.dies = dies
        self.types = TypeReader(dies)
        is_split = dies.elf is not dies.info.elf or dies.units is not dies.info.all_units
        self.is_split = is_split
        self.lists = LocationLists(dies.elf, dies.info.elf, ".dwo" if is_split else "")
        self.tail_recursive: dict[int, bool] = {}  # functions that may lead to themselves by tail calls
        self._call_sites: dict[int, dict[int, Die]] = {}
        self._calls: Lru[int, list[Die]] = Lru(FUNCTIONS_KEPT)
        self._plans: Lru[tuple[int, int], Plan] = Lru(PLANS_KEPT)
        self._definitions: dict[int, int | None] = {}
        self._parameters: Lru[int, list[Die]] = Lru(FUNCTIONS_KEPT)
        self.called_by: Lru[tuple[int, UnitReader, int], bool] = Lru(PLANS_KEPT)  # function, caller's reader, call

    def chain(self, unit: int, vaddr: int) -> list[FunctionScope]:
        """Return the function of a unit at a vaddr and the calls inlined into it there, innermost first."""
        chain = self.dies.chain_at(unit, vaddr)
        return [
            FunctionScope(offset, self, index > 0, tuple(self._variables(offset, vaddr)))
            for index, (_, offset) in enumerate(chain)
        ][::-1]

    def _variables(self, key: int, vaddr: int) -> Iterator[Declared]:
        function = self.dies.die(key)
        if function is None:
            return
        groups: list[list[Declared]] = []
        self._blocks_left = MOST_BLOCKS
        self._collect(function, vaddr, groups, 0)
        listed = [variable for group in reversed(groups) for variable in group][:MOST_VARIABLES]
        instances = {die.key for variable in listed for die in variable.dies[1:]}
        for variable in listed:
            if variable.dies[0].key not in instances:  # else an instance of it is listed, too
                yield variable

    def _collect(self, die: Die, vaddr: int, groups: list[list[Declared]], depth: int) -> None:
        """Collect the variables of a function or block and of the blocks in it that contain the vaddr.

        `groups` receives a list for each block, outermost first.
        """
        declared: list[Declared] = []
        groups.append(declared)
        inner: list[Die] = []
        seen: set[int] = set()
        for key, tag in self.dies.below(die):
            child = self._child(key, seen) if tag in VARIABLES or tag == constants.DW_TAG_lexical_block else None
            if child is not None and tag == constants.DW_TAG_lexical_block:
                inner.append(child)
            elif child is not None:
                self._add(child, declared)
        for key in self._inherited(die, seen):
            child = self.dies.die(key)
            if child is None:
                continue
            if child.tag in VARIABLES:
                self._add(child, declared)
            elif child.tag == constants.DW_TAG_lexical_block:
                self._take_abstract(child, declared, depth + 1)
        for child in inner:
            self._blocks_left -= 1
            if depth >= BLOCK_DEPTH or self._blocks_left < 0:
                break
            covers = self.covers(child, vaddr)
            if covers is None:
                self._take_plain(child, vaddr, groups, declared, depth + 1)
            elif covers:
                self._collect(child, vaddr, groups, depth + 1)

    def _take_plain(
        self, block: Die, vaddr: int, groups: list[list[Declared]], declared: list[Declared], depth: int
    ) -> None:
        """Add the variables of a block without addresses to those of the block around it."""
        for key, tag in self.dies.below(block):
            if depth >= BLOCK_DEPTH or len(declared) >= MOST_VARIABLES or self._blocks_left < 0:
                return
            child = self.dies.die(key) if tag in VARIABLES or tag == constants.DW_TAG_lexical_block else None
            if child is None:
                continue
            if tag in VARIABLES:
                self._add(child, declared)
                continue
            self._blocks_left -= 1
            covers = self.covers(child, vaddr)
            if covers is None:
                self._take_plain(child, vaddr, groups, declared, depth + 1)
            elif covers:
                self._collect(child, vaddr, groups, depth + 1)

    def _take_abstract(self, block: Die, declared: list[Declared], depth: int) -> None:
        """Add the variables of a block that only the abstract instance of a function has."""
        for key, tag in self.dies.below(block):
            if depth >= BLOCK_DEPTH or len(declared) >= MOST_VARIABLES or self._blocks_left < 0:
                return
            child = self.dies.die(key) if tag in VARIABLES or tag == constants.DW_TAG_lexical_block else None
            if child is None:
                continue
            if tag in VARIABLES:
                self._add(child, declared)
            else:
                self._blocks_left -= 1
                self._take_abstract(child, declared, depth + 1)

    def _add(self, die: Die, declared: list[Declared]) -> None:
        """Add a variable, unless it has no name or is declared here and defined elsewhere."""
        variable = self._declared(die)
        if variable is not None and len(declared) < MOST_VARIABLES:
            declared.append(variable)

    def _child(self, key: int, seen: set[int]) -> Die | None:
        """Return a DIE, and add the DIEs that it is an instance of to `seen`."""
        child = self.dies.die(key)
        origin = 0 if child is None else child.reference(constants.DW_AT_abstract_origin)
        while origin and origin not in seen and len(seen) < 4 * MOST_VARIABLES:
            seen.add(origin)
            following = self.dies.die(origin)
            origin = 0 if following is None else following.reference(constants.DW_AT_abstract_origin)
        return child

    def _inherited(self, die: Die, seen: set[int]) -> Iterator[int]:
        """Yield the variables and blocks that only the abstract instance of a function or block has."""
        origin = die.reference(constants.DW_AT_abstract_origin)
        abstract = self.dies.die(origin) if origin else None
        if abstract is None:
            return
        for key, tag in self.dies.below(abstract):
            if key not in seen and (tag in VARIABLES or tag == constants.DW_TAG_lexical_block):
                yield key

    def _declared(self, die: Die) -> Declared | None:
        """Return a variable; None if it has no name, or is only declared here."""
        dies = tuple(self.dies.origins(die))
        declared = Declared(self.dies.name(die), dies, die.tag == constants.DW_TAG_formal_parameter, 0)
        has_value = declared.attribute(constants.DW_AT_location) or declared.attribute(constants.DW_AT_const_value)
        if not declared.name or (
            not has_value
            and not declared.is_argument
            and (declared.attribute(constants.DW_AT_external) or declared.attribute(constants.DW_AT_declaration))
        ):
            return None
        line = next((line for origin in dies if (line := origin.number(constants.DW_AT_decl_line))), 0)
        return declared._replace(line=line)

    def covers(self, die: Die, vaddr: int) -> bool | None:
        """Return True if the addresses of a DIE contain a vaddr; None if it has no addresses."""
        kind, value, _ = die.attributes.get(constants.DW_AT_ranges, NO_VALUE)
        if kind in (kernel.NUMBER, kernel.LIST_INDEX):
            starts, ends = Column("Q"), Column("Q")
            self.dies.kernel.range_list(die.key, value, kind == kernel.LIST_INDEX, starts, ends)
            return any(start <= vaddr < end for start, end in zip(starts.numbers(), ends.numbers(), strict=True))
        low = address_of(die, constants.DW_AT_low_pc)
        kind, high, _ = die.attributes.get(constants.DW_AT_high_pc, NO_VALUE)
        if low is None or kind not in (kernel.NUMBER, kernel.ADDRESS):
            return None
        return bool(low <= vaddr < (high if kind == kernel.ADDRESS else low + high))

    # values

    def plan(self, declared: Declared, vaddr: int) -> Plan:
        """Return the type of a variable and where its value is at a vaddr, kept for other frames there."""
        key = declared.dies[0].key, vaddr
        if key not in self._plans:
            constant = declared.attribute(constants.DW_AT_const_value)
            located = self.expression(declared, vaddr) if constant is None else None
            self._plans[key] = Plan(self.type_of(declared), constant, located)
        return self._plans[key]

    def type_of(self, declared: Declared) -> Type:
        """Return the type of a variable."""
        typed = declared.attribute(constants.DW_AT_type)
        return self.types.type_of(declared.dies[0] if typed is None else typed[0])

    def expression(self, declared: Declared, vaddr: int) -> tuple[bytes, Die] | None:
        """Return the expression for the location of a variable at a vaddr, and its DIE; None if it has none."""
        located = declared.attribute(constants.DW_AT_location)
        if located is None:
            return None
        die, (kind, value, _) = located
        if kind == kernel.BLOCK:
            return self.dies.block(die, constants.DW_AT_location), die
        expression = self.list_entry(die, kind, value, vaddr)
        return None if expression is None else (expression, die)

    def list_entry(self, die: Die, kind: int, value: int, vaddr: int) -> bytes | None:
        """Return the expression of a location list for a vaddr."""
        unit = self.list_unit(die)
        offset: int | None = value
        if kind == kernel.LIST_INDEX:
            width = self.dies.unit_value(die, OFFSET_SIZE)
            if self.is_split:
                base: int | None = HEADER_SIZES[width]
            else:
                root = self.dies.die(self.dies.unit_value(die, DIE_OFFSET) | die.key & FLAGS)
                base = root.number(constants.DW_AT_loclists_base) if root is not None else None
            offset = None if base is None else self.lists.offset_of(value, base, width)
        elif kind != kernel.NUMBER:
            return None
        return None if offset is None else self.lists.at(unit, offset, vaddr)

    def list_unit(self, die: Die) -> ListUnit:
        """Return what the lists of the unit of a DIE depend on."""
        value = self.dies.unit_value
        return ListUnit(value(die, VERSION), value(die, ADDRESS_SIZE), value(die, LOW), value(die, ADDR_BASE))

    # calls

    def call_site(self, function: int, return_vaddr: int) -> Die | None:
        """Return the call in a function, or in what is inlined into it, that returns to a vaddr."""
        sites = self._sites_of(function)
        return sites.get(return_vaddr)

    def _sites_of(self, function: int) -> dict[int, Die]:
        if function not in self._call_sites:
            sites: dict[int, Die] = {}
            for die in self.calls(function):
                returns = address_of(die, constants.DW_AT_call_return_pc)
                if returns is None and die.tag == constants.DW_TAG_GNU_call_site:
                    returns = address_of(die, constants.DW_AT_low_pc)
                if returns is not None and not is_tail_call(die):
                    sites.setdefault(returns, die)
            self._call_sites[function] = sites
        return self._call_sites[function]

    def definition(self, key: int) -> int | None:
        """Return the DIE with the code of a function, by the DIE that a call refers to; None if there is not one."""
        if key not in self._definitions:
            self._definitions[key] = self._find_definition(key)
        return self._definitions[key]

    def _find_definition(self, key: int) -> int | None:
        die = self.dies.die(key)
        if die is None or constants.DW_AT_low_pc in die.attributes:
            return None if die is None else key
        unit = self.dies.unit_value(die, OFFSET)
        matches = {
            offset
            for offset in self.dies.functions_of(unit)[2]
            if (each := self.dies.die(offset)) is not None and each.reference(constants.DW_AT_abstract_origin) == key
        }
        return matches.pop() if len(matches) == 1 else None

    def calls(self, function: int) -> list[Die]:
        """Return the call sites of a function and of what is inlined into it."""
        if function not in self._calls:
            offsets = Column("Q")
            self.dies.kernel.calls(function, offsets)
            read = (self.dies.die(offset) for offset in islice(offsets.numbers(), MOST_CALLS))
            self._calls[function] = [die for die in read if die is not None]
        return self._calls[function]

    def parameters(self, site: Die) -> list[Die]:
        """Return the parameters of a call."""
        if site.key not in self._parameters:
            read = (self.dies.die(key) for key, tag in self.dies.below(site) if tag in PARAMETER_TAGS)
            self._parameters[site.key] = [die for die in islice(read, MOST_PARAMETERS) if die is not None]
        return self._parameters[site.key]


def is_tail_call(site: Die) -> bool:
    """Return True for the call site of a jump to a function."""
    return constants.DW_AT_call_tail_call in site.attributes or constants.DW_AT_GNU_tail_call in site.attributes


def address_of(die: Die, name: int) -> int | None:
    """Return an attribute that is an address."""
    kind, value, _ = die.attributes.get(name, NO_VALUE)
    return value if kind in (kernel.NUMBER, kernel.ADDRESS) else None
