"""A .debug_aranges section."""

from __future__ import annotations

from collections.abc import Sequence

from tests.forge.dwarf import Debug
from tests.forge.elf import Section


def aranges(debug: Debug, units: Sequence[tuple[int, int, int]]) -> Section:
    """A .debug_aranges with a set of one range for each (unit's offset, start, length)."""
    table = b""
    for offset, start, length in units:
        head = debug.number(2, 2) + debug.offset(offset) + bytes([debug.address_size, 0])
        head += bytes(-(len(head) + (12 if debug.wide else 4)) % (2 * debug.address_size))
        words = (start, length, 0, 0)
        table += debug.length(head + b"".join(debug.number(word, debug.address_size) for word in words))
    return Section(".debug_aranges", table)
