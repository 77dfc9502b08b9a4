"""Chains of frames as columns: each chain once, each text once, objects only for who asks for them.

What names the addresses of a whole profile takes no objects on the way from the archive to the file it writes.
"""

from __future__ import annotations

from array import array
from itertools import accumulate, chain, count, pairwise, repeat
from operator import itemgetter
from typing import TYPE_CHECKING

from whence._base.model import SOURCES, Frame, Frames, Source
from whence._base.records import Record, field
from whence.kernels import rows

if TYPE_CHECKING:
    from collections.abc import Iterable

    from typing_extensions import Buffer

SOURCE_OF_BYTE = SOURCES + (Source.UNKNOWN,) * (256 - len(SOURCES))
NO_CHAIN = 0  # the chain without frames
COLUMNS = ("function", "file", "line", "start_line", "column", "discriminator", "inlined", "source")
FIELD = {name: itemgetter(Frame._fields.index(name)) for name in COLUMNS}
NUMBER_LIMIT = 1 << 32  # of a line or column; what does not fit is not known


def words(numbers: Buffer) -> array[int]:
    """A column of 32-bit numbers, copied."""
    out = array("I")
    out.frombytes(memoryview(numbers).cast("B"))
    return out


def longs(numbers: Buffer) -> array[int]:
    """A column of 64-bit numbers, copied."""
    out = array("Q")
    out.frombytes(memoryview(numbers).cast("B"))
    return out


def empty_first() -> array[int]:
    return array("I", (0, 0))


def words_column() -> array[int]:
    return array("I")


class ChainTable(Record):
    """Chain c has the frames in rows [first[c], first[c + 1]) of the columns, innermost first. Chain 0 has none.

    `function` and `file` say which of `functions` and `files` a frame has; `source` counts those of whence.SOURCES;
    the other columns are those of Frame.
    """

    functions: list[str] = field(default_factory=list)
    files: list[str] = field(default_factory=list)
    first: array[int] = field(default_factory=empty_first)
    function: array[int] = field(default_factory=words_column)
    file: array[int] = field(default_factory=words_column)
    line: array[int] = field(default_factory=words_column)
    start_line: array[int] = field(default_factory=words_column)
    column: array[int] = field(default_factory=words_column)
    discriminator: array[int] = field(default_factory=words_column)
    inlined: bytearray = field(default_factory=bytearray)
    source: bytearray = field(default_factory=bytearray)
    _numbers: dict[str, int] = field(default_factory=dict)  # of functions, once another table was added
    _file_numbers: dict[str, int] = field(default_factory=dict)
    _made: list[Frames] = field(default_factory=list)  # the chains as objects, as far as they were asked for

    def __len__(self) -> int:
        """How many chains there are."""
        return len(self.first) - 1

    def __repr__(self) -> str:
        return f"<lidia.ChainTable: {len(self):,} chains of {len(self.line):,} frames>"

    @classmethod
    def of(cls, chains: Iterable[Frames]) -> ChainTable:
        """The table that has the chain without frames, and then these."""
        out = cls()
        kept = [(), *chains]
        frames = list(chain.from_iterable(kept))
        out.first = array("I", accumulate(map(len, kept), initial=0))
        functions: dict[str, int] = {}
        files: dict[str, int] = {}
        out.function = array("I", [functions.setdefault(one.function, len(functions)) for one in frames])
        out.file = array("I", [files.setdefault(one.file, len(files)) for one in frames])
        for name in ("line", "start_line", "column", "discriminator"):
            numbers = map(FIELD[name], frames)
            setattr(out, name, array("I", [one if 0 <= one < NUMBER_LIMIT else 0 for one in numbers]))
        out.inlined = bytearray(map(FIELD["inlined"], frames))
        out.source = bytearray(SOURCES.index(one.source) for one in frames)
        out.functions, out.files = list(functions), list(files)
        return out

    def add(self, more: ChainTable) -> int:
        """Append the chains of another table, all but the one without frames: chain c becomes c plus what is returned,
        for c > 0."""
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
            place = array("I", map(numbers.__getitem__, new))
            column += words(rows.taken(place, "I", added))
        for name in COLUMNS[2:]:
            column = getattr(self, name)
            column += getattr(more, name)
        self.first += array("I", [row + end for end in more.first[2:]])
        return base

    def chains(self) -> list[Frames]:
        """Every chain as a tuple of Frame. Those that were made once are the same objects again."""
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
