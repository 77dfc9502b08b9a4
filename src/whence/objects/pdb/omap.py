"""Addresses of a program that was rearranged after linking, as Microsoft's tools did with system files (OMAP).

A PDB file describes such a program as it was linked. The stream OMAP_FROM_SOURCE says where its code is now: rows of
two RVAs, before and after, in order of the first. A row applies up to the next one; code whose RVA after is 0 was
removed. Section numbers of symbols refer to the section headers before, which have a stream of their own.
"""

from __future__ import annotations

import sys
from array import array
from bisect import bisect_right
from operator import le

from whence.ranges.moved import Pieces

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

ROW = 8  # bytes
TOP = 1 << 32


class AddressMap:
    """The positions of code before and after a rearrangement."""

    def __init__(self, content: memoryview | bytes) -> None:
        """Read OMAP_FROM_SOURCE. Rows out of order are sorted; of rows with the same RVA the last one counts."""
        numbers = array("I", bytes(content[: len(content) // ROW * ROW]))
        if sys.byteorder == "big":
            numbers.byteswap()
        before, after = numbers[::2], numbers[1::2]
        order: Sequence[int] = range(len(before))
        if not all(map(le, before, before[1:])):
            order = sorted(order, key=before.__getitem__)
        self.start, self.end, self.target = array("Q"), array("Q"), array("Q")
        for index, row in enumerate(order):
            end = before[order[index + 1]] if index + 1 < len(order) else TOP
            if after[row] and end > before[row]:
                self.start.append(before[row])
                self.end.append(end)
                self.target.append(after[row])
        self._by_target = array("I", sorted(range(len(self.target)), key=self.target.__getitem__))
        self._targets = array("Q", map(self.target.__getitem__, self._by_target))

    def __len__(self) -> int:
        return len(self.start)

    def after(self, rva: int) -> tuple[int, int]:
        """Return where the code at an RVA is now, and how many bytes follow together; (0, 0) if it was removed."""
        index = bisect_right(self.start, rva) - 1
        if index < 0 or rva >= self.end[index]:
            return 0, 0
        return self.target[index] + rva - self.start[index], self.end[index] - rva

    def before(self, rva: int) -> int | None:
        """Return where the code that is now at an RVA was; None if it is new."""
        index = bisect_right(self._targets, rva) - 1
        if index < 0:
            return None
        row = self._by_target[index]
        before = self.start[row] + rva - self.target[row]
        return before if before < self.end[row] else None

    def moved(self, start: int, end: int) -> Iterator[tuple[int, int]]:
        """Yield where the parts of code at RVAs [start, end) are now, as [start, end)."""
        index = max(0, bisect_right(self.start, start) - 1)
        while index < len(self.start) and self.start[index] < end:
            low, high = max(start, self.start[index]), min(end, self.end[index])
            if low < high:
                distance = self.target[index] - self.start[index]
                yield low + distance, high + distance
            index += 1

    def pieces(self, base: int) -> Pieces:
        """Return the pieces of code, as vaddrs with an image base."""
        columns = (self.start, self.end, self.target)
        return Pieces(*(array("Q", [rva + base for rva in column]) for column in columns))
