"""The chains of frames that the locations of a profile have, each once and in columns, for the writers of protocol
buffers."""

from __future__ import annotations

from array import array
from collections.abc import Set
from itertools import accumulate, chain, count
from typing import TYPE_CHECKING

from whence._base.records import Record, field
from whence.kernels.rows import SEED, numbered, put, raised, spans, taken
from whence.lidia.chains import empty_first, longs, words, words_column
from whence.samples.kernels import lines as lines_kernel

if TYPE_CHECKING:
    from whence._base.model import Frames
    from whence.samples.model import NamedLocations, ProfileData

NO_TEXT = 0  # the number of ""
HAS_FILE, HAS_LINE, IS_INLINED = 1, 2, 4  # of a frame
ALL_KINDS = 8  # what those make


class FunctionColumns(Record):
    """Functions as columns: `name` and `file` are numbers of `texts`."""

    texts: dict[str, int]
    name: array[int]
    file: array[int]
    start_line: array[int]


class Chains(Record):
    """Location i has chain `chain[i]`; chain c has the frames in rows [first[c], first[c + 1]) of the columns.

    `function` and `file` count `texts`, of which none is there twice. Chain 0 has no frames. A line that is not known
    is 0.
    """

    chain: array[int] = field(default_factory=words_column)
    first: array[int] = field(default_factory=empty_first)
    function: array[int] = field(default_factory=words_column)
    file: array[int] = field(default_factory=words_column)
    line: array[int] = field(default_factory=lambda: array("Q"))
    start_line: array[int] = field(default_factory=lambda: array("Q"))
    inlined: bytearray = field(default_factory=bytearray)
    texts: dict[str, int] = field(default_factory=lambda: {"": NO_TEXT})

    @classmethod
    def of(cls, profile: ProfileData, chosen: Set[int] | None = None, skip: int = 0) -> Chains:
        """The chains of the chosen locations (None: of all), behind `skip` locations that have none.

        Where files named locations, their chains are taken as columns; those that are objects are numbered by which
        object they are, as many locations have the same one.
        """
        out = cls(array("I", bytes(4 * (skip + len(profile.address)))))
        own = profile.own_frames
        if any(own):
            out._add_objects({at: one for at, one in enumerate(own) if one and (chosen is None or at in chosen)}, skip)
        for named in profile.named:
            out._add_table(named, skip)
        return out

    def _add_objects(self, frames: dict[int, Frames], skip: int) -> None:
        """Give locations these chains."""
        numbers: dict[int, int] = {}
        base = len(self.first) - 1
        for at, one in frames.items():
            self.chain[at + skip] = base + numbers.setdefault(id(one), len(numbers))
        chains = list({id(one): one for one in frames.values()}.values())
        rows = list(chain.from_iterable(chains))
        self.first += array("I", accumulate(map(len, chains), initial=len(self.line)))[1:]
        self.function += self._numbers([one.function for one in rows])
        self.file += self._numbers([one.file for one in rows])
        self.line += array("Q", [max(0, one.line) for one in rows])
        self.start_line += array("Q", [max(0, one.start_line) for one in rows])
        self.inlined += bytes(bool(one.inlined) for one in rows)

    def _add_table(self, named: NamedLocations, skip: int) -> None:
        """Give the locations that a file named the chains it has for them."""
        table, base, begin = named.table, len(self.first) - 1, len(self.line)
        of_locations, used = numbered(named.chains, "I")
        starts, rows = (column.numbers() for column in spans(table.first, used.numbers()))
        put(self.chain, "I", raised(named.locations, skip).numbers(), raised(of_locations.numbers(), base))
        self.first += words(raised(starts[1:], begin))
        for texts, column, out in (
            (table.functions, table.function, self.function),
            (table.files, table.file, self.file),
        ):
            of_rows, distinct = numbered(taken(column, "I", rows), "I")
            place = self._numbers([texts[number] for number in distinct.numbers()])
            out += words(taken(place, "I", of_rows.numbers()))
        self.line += longs(taken(table.line, "I", rows, "Q"))
        self.start_line += longs(taken(table.start_line, "I", rows, "Q"))
        self.inlined += memoryview(taken(table.inlined, "B", rows))

    def _numbers(self, texts: list[str]) -> array[int]:
        """The number of each text; new ones get the next."""
        known = self.texts
        fresh = [text for text in dict.fromkeys(texts) if text not in known]
        known.update(zip(fresh, count(len(known))))
        return array("I", map(known.__getitem__, texts))

    def lines_in_all(self) -> int:
        """How many lines all locations have."""
        return int(lines_kernel.count(self.chain, self.first))

    def functions(self) -> tuple[memoryview, FunctionColumns]:
        """Which function each frame is of, and all of them in the order that the locations come to them."""
        columns = self.chain, self.first, self.function, self.file, self.start_line
        numbers, rows = (column.numbers() for column in lines_kernel.functions_of(*columns, SEED))
        names, files = (words(taken(column, "I", rows)) for column in (self.function, self.file))
        return numbers, FunctionColumns(self.texts, names, files, longs(taken(self.start_line, "Q", rows)))

    def lines(self, functions: array[int], numbers: memoryview) -> tuple[memoryview, memoryview, memoryview]:
        """Where each location's lines start (and the last one's end), and the function and number of every line.

        `numbers` are those that `functions` returned, and here `functions` is what the format calls each of them.
        """
        own = taken(functions, "Q", numbers).numbers()
        first, of_lines, lines = (
            column.numbers() for column in lines_kernel.of_locations(self.chain, self.first, own, self.line)
        )
        return first, of_lines, lines

    def marks(self, mapping: array[int], bits: bytes, mappings: int) -> bytes:
        """For each of so many mappings the bits of all frames that its locations have; bits[k] are those of a frame
        that HAS_FILE, HAS_LINE and IS_INLINED make k."""
        kinds = lines_kernel.kinds(self.file, self.line, self.inlined, HAS_FILE, HAS_LINE, IS_INLINED)
        marked = bytearray(mappings)
        lines_kernel.mark(mapping, self.chain, self.first, bytes(kinds).translate(bits.ljust(256, b"\0")), marked)
        return bytes(marked)
