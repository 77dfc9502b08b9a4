"""Location lists: .debug_loc of DWARF 2 to 4 (section 2.6.2 of version 4), .debug_loclists of 5 (7.7.3).

Only their expressions are read, not the addresses from where to where they are true. Lists of split units (.dwo) are
not read.
"""

from __future__ import annotations

from itertools import islice

from whence._base.errors import DwarfError, ObjectError
from whence._base.window import Cursor
from whence.dwarf.kernels import constants

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from whence.objects.interface import ObjectFile

MOST_ENTRIES = 1 << 12  # of a list
EXPRESSION_SIZE = 2  # bytes of an expression's size before DWARF 5
# the operands before the expression: U is a number as LEB128, A an address; True where an expression follows
ENTRIES = {
    constants.DW_LLE_base_addressx: ("U", False),
    constants.DW_LLE_startx_endx: ("UU", True),
    constants.DW_LLE_startx_length: ("UU", True),
    constants.DW_LLE_offset_pair: ("UU", True),
    constants.DW_LLE_default_location: ("", True),
    constants.DW_LLE_base_address: ("A", False),
    constants.DW_LLE_start_end: ("AA", True),
    constants.DW_LLE_start_length: ("AU", True),
}


class LocationLists:
    """The location lists of a file. A section that is not there, or is damaged, has none."""

    def __init__(self, elf: ObjectFile) -> None:
        self._elf = elf
        self._sections: dict[str, memoryview] = {}

    def expressions(self, version: int, address_size: int, offset: int) -> list[bytes]:
        """The expressions of the list at an offset of the section, in order; none of a list that is cut off."""
        try:
            if version >= constants.DWARF5:
                found = _loclists(self._at(".debug_loclists", offset), address_size)
            else:
                found = _loc(self._at(".debug_loc", offset), address_size)
            return list(islice(found, MOST_ENTRIES))
        except (DwarfError, ObjectError):
            return []

    def offset_of(self, index: int, base: int, width: int) -> int | None:
        """Where the list of a number begins, by the offsets of `width` bytes at `base`; None where there is none."""
        try:
            return base + self._at(".debug_loclists", base + index * width).unsigned(width)
        except (DwarfError, ObjectError):
            return None

    def _at(self, name: str, offset: int) -> Cursor:
        found = self._sections.get(name)
        if found is None:
            found = self._elf.content(name) if self._elf.section(name) is not None else memoryview(b"")
            self._sections[name] = found
        return Cursor(found, name, offset, order=self._elf.order)


def _loclists(cursor: Cursor, address_size: int) -> Iterator[bytes]:
    while (kind := cursor.u8()) != constants.DW_LLE_end_of_list:
        if kind not in ENTRIES:
            raise DwarfError(cursor.part, cursor.at - 1, f"the kind of an entry is {kind:#x}")
        operands, located = ENTRIES[kind]
        for operand in operands:
            if operand == "A":
                cursor.take(address_size)
            else:
                cursor.uleb()
        if located:
            yield cursor.take(cursor.uleb())


def _loc(cursor: Cursor, address_size: int) -> Iterator[bytes]:
    highest = (1 << 8 * address_size) - 1  # begins an entry that chooses a base
    while True:
        start, end = cursor.unsigned(address_size), cursor.unsigned(address_size)
        if start == end == 0:
            return
        if start != highest:
            yield cursor.take(cursor.unsigned(EXPRESSION_SIZE))
