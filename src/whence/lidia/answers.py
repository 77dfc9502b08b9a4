"""The answers to many addresses, in columns."""

from __future__ import annotations

from array import array
from itertools import pairwise, repeat
from typing import TYPE_CHECKING, overload

from whence.lidia.layout import NAMES_ALLOWANCE, NAMES_TIMES, too_many_names
from whence.model import Frame, Source

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from whence.lidia.kernels.lookup import Archive
    from whence.mapped import MappedFile
    from whence.model import Frames

WORDS = tuple("" if source is Source.UNKNOWN else source.word for source in Source)


class Answers:
    """A chain of frames for each address asked, in the order asked.

    The frames of address i are rows [starts[i], starts[i + 1]) of the other columns, innermost first; an address that
    nothing covers has no rows. `place` is the row of the range in the archive; `function` and `file` are offsets into
    its strings (`functions()`, `files()` give the texts); `line`, `inlined` and `source` are as in model.Frame.
    `unknown` counts addresses that nothing covers. `faults` counts answers whose line entries lie outside the line
    tables: they have line 0. A name that lies outside the strings is "".

    An Answers is a sequence of chains: `answers[i]` is a tuple of frames.
    """

    __slots__ = (
        "_archive", "_mapped", "faults", "file", "function", "inlined", "line", "place", "source", "starts", "unknown",
    )  # fmt: skip

    def __init__(
        self, archive: Archive, starts: array[int], place: array[int], function: array[int], file: array[int],
        line: array[int], inlined: array[int], source: array[int], faults: int, unknown: int,
        mapped: MappedFile | None = None,
    ) -> None:  # fmt: skip
        self._archive, self._mapped = archive, mapped
        self.starts, self.place, self.function, self.file = starts, place, function, file
        self.line, self.inlined, self.source, self.faults, self.unknown = line, inlined, source, faults, unknown

    def __repr__(self) -> str:
        return f"<lidia.Answers: {self.frames} frames of {len(self)} addresses, {self.unknown} unknown>"

    def __len__(self) -> int:
        return len(self.starts) - 1

    @property
    def frames(self) -> int:
        """How many frames there are in all."""
        return len(self.place)

    def functions(self) -> list[str]:
        """The function of every frame. LidiaError when names overlap beyond what an archive's size justifies."""
        return self._texts(self.function, True)

    def files(self) -> list[str]:
        """The file of every frame. LidiaError as of `functions`."""
        return self._texts(self.file, False)

    def _texts(self, offsets: array[int], function: bool) -> list[str]:
        size = self._archive.string_size
        texts: list[str] | None = self._archive.texts(offsets, function, NAMES_TIMES * size + NAMES_ALLOWANCE)
        if self._mapped is not None:
            self._mapped.check()
        if texts is None:
            raise too_many_names("strings", "distinct names", size)
        return texts

    def start_lines(self) -> array[int]:
        """The line each frame's function starts on, in the frame's file; 0 where it is not known."""
        out = array("I", bytes(4 * len(self.place)))
        self._archive.starts(self.function, self.file, self.line, out)
        if self._mapped is not None:
            self._mapped.check()
        return out

    @overload
    def __getitem__(self, index: int) -> Frames: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Frames]: ...
    def __getitem__(self, index: int | slice) -> Frames | Sequence[Frames]:
        if isinstance(index, slice):
            return [self[i] for i in range(*index.indices(len(self)))]
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError("there is no such answer")
        low, high = self.starts[index], self.starts[index + 1]
        if low == high:
            return ()
        functions = self._texts(self.function[low:high], True)
        line = self.line[low:high]
        starts = array("I", bytes(4 * len(line)))
        self._archive.starts(self.function[low:high], self.file[low:high], line, starts)
        files = self._texts(self.file[low:high], False)  # last: it checks all that was read
        inlined, sources = map(bool, self.inlined[low:high]), map(_word, self.source[low:high])
        return tuple(map(Frame, functions, files, line, inlined, sources, starts))

    def __iter__(self) -> Iterator[Frames]:
        return iter(self.chains())

    def chains(
        self, *, function: Callable[[str], str] | None = None, file: Callable[[str], str] | None = None
    ) -> list[Frames]:
        """The chain of each address, as a list.

        `function` and `file`, where given, make another text of each function and of each file; each distinct one is
        asked once.
        """
        functions, files = through(function, self.functions()), through(file, self.files())
        known = max(self.source, default=0) < len(WORDS)
        inlined, sources = map(bool, self.inlined), map(WORDS.__getitem__ if known else _word, self.source)
        columns = zip(functions, files, self.line, inlined, sources, self.start_lines())
        rows = list(map(tuple.__new__, repeat(Frame), columns))
        return [tuple(rows[low:high]) for low, high in pairwise(self.starts)]


def through(make: Callable[[str], str] | None, texts: list[str]) -> Iterable[str]:
    """The texts put through a function, each distinct one once."""
    if make is None:
        return texts
    made = {text: make(text) for text in set(texts)}
    return map(made.__getitem__, texts)


def _word(source: int) -> str:
    return WORDS[source] if source < len(WORDS) else ""
