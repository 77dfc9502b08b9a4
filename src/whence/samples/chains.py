"""The distinct chains of frames of a profile's locations, in columns, for writers of protocol buffers."""

from __future__ import annotations

from array import array
from collections.abc import Set
from itertools import accumulate, chain, count
from typing import TYPE_CHECKING

from whence._base.records import Record, field
from whence.kernels.rows import SEED, numbered, put, raised, spans, taken
from whence.lidia.chains import empty_first, u32_array, u64_array
from whence.samples.kernels import lines as lines_kernel

if TYPE_CHECKING:
    from whence._base.model import Frames
    from whence.samples.model import NamedLocations, ProfileData

NO_TEXT = 0  # the number of ""
HAS_FILE, HAS_LINE, IS_INLINED = 1, 2, 4  # of a frame
ALL_KINDS = 8  # combinations of these bits


class FunctionColumns(Record):
    """Functions as columns: `name` and `file` are numbers in `texts`."""

    texts: dict[str, int]
    name: array[int]
    file: array[int]
    start_line: array[int]


class Chains(Record):
    """Chains of locations: location i has chain `chain[i]`; chain c has the frames in rows [first[c], first[c + 1]).

    `function` and `file` are numbers in `texts`, which are distinct. Chain 0 has no frames. An unknown line is 0.
    """

    chain: array[int] = field(default_factory=u32_array)
    first: array[int] = field(default_factory=empty_first)
    function: array[int] = field(default_factory=u32_array)
    file: array[int] = field(default_factory=u32_array)
    line: array[int] = field(default_factory=lambda: array("Q"))
    start_line: array[int] = field(default_factory=lambda: array("Q"))
    inlined: bytearray = field(default_factory=bytearray)
    texts: dict[str, int] = field(default_factory=lambda: {"": NO_TEXT})

    @classmethod
    def of(cls, profile: ProfileData, chosen: Set[int] | None = None, skip: int = 0) -> Chains:
        """Return the chains of the chosen locations (None: of all), after `skip` locations without a chain.

        Chains from files are copied as columns; chains of objects are distinguished by identity, as locations share
        them.
        """
        out = cls(array("I", bytes(4 * (skip + len(profile.address)))))
        own = profile.own_frames
        if any(own):
            selected = {row: frames for row, frames in enumerate(own) if frames and (chosen is None or row in chosen)}
            out._add_objects(selected, skip)
        for named in profile.named:
            out._add_table(named, skip)
        return out

    def _add_objects(self, frames: dict[int, Frames], skip: int) -> None:
        """Set the chains of some locations."""
        numbers: dict[int, int] = {}
        base = len(self.first) - 1
        for row, each in frames.items():
            self.chain[row + skip] = base + numbers.setdefault(id(each), len(numbers))
        chains = list({id(each): each for each in frames.values()}.values())
        rows = list(chain.from_iterable(chains))
        self.first += array("I", accumulate(map(len, chains), initial=len(self.line)))[1:]
        self.function += self._numbers([frame.function for frame in rows])
        self.file += self._numbers([frame.file for frame in rows])
        self.line += array("Q", [max(0, frame.line) for frame in rows])
        self.start_line += array("Q", [max(0, frame.start_line) for frame in rows])
        self.inlined += bytes(bool(frame.inlined) for frame in rows)

    def _add_table(self, named: NamedLocations, skip: int) -> None:
        """Set the chains of the locations that a file named."""
        table, base, begin = named.table, len(self.first) - 1, len(self.line)
        of_locations, used = numbered(named.chains, "I")
        starts, rows = (column.numbers() for column in spans(table.first, used.numbers()))
        put(self.chain, "I", raised(named.locations, skip).numbers(), raised(of_locations.numbers(), base))
        self.first += u32_array(raised(starts[1:], begin))
        for texts, column, out in (
            (table.functions, table.function, self.function),
            (table.files, table.file, self.file),
        ):
            of_rows, distinct = numbered(taken(column, "I", rows), "I")
            numbers = self._numbers([texts[number] for number in distinct.numbers()])
            out += u32_array(taken(numbers, "I", of_rows.numbers()))
        self.line += u64_array(taken(table.line, "I", rows, "Q"))
        self.start_line += u64_array(taken(table.start_line, "I", rows, "Q"))
        self.inlined += memoryview(taken(table.inlined, "B", rows))

    def _numbers(self, texts: list[str]) -> array[int]:
        """Return the number of each text; new texts get the next numbers."""
        numbers = self.texts
        new = [text for text in dict.fromkeys(texts) if text not in numbers]
        numbers.update(zip(new, count(len(numbers))))
        return array("I", map(numbers.__getitem__, texts))

    def lines_in_all(self) -> int:
        """Return the number of lines of all locations."""
        return int(lines_kernel.count(self.chain, self.first))

    def functions(self) -> tuple[memoryview, FunctionColumns]:
        """Return the number of each frame's function, and the functions, in order of their first location."""
        columns = self.chain, self.first, self.function, self.file, self.start_line
        numbers, rows = (column.numbers() for column in lines_kernel.functions_of(*columns, SEED))
        names, files = (u32_array(taken(column, "I", rows)) for column in (self.function, self.file))
        return numbers, FunctionColumns(self.texts, names, files, u64_array(taken(self.start_line, "Q", rows)))

    def lines(self, functions: array[int], numbers: memoryview) -> tuple[memoryview, memoryview, memoryview]:
        """Return the index of each location's first line (one more at the end), and function and number of every line.

        `numbers` is the first result of `functions`; `functions` here is the id of each function in the format.
        """
        own = taken(functions, "Q", numbers).numbers()
        first, of_lines, lines = (
            column.numbers() for column in lines_kernel.of_locations(self.chain, self.first, own, self.line)
        )
        return first, of_lines, lines

    def marks(self, mapping: array[int], bits: bytes, mappings: int) -> bytes:
        """Return, for each mapping, the bits of all frames of its locations.

        bits[k] are the bits of a frame whose HAS_FILE, HAS_LINE and IS_INLINED are k.
        """
        kinds = lines_kernel.kinds(self.file, self.line, self.inlined, HAS_FILE, HAS_LINE, IS_INLINED)
        marked = bytearray(mappings)
        lines_kernel.mark(mapping, self.chain, self.first, bytes(kinds).translate(bits.ljust(256, b"\0")), marked)
        return bytes(marked)
