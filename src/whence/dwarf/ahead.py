"""Decompression of debug info ahead of a query, while the modules that read it are imported.

Few vaddrs need few units, which .debug_aranges names: .debug_info is decompressed up to these units, and its reader
continues (whence.dwarf.streaming.InfoPrefix). If units refer to DIEs of others, as after link-time optimization, the
names may be anywhere, so more of it is decompressed.
"""

from __future__ import annotations

from _thread import start_new_thread
from array import array
from contextlib import suppress

from whence._base.errors import WhenceError
from whence.dwarf.kernels import units
from whence.dwarf.kernels.abbrevs import refs_stay_in_units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

    from whence.objects.elf.compress import SectionStream
    from whence.objects.interface import ObjectFile

FEW = 64  # vaddrs that are searched for in .debug_aranges, one by one
TABLES = 64  # tables of .debug_abbrev that are checked: units that refer to others do so in most of them
FIRST = 1 << 20  # bytes of .debug_info that are decompressed before the needed ones are known
FIRST_LINES = FIRST // 4
MOST = 32 << 20  # bytes of .debug_info that are decompressed if units refer to others


def decompress_ahead(elf: ObjectFile, vaddrs: Sequence[int] = ()) -> None:
    """Start to decompress debug info on other threads, for a query of `vaddrs`; empty if they are not known yet."""
    if not 0 < len(vaddrs) <= FEW:
        elf.decompress_ahead(MOST, MOST)
        return
    info = elf.decompress_ahead(FIRST, FIRST_LINES)
    if info is not None:
        with suppress(RuntimeError):  # the system refuses a thread
            start_new_thread(_decompress_units, (elf, info, array("Q", vaddrs)))


def _decompress_units(elf: ObjectFile, info: SectionStream, vaddrs: array[int]) -> None:
    """Decompress .debug_info up to the last unit that .debug_aranges names for the vaddrs.

    Errors are raised to the reader instead. The file may be closed meanwhile.
    """
    with suppress(WhenceError, OSError, MemoryError):
        offsets, _ = listed_units(elf.content(".debug_aranges"), elf.order, vaddrs)
        end = offsets[-1] if offsets else info.size
        if not refs_stay_in_units(elf.content(".debug_abbrev"), TABLES):
            end = max(end, MOST)
        info.wait(min(end, info.size))


def listed_units(aranges: memoryview, order: str, vaddrs: array[int]) -> tuple[list[int], int]:
    """Return the offsets of the units that .debug_aranges names for the vaddrs, and how many units it lists.

    The offsets are in order, in .debug_info. ([], 0) if a vaddr is not listed.
    """

    offsets = array("Q", bytes(8 * len(vaddrs)))  # offset + 1
    listed = max(0, units.find_units(aranges, order == "big", vaddrs, offsets))
    if not listed or 0 in offsets:
        return [], 0
    return sorted({offset - 1 for offset in offsets}), listed
