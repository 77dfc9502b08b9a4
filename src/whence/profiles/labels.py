"""Labels of many samples as columns: sets that samples share, and a time that each has of its own."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, MutableSequence
from typing import overload

from whence.profiles.model import Label

TIME = "time"  # the key of a sample's time, in nanoseconds
Labels = tuple[Label, ...]


class SharedLabels(MutableSequence[Labels]):
    """Sample i has the labels sets[of[i]], and behind them its time times[i], unless that is 0. Tuples are made when
    they are asked for."""

    __slots__ = ("of", "sets", "times")

    def __init__(self, sets: list[Labels], of: array[int], times: array[int]) -> None:
        self.sets, self.of, self.times = sets, of, times

    def __len__(self) -> int:
        return len(self.of)

    @overload
    def __getitem__(self, index: int) -> Labels: ...
    @overload
    def __getitem__(self, index: slice) -> SharedLabels: ...
    def __getitem__(self, index: int | slice) -> Labels | SharedLabels:
        if isinstance(index, slice):
            return SharedLabels(self.sets, self.of[index], self.times[index])
        time = self.times[index]
        found = self.sets[self.of[index]]
        return (*found, Label(TIME, number=time, unit="nanoseconds")) if time else found

    @overload
    def __setitem__(self, index: int, value: Labels) -> None: ...
    @overload
    def __setitem__(self, index: slice, value: Iterable[Labels]) -> None: ...
    def __setitem__(self, index: int | slice, value: Labels | Iterable[Labels]) -> None:
        if isinstance(index, slice):
            raise TypeError("labels are set one after another")
        self.sets.append(tuple(value))  # type: ignore[arg-type]
        self.of[index], self.times[index] = len(self.sets) - 1, 0

    def __delitem__(self, index: int | slice) -> None:
        del self.of[index], self.times[index]

    def insert(self, index: int, value: Labels) -> None:
        self.sets.append(value)
        self.of.insert(index, len(self.sets) - 1)
        self.times.insert(index, 0)

    def chosen(self, rows: Iterable[int]) -> SharedLabels:
        """Those of some samples."""
        rows = list(rows)
        return SharedLabels(
            self.sets, array("I", map(self.of.__getitem__, rows)), array("Q", map(self.times.__getitem__, rows))
        )
