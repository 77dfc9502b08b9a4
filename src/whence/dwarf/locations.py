"""Location lists: .debug_loc of DWARF 2 to 4 (section 2.6.2 of version 4), .debug_loclists of 5 (7.7.3).

Only their expressions are read, not the addresses from where to where they are true. Lists of split units (.dwo) are
not read.
"""

from __future__ import annotations

from itertools import islice

from whence.dwarf.kernels import constants
from whence.errors import DwarfError, ElfError
from whence.window import Window

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator

    from whence.elf import ElfFile

MOST_ENTRIES = 1 << 12  # of a list
LEB128_MAX = 10  # bytes of a number
LEB128_BITS = 7
LEB128_MORE = 1 << LEB128_BITS
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
LISTS_VERSION = 5  # from this version on lists are in .debug_loclists


class LocationLists:
    """The location lists of a file. A section that is not there, or is damaged, has none."""

    def __init__(self, elf: ElfFile) -> None:
        self._elf = elf
        self._sections: dict[str, Window] = {}

    def expressions(self, version: int, address_size: int, offset: int) -> list[bytes]:
        """The expressions of the list at an offset of the section, in order; none of a list that is cut off."""
        try:
            if version >= LISTS_VERSION:
                found = _loclists(self._section(".debug_loclists"), offset, address_size)
            else:
                found = _loc(self._section(".debug_loc"), offset, address_size)
            return list(islice(found, MOST_ENTRIES))
        except (DwarfError, ElfError):
            return []

    def offset_of(self, index: int, base: int, width: int) -> int | None:
        """Where the list of a number begins, by the offsets of `width` bytes at `base`; None where there is none."""
        try:
            return base + _fixed(self._section(".debug_loclists"), base + index * width, width)
        except (DwarfError, ElfError):
            return None

    def _section(self, name: str) -> Window:
        found = self._sections.get(name)
        if found is None:
            data = self._elf.content(name) if self._elf.section(name) is not None else b""
            found = self._sections[name] = Window(data, name, self._elf.order, DwarfError)
        return found


def _loclists(window: Window, at: int, address_size: int) -> Iterator[bytes]:
    while (kind := window.u8(at)) != constants.DW_LLE_end_of_list:
        at += 1
        if kind not in ENTRIES:
            raise DwarfError(window.name, at - 1, f"the kind of an entry is {kind:#x}")
        operands, located = ENTRIES[kind]
        for operand in operands:
            at = at + address_size if operand == "A" else _uleb(window, at)[1]
        if located:
            size, at = _uleb(window, at)
            yield _bytes(window, at, size)
            at += size


def _loc(window: Window, at: int, address_size: int) -> Iterator[bytes]:
    highest = (1 << 8 * address_size) - 1  # begins an entry that chooses a base
    while True:
        start, end = _fixed(window, at, address_size), _fixed(window, at + address_size, address_size)
        at += 2 * address_size
        if start == end == 0:
            return
        if start == highest:
            continue
        size = window.u16(at)
        yield _bytes(window, at + 2, size)
        at += 2 + size


def _bytes(window: Window, at: int, size: int) -> bytes:
    return bytes(window.raw(at, size))


def _fixed(window: Window, at: int, size: int) -> int:
    return int.from_bytes(_bytes(window, at, size), window.order)


def _uleb(window: Window, at: int) -> tuple[int, int]:
    """A number as LEB128, and where it ends."""
    value = 0
    for index in range(LEB128_MAX):
        byte = window.u8(at + index)
        value |= (byte & ~LEB128_MORE) << LEB128_BITS * index
        if not byte & LEB128_MORE:
            return value, at + index + 1
    raise DwarfError(window.name, at, "a number has at most 10 bytes")
