"""The chains of frames that the locations of a profile share, each once, for the writers of protocol buffers."""

from __future__ import annotations

from array import array
from collections.abc import Sequence, Set
from itertools import accumulate, chain, count
from operator import itemgetter

from whence.model import Frame, Frames
from whence.profiles.kernels import lines as lines_kernel
from whence.records import Record

LINE_OF = itemgetter(Frame._fields.index("line"))


class Chains(Record):
    """Location i has chain `chain[i]`; chain c has `frames` [first[c], first[c + 1])."""

    chain: array[int]
    first: array[int]
    frames: list[Frame]

    @classmethod
    def of(cls, frames: Sequence[Frames], chosen: Set[int] | None = None) -> Chains:
        """The chains of the chosen locations (None: of all); the others have one without frames.

        Chains that are one object are one here: naming finds the same chain for many locations.
        """
        if chosen is not None and len(chosen) < len(frames):
            frames = [one if location in chosen else () for location, one in enumerate(frames)]
        objects = list(map(id, frames))
        distinct = dict(zip(objects, frames, strict=True))
        numbers = dict(zip(distinct, count()))
        first = array("Q", accumulate(map(len, distinct.values()), initial=0))
        return cls(array("I", map(numbers.__getitem__, objects)), first, list(chain.from_iterable(distinct.values())))

    def lines(self, functions: array[int]) -> tuple[memoryview, memoryview, memoryview]:
        """Where each location's lines start (and the last one's end), and the function and number of every line.

        `functions` are those of the frames. A line that is not known is 0.
        """
        numbers = array("Q", [line if line > 0 else 0 for line in map(LINE_OF, self.frames)])
        columns = lines_kernel.of_locations(self.chain, self.first, functions, numbers)
        first, of_lines, lines = (column.numbers() for column in columns)
        return first, of_lines, lines

    def marks(self, mapping: array[int], bits: bytes, mappings: int) -> bytes:
        """For each of so many mappings the bits of all frames that its locations have."""
        marked = bytearray(mappings)
        lines_kernel.mark(mapping, self.chain, self.first, bits, marked)
        return bytes(marked)
