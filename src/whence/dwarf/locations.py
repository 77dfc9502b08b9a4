"""Location lists: .debug_loc of DWARF 2 to 4 (section 2.6.2 of version 4), .debug_loclists of version 5 (7.7.3).

Only their expressions are read, not their address ranges. Lists of split units (.dwo) are not read.
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
# operands before the expression (U: a ULEB128 number, A: an address), and True if an expression follows
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
    """The location lists of a file. A missing or damaged section has none."""

    def __init__(self, elf: ObjectFile) -> None:
        self._elf = elf
        self._sections: dict[str, memoryview] = {}

    def expressions(self, version: int, address_size: int, offset: int) -> list[bytes]:
        """Return the expressions of the list at an offset, in order; [] for a list that is cut off."""
        try:
            if version >= constants.DWARF5:
                entries = _loclists(self._cursor(".debug_loclists", offset), address_size)
            else:
                entries = _loc(self._cursor(".debug_loc", offset), address_size)
            return list(islice(entries, MOST_ENTRIES))
        except (DwarfError, ObjectError):
            return []

    def offset_of(self, index: int, base: int, width: int) -> int | None:
        """Return the offset of a list by its index in the offsets of `width` bytes at `base`.

        None if the list does not exist.
        """
        try:
            return base + self._cursor(".debug_loclists", base + index * width).unsigned(width)
        except (DwarfError, ObjectError):
            return None

    def _cursor(self, name: str, offset: int) -> Cursor:
        data = self._sections.get(name)
        if data is None:
            data = self._elf.content(name) if self._elf.section(name) is not None else memoryview(b"")
            self._sections[name] = data
        return Cursor(data, name, offset, order=self._elf.order)


def _loclists(cursor: Cursor, address_size: int) -> Iterator[bytes]:
    while (kind := cursor.u8()) != constants.DW_LLE_end_of_list:
        if kind not in ENTRIES:
            raise DwarfError(cursor.part, cursor.offset - 1, f"unknown kind of entry: {kind:#x}")
        operands, located = ENTRIES[kind]
        for operand in operands:
            if operand == "A":
                cursor.take(address_size)
            else:
                cursor.uleb()
        if located:
            yield cursor.take(cursor.uleb())


def _loc(cursor: Cursor, address_size: int) -> Iterator[bytes]:
    highest = (1 << 8 * address_size) - 1  # begins an entry that selects a base
    while True:
        start, end = cursor.unsigned(address_size), cursor.unsigned(address_size)
        if start == end == 0:
            return
        if start != highest:
            yield cursor.take(cursor.unsigned(EXPRESSION_SIZE))
