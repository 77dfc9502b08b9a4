"""Unpacking ahead of a question, while what reads debug info is imported: all that it may need, and no more.

Few vaddrs need few units, which .debug_aranges names: of .debug_info what comes before them, and then what their reader
waits for (whence.dwarf.streaming.InfoPrefix). Where units refer to DIEs of others, as after link-time optimization,
names may lie anywhere: unpacking goes on, and the reader waits for no more than has the names.
"""

from __future__ import annotations

from _thread import start_new_thread
from array import array

from whence._base.errors import WhenceError
from whence.dwarf.kernels import units
from whence.dwarf.kernels.abbrevs import refs_stay_in_units

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Sequence

    from whence.objects.elf.compress import Unpacking
    from whence.objects.interface import ObjectFile

FEW = 64  # vaddrs that are looked for in .debug_aranges, one by one
TABLES = 64  # of .debug_abbrev that are looked at: who refers to other units does so in most of them
MOST = 8 << 20  # packed bytes: of a larger .debug_info few addresses need no more than its begin
FIRST = 1 << 20  # bytes of .debug_info that are unpacked before it is known how many are needed


def unpack_ahead(elf: ObjectFile, most: int, vaddrs: Sequence[int]) -> None:
    """Unpack debug info on other threads for a question about these vaddrs (none: nobody knows them yet); not a
    .debug_info of more than `most` bytes, as stored. Does nothing where that has begun."""
    info = begin(elf, most, 0 < len(vaddrs) <= FEW)
    if info is not None:
        limit(elf, info, vaddrs)


def begin(elf: ObjectFile, most: int, few: bool) -> Unpacking | None:
    """The same before the vaddrs are known, but that they are `few`; `limit` follows. Returns the unpacking of
    .debug_info, if that has begun."""
    return elf.unpack_ahead(most, lead=FIRST if few else None)


def limit(elf: ObjectFile, info: Unpacking, vaddrs: Sequence[int]) -> None:
    """Have .debug_info unpacked as far as a question about these vaddrs needs it, at least."""
    if 0 < len(vaddrs) <= FEW:
        wanted = elf, info, array("Q", vaddrs)
        try:
            start_new_thread(_limit, wanted)
        except RuntimeError:  # the system refuses a thread
            _limit(*wanted)
    else:
        info.keep_near(None)


def _limit(elf: ObjectFile, info: Unpacking, vaddrs: array[int]) -> None:
    """Have .debug_info unpacked up to the last unit that .debug_aranges names for these vaddrs; all of it where that
    is not enough."""
    needed = info.size
    try:
        found, _ = listed_units(elf.content(".debug_aranges"), elf.order, vaddrs)
        if found and refs_stay_in_units(elf.content(".debug_abbrev"), TABLES):
            needed = max(found)
    except (WhenceError, OSError, MemoryError):
        pass  # whoever reads them reports it; or the file was closed before the question
    finally:
        info.want(needed)


def listed_units(aranges: memoryview, order: str, vaddrs: array[int]) -> tuple[list[int], int]:
    """The offsets in .debug_info of the units that .debug_aranges names for the vaddrs, in order, and how many units it
    lists; ([], 0) when it does not name one for each."""

    found = array("Q", bytes(8 * len(vaddrs)))  # offset + 1
    listed = max(0, units.find_units(aranges, order == "big", vaddrs, found))
    if not listed or 0 in found:
        return [], 0
    return sorted({offset - 1 for offset in found}), listed
