"""Find names of addresses that are not in an ELF file, in a sorted list."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from operator import itemgetter


class NamedAddresses:
    """Ranges [start, end) with a name each. Of two with the same start the later in the input counts.

    >>> names = NamedAddresses([(0x10, 0x20, "old"), (0x10, 0x18, "new"), (0x30, 0x40, "f")])
    >>> names.lookup(0x17), names.lookup(0x18), names.lookup(0x3f)
    ('new', '', 'f')
    """

    __slots__ = ("_ends", "_names", "_starts")

    def __init__(self, ranges: Iterable[tuple[int, int, str]] = ()) -> None:
        last = {start: (start, end, name) for start, end, name in ranges}
        rows = sorted(last.values(), key=itemgetter(0))
        self._starts: Sequence[int] = array("Q", [row[0] for row in rows])
        self._ends = array("Q", [row[1] for row in rows])
        self._names = [row[2] for row in rows]

    def __repr__(self) -> str:
        return f"<{type(self).__name__}: {len(self):,}>"

    def __len__(self) -> int:
        return len(self._starts)

    def lookup(self, address: int) -> str:
        """Return the name of the range with the address, "" without one.

        Ranges overlap if code was replaced: the range with the nearest start is assumed to be the newest.
        """
        span = self.span(address)
        return "" if span is None else span[2]

    def span(self, address: int) -> tuple[int, int, str] | None:
        """Return start, end and name of the range with the address, None without one."""
        index = bisect_right(self._starts, address)
        if not index or address >= self._ends[index - 1]:
            return None
        return self._starts[index - 1], self._ends[index - 1], self._names[index - 1]
