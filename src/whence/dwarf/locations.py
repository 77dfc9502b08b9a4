"""Location lists: .debug_loc of DWARF 2 to 4 (section 2.6.2 of version 4), .debug_loclists of version 5 (7.7.3).

Of split units, .debug_loclists.dwo and GNU's .debug_loc.dwo of version 4 (DebugFission). A damaged list ends at the
damage.
"""

from __future__ import annotations

from itertools import islice
from typing import NamedTuple

from whence._base.errors import DwarfError, ObjectError
from whence._base.window import Cursor
from whence.dwarf.kernels import constants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from whence.objects.interface import ObjectFile

MOST_ENTRIES = 1 << 12  # of a list
EXPRESSION_SIZE = 2  # bytes of an expression's size before DWARF 5
LENGTH_SIZE = 4  # bytes of a length in .debug_loc.dwo
# operands before the expression (U: a ULEB128 number, X: an index of an address, A: an address), and True if an
# expression follows
ENTRIES = {
    constants.DW_LLE_base_addressx: ("X", False),
    constants.DW_LLE_startx_endx: ("XX", True),
    constants.DW_LLE_startx_length: ("XU", True),
    constants.DW_LLE_offset_pair: ("UU", True),
    constants.DW_LLE_default_location: ("", True),
    constants.DW_LLE_base_address: ("A", False),
    constants.DW_LLE_start_end: ("AA", True),
    constants.DW_LLE_start_length: ("AU", True),
}
WITH_BASE = (constants.DW_LLE_base_addressx, constants.DW_LLE_base_address)
WITH_LENGTH = (constants.DW_LLE_startx_length, constants.DW_LLE_start_length)


class ListUnit(NamedTuple):
    """The context of a unit's lists: its version, base address, and its addresses in .debug_addr."""

    version: int
    address_size: int
    low: int = 0
    address_base: int = 0


class Location(NamedTuple):
    """An expression for the vaddrs [start, end); start and end are None for the default location."""

    start: int | None
    end: int | None
    expression: bytes


class LocationLists:
    """The location lists of a file. A missing or damaged section has none.

    With `suffix`, those of a split file, whose addresses are in the .debug_addr of `skeletons`.
    """

    def __init__(self, elf: ObjectFile, skeletons: ObjectFile | None = None, suffix: str = "") -> None:
        self._elf, self._skeletons, self._suffix = elf, skeletons or elf, suffix
        self._sections: dict[str, memoryview] = {}
        self.entries_read = 0

    def expressions(self, version: int, address_size: int, offset: int) -> list[bytes]:
        """Return the expressions of the list at an offset, in order; [] for a list that is cut off."""
        try:
            return [entry.expression for entry in self._entries(ListUnit(version, address_size), offset)]
        except (DwarfError, ObjectError):
            return []

    def at(self, unit: ListUnit, offset: int, vaddr: int) -> bytes | None:
        """Return the expression for a vaddr of the list at an offset; None if the list has none."""
        default = None
        try:
            for entry in self._entries(unit, offset):
                self.entries_read += 1
                if entry.start is None or entry.end is None:
                    default = entry.expression
                elif entry.start <= vaddr < entry.end:
                    return entry.expression
        except (DwarfError, ObjectError):
            pass
        return default

    def _entries(self, unit: ListUnit, offset: int) -> Iterator[Location]:
        """Yield the entries of a list. Raises DwarfError, ObjectError."""
        if unit.version >= constants.DWARF5:
            cursor = self._cursor(f".debug_loclists{self._suffix}", offset)
            entries = _loclists(cursor, unit, lambda index: self._address(unit, index))
        elif self._suffix:
            cursor = self._cursor(f".debug_loc{self._suffix}", offset)
            entries = _loc_of_split(cursor, lambda index: self._address(unit, index))
        else:
            entries = _loc(self._cursor(".debug_loc", offset), unit)
        return islice(entries, MOST_ENTRIES)

    def offset_of(self, index: int, base: int, width: int) -> int | None:
        """Return the offset of a list by its index in the offsets of `width` bytes at `base`.

        None if the list does not exist.
        """
        try:
            name = f".debug_loclists{self._suffix}"
            return base + self._cursor(name, base + index * width).unsigned(width)
        except (DwarfError, ObjectError):
            return None

    def address(self, unit: ListUnit, index: int) -> int | None:
        """Return an address of a unit by its index in .debug_addr; None if it does not exist."""
        try:
            return self._address(unit, index)
        except (DwarfError, ObjectError):
            return None

    def _address(self, unit: ListUnit, index: int) -> int:
        size = unit.address_size
        return self._cursor(".debug_addr", unit.address_base + index * size, self._skeletons).unsigned(size)

    def _cursor(self, name: str, offset: int, elf: ObjectFile | None = None) -> Cursor:
        data = self._sections.get(name)
        if data is None:
            elf = elf or self._elf
            data = elf.content(name) if elf.section(name) is not None else memoryview(b"")
            self._sections[name] = data
        return Cursor(data, name, offset, order=self._elf.order)


def _loclists(cursor: Cursor, unit: ListUnit, address: Callable[[int], int]) -> Iterator[Location]:
    base = unit.low
    while (kind := cursor.u8()) != constants.DW_LLE_end_of_list:
        if kind not in ENTRIES:
            raise DwarfError(cursor.part, cursor.offset - 1, f"unknown kind of entry: {kind:#x}")
        forms, located = ENTRIES[kind]
        operands = [cursor.unsigned(unit.address_size) if form == "A" else cursor.uleb() for form in forms]
        expression = cursor.take(cursor.uleb()) if located else b""
        if forms and "X" in forms:
            operands = [address(value) if form == "X" else value for form, value in zip(forms, operands, strict=True)]
        if kind in WITH_BASE:
            (base,) = operands
        elif kind == constants.DW_LLE_default_location:
            yield Location(None, None, expression)
        elif kind == constants.DW_LLE_offset_pair:
            yield Location(base + operands[0], base + operands[1], expression)
        elif kind in WITH_LENGTH:
            yield Location(operands[0], operands[0] + operands[1], expression)
        else:
            yield Location(operands[0], operands[1], expression)


def _loc(cursor: Cursor, unit: ListUnit) -> Iterator[Location]:
    size, base = unit.address_size, unit.low
    highest = (1 << 8 * size) - 1  # begins an entry that selects a base
    while True:
        start, end = cursor.unsigned(size), cursor.unsigned(size)
        if start == end == 0:
            return
        if start == highest:
            base = end
        else:
            expression = cursor.take(cursor.unsigned(EXPRESSION_SIZE))
            yield Location(base + start & highest, base + end & highest, expression)


def _loc_of_split(cursor: Cursor, address: Callable[[int], int]) -> Iterator[Location]:
    while (kind := cursor.u8()) != constants.DW_LLE_end_of_list:
        if kind == constants.DW_LLE_base_addressx:
            cursor.uleb()
            continue
        if kind not in (constants.DW_LLE_startx_endx, constants.DW_LLE_startx_length):
            raise DwarfError(cursor.part, cursor.offset - 1, f"unknown kind of entry: {kind:#x}")
        start = address(cursor.uleb())
        if kind == constants.DW_LLE_startx_length:
            end = start + cursor.unsigned(LENGTH_SIZE)
        else:
            end = address(cursor.uleb())
        yield Location(start, end, cursor.take(cursor.unsigned(EXPRESSION_SIZE)))
