"""Chains of frames in columns: each chain once, each text once.

A profile's addresses are named in columns, from the archive to the file that is written; Frame objects are made only
when they are requested.
"""

from __future__ import annotations

from array import array
from itertools import accumulate, chain, count, pairwise, repeat
from operator import itemgetter

from whence._base.model import SOURCES, Frame, Frames, Source
from whence._base.records import Record, field
from whence.kernels.rows import taken

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Buffer

SOURCE_OF_BYTE = SOURCES + (Source.UNKNOWN,) * (256 - len(SOURCES))
NO_CHAIN = 0  # the chain without frames
COLUMNS = ("function", "file", "line", "start_line", "column", "discriminator", "inlined", "source")
FIELD = {name: itemgetter(Frame._fields.index(name)) for name in COLUMNS}
NUMBER_LIMIT = 1 << 32  # of lines and columns; larger numbers become 0, unknown


def u32_array(numbers: Buffer = b"") -> array[int]:
    """Return a copy of a column of 32-bit numbers."""
    out = array("I")
    out.frombytes(memoryview(numbers).cast("B"))
    return out


def u64_array(numbers: Buffer = b"") -> array[int]:
    """Return a copy of a column of 64-bit numbers."""
    out = array("Q")
    out.frombytes(memoryview(numbers).cast("B"))
    return out


def empty_first() -> array[int]:
    return array("I", (0, 0))


def zero_first() -> array[int]:
    return array("Q", (0,))


class ChainTable(Record):
    """Distinct chains of frames in columns.

    Chain c has the frames in rows [first[c], first[c + 1]), innermost first; chain 0 is empty.

    `function` and `file` are indexes of `functions` and `files`; `source` is an index of whence.SOURCES; the other
    columns are the fields of Frame.

    The outermost function of chain c has the code [span_start[c], span_start[c] + span_size[c]), in vaddrs; 0 and 0 are
    unknown.
    """

    functions: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    first: array[int] = field(default_factory=empty_first)
    function: array[int] = field(default_factory=u32_array)
    file: array[int] = field(default_factory=u32_array)
    line: array[int] = field(default_factory=u32_array)
    start_line: array[int] = field(default_factory=u32_array)
    column: array[int] = field(default_factory=u32_array)
    discriminator: array[int] = field(default_factory=u32_array)
    inlined: bytearray = field(default_factory=bytearray)
    source: bytearray = field(default_factory=bytearray)
    span_start: array[int] = field(default_factory=zero_first)
    span_size: array[int] = field(default_factory=zero_first)
    _numbers: dict[str, int] = field(default_factory=dict)  # indexes of functions, filled by the first `add`
    _file_numbers: dict[str, int] = field(default_factory=dict)
    _made: list[Frames] = field(default_factory=list)  # chains as objects, as far as requested

    def __len__(self) -> int:
        """Return the number of chains."""
        return len(self.first) - 1

    def __repr__(self) -> str:
        return f"<lidia.ChainTable: {len(self):,} chains of {len(self.line):,} frames>"

    @classmethod
    def of(cls, chains: Iterable[Frames]) -> ChainTable:
        """Return the table with the empty chain, followed by these."""
        out = cls()
        rows = [(), *chains]
        frames = list(chain.from_iterable(rows))
        out.first = array("I", accumulate(map(len, rows), initial=0))
        functions: dict[str, int] = {}
        files: dict[str, int] = {}
        out.function = array("I", [functions.setdefault(frame.function, len(functions)) for frame in frames])
        out.file = array("I", [files.setdefault(frame.file, len(files)) for frame in frames])
        for name in ("line", "start_line", "column", "discriminator"):
            numbers = map(FIELD[name], frames)
            setattr(out, name, array("I", [number if 0 <= number < NUMBER_LIMIT else 0 for number in numbers]))
        out.inlined = bytearray(map(FIELD["inlined"], frames))
        out.source = bytearray(SOURCES.index(frame.source) for frame in frames)
        out.functions, out.files = list(functions), list(files)
        out.span_start, out.span_size = (array("Q", bytes(8 * len(rows))) for _ in range(2))
        return out

    def add(self, more: ChainTable) -> int:
        """Append the chains of another table except the empty one; return what to add to its chain numbers > 0."""
        base, row = len(self) - 1, len(self.line)
        for texts, numbers, new, column, added in (
            (self.functions, self._numbers, more.functions, self.function, more.function),
            (self.files, self._file_numbers, more.files, self.file, more.file),
        ):
            if not numbers:
                numbers.update(zip(texts, count()))
            fresh = [text for text in dict.fromkeys(new) if text not in numbers]
            numbers.update(zip(fresh, count(len(texts))))
            texts += fresh
            renumbered = array("I", map(numbers.__getitem__, new))
            column += u32_array(taken(renumbered, "I", added))
        for name in COLUMNS[2:]:
            column = getattr(self, name)
            column += getattr(more, name)
        self.first += array("I", [row + end for end in more.first[2:]])
        self.span_start += more.span_start[1:]
        self.span_size += more.span_size[1:]
        return base

    def chains(self) -> list[Frames]:
        """Return every chain as a tuple of Frame. Later calls return the same objects."""
        done = len(self._made)
        if done < len(self):
            start = self.first[done]
            columns: list[Iterable[object]] = [
                map(self.functions.__getitem__, self.function[start:]),
                map(self.files.__getitem__, self.file[start:]),
                self.line[start:],
                map(bool, self.inlined[start:]),
                map(SOURCE_OF_BYTE.__getitem__, self.source[start:]),
                self.start_line[start:],
                self.column[start:],
                self.discriminator[start:],
            ]
            frames: Frames = tuple(map(tuple.__new__, repeat(Frame), zip(*columns, strict=True)))
            self._made += [frames[low - start : high - start] for low, high in pairwise(self.first[done:])]
        return self._made
