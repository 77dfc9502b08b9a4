"""Units that are read together: all of a file, or the few that a question needs."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence

from whence.dwarf import units
from whence.dwarf.claims import Claims
from whence.dwarf.kernels import constants
from whence.dwarf.kernels import units as units_kernel
from whence.dwarf.kernels.parts import Parts
from whence.dwarf.units import WIDTH, Units
from whence.elf import ElfFile
from whence.forks import cached_property
from whence.ranges.strings import StringSpace

BATCH = 2 << 20  # bytes of .debug_info a thread takes at once, at most
BATCHES = 4  # for each thread, where there is less: so that they end at about the same time

FEWEST = 1 << 16  # units that any file may have, and one more for each
BYTES = 8  # of the file, as stored; dwz makes the smallest, of some 30 bytes

NOTHING = memoryview(b"")


def most_units(elf: ElfFile | None) -> int:
    """How many units of a file are read: each costs the memory of a row, however small it is."""
    return FEWEST + (elf.size // BYTES if elf is not None else 0)


class UnitSet:
    """Rows of units, with the sections they are read from. A DIE of another unit has no name here."""

    def __init__(
        self,
        parts: Parts,
        alt: Parts,
        strings: StringSpace,
        offsets: Sequence[int] | None = None,
        aranges: memoryview = NOTHING,
        most: int = FEWEST,
    ) -> None:
        """Read the headers and root DIEs: of every unit (but at most so many), or of those at ascending offsets."""
        self.parts, self._aranges = parts, aranges
        if offsets is None:
            rows = array("Q", bytes(8 * WIDTH * units_kernel.count(parts, most)))
            units_kernel.headers(parts, rows, False, most)
        else:
            rows = array("Q", bytes(8 * WIDTH * len(offsets)))
            units_kernel.headers_at(parts, array("Q", offsets), rows)
        units_kernel.roots(parts, alt, rows)
        parts.settle(rows)
        self.units = Units(rows, strings)
        self.whole = offsets is None

    @cached_property
    def claims(self) -> Claims:
        """What the units' root DIEs claim."""
        return Claims(self.parts, self.units, self._aranges)

    def at(self, offsets: Iterable[int]) -> list[int]:
        """The numbers of the units at these offsets, as far as they are in the set."""
        number = {offset: index for index, offset in enumerate(self.units.column(units.OFFSET))}
        return [number[offset] for offset in offsets if offset in number]

    def _size(self, index: int) -> int:
        return self.units.value(index, units.END) - self.units.value(index, units.OFFSET)

    def batches(self, chosen: Iterable[int], jobs: int = 1) -> Iterator[list[list[int]]]:
        """Groups of units that share a line program (nearly always one unit), in bites for `jobs` threads."""
        groups: dict[int, list[int]] = {}
        rows = self.units.rows
        for index in chosen:
            row = index * units.WIDTH
            if rows[row + units.FAULT] or rows[row + units.KIND] in units.TYPE_KINDS:
                continue
            if rows[row + units.HAS] & units.HAS_STMT_LIST and rows[row + units.TAG] != constants.DW_TAG_partial_unit:
                groups.setdefault(rows[row + units.STMT_LIST], []).append(index)
            else:
                groups[-1 - index] = [index]
        sizes = [sum(self._size(index) for index in group) for group in groups.values()]
        enough = min(BATCH, sum(sizes) // (BATCHES * jobs))
        batch: list[list[int]] = []
        size = 0
        for group, more in zip(groups.values(), sizes):
            batch.append(group)
            size += more
            if size >= enough:
                yield batch
                batch, size = [], 0
        if batch:
            yield batch
