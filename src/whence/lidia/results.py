"""What the readers of archives return: the frames of many addresses as a table, and ranges as they are stored.

Loaded when one of these is made: the command that renders answers as text needs none of them.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple, overload

from whence._base.model import Frame, Frames, Source
from whence.kernels.rows import numbered, taken
from whence.lidia.chains import SOURCE_OF_BYTE, ChainTable, words
from whence.lidia.kernels import chains as chains_kernel
from whence.lidia.layout import NAMES_ALLOWANCE, NAMES_TIMES, too_many_names

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Self

    import pandas
    import pyarrow

    from whence._base.mapped import MappedFile
    from whence.kernels.columns import Column
    from whence.lidia.kernels.queries import Archive, FrameColumns


class LineTableEntry(NamedTuple):
    """From `offset` bytes after its range's vaddr on, the code comes from line `line_number`."""

    offset: int
    line_number: int


class SourceColumns(NamedTuple):
    """The columns and discriminators of a range's line entries, in their order, and of its call; 0 is unknown."""

    columns: tuple[int, ...]
    discriminators: tuple[int, ...]
    call_column: int
    call_discriminator: int


LineTable = tuple[LineTableEntry, ...]
"""The entries of a range, by offset."""


class _RangeFields(NamedTuple):
    vaddr: int
    length: int
    function: str
    file: str
    call_file: str
    call_line: int
    depth: int
    line_table: LineTable
    source: Source
    start_line: int


class Range(_RangeFields):
    """[vaddr, end) of one function, or of one inlined call (depth > 0), of one file.

    `length` is in bytes. `call_file` and `call_line` say where an inlined call was made. `line_table` holds
    LineTableEntry, and may be given as pairs of (offset, line), offsets in bytes from `vaddr`. `source` is the table
    that named the range. `start_line` is the line of `file` the function starts on, 0 where it is not known. `va` is
    the Go package's name for `vaddr`, and is taken in its place.

    >>> Range(0x1000, 0x20, "main", "main.c", line_table=[(0, 3)]).end == 0x1020
    True
    """

    __slots__ = ()

    def __new__(
        cls,
        vaddr: int | None = None,
        length: int = 0,
        function: str = "",
        file: str = "",
        call_file: str = "",
        call_line: int = 0,
        depth: int = 0,
        line_table: Iterable[tuple[int, int]] = (),
        source: Source | str = Source.GIVEN,
        start_line: int = 0,
        *,
        va: int | None = None,
    ) -> Self:
        """TypeError unless one of `vaddr` and `va` is given; ValueError for a source that there is not."""
        if (vaddr is None) == (va is None):
            raise TypeError("a Range has a vaddr (or va, the same)")
        start = (va if vaddr is None else vaddr) or 0
        lines = tuple(LineTableEntry(offset, line) for offset, line in line_table)
        return super().__new__(
            cls, start, length, function, file, call_file, call_line, depth, lines, Source(source), start_line
        )

    @property
    def va(self) -> int:
        """The vaddr."""
        return self.vaddr

    @property
    def end(self) -> int:
        """The first vaddr behind the range."""
        return self.vaddr + self.length


class FrameTable(Sequence[Frames]):
    """The frames of many addresses, in the order asked.

    It is a sequence with a chain of frames for each address: `table[i]` is a tuple of Frame, innermost first, () where
    nothing covers the address; a slice is a FrameTable. And it is columns with an item for each frame, those of
    address i in [starts[i], starts[i + 1]):

        function, file            texts; "" where a name lies outside the archive's strings
        line, start_line, column, discriminator
                                  numbers of 32 bits, 0 where not known; the last two are known where columns were
                                  asked for
        inlined                   bools
        source                    members of whence.Source
        range_index               which range of the archive it is: `archive[range_index[k]]`

    Texts are made when they are first asked for, each distinct one once; numbers are memoryviews, which numpy takes
    without a copy. Asking for texts raises LidiaError where names overlap beyond what the archive's size justifies, or
    where the archive's file was changed meanwhile. A pickled table, or one sent to another process, needs no archive.

    `unknown` counts the addresses that nothing covers, `faults` those whose line entries lie outside the line tables
    (they have line 0).
    """

    __slots__ = (
        "_archive", "_faulty", "_file", "_file_at", "_function", "_function_at", "_mapped", "_source", "_start_line",
        "column", "discriminator", "inlined", "line", "range_index", "starts",
    )  # fmt: skip

    starts: memoryview
    range_index: memoryview
    line: memoryview
    column: memoryview
    discriminator: memoryview
    inlined: memoryview[bool]
    _faulty: Sequence[int]

    def __init__(self, archive: Archive, columns: FrameColumns, mapped: MappedFile | None) -> None:
        """Made by `Table.lookup_many` and `Binary.lookup_many`."""
        self._archive, self._mapped = archive, mapped
        self.starts, self.range_index = _read_only(columns.starts), _read_only(columns.range_index)
        self.line, self.inlined = _read_only(columns.line), memoryview(columns.inlined).toreadonly().cast("?")
        unknown = None if len(columns.column) else memoryview(bytes(4 * len(columns.line))).cast("I")
        self.column, self.discriminator = (
            unknown or _read_only(column) for column in (columns.column, columns.discriminator)
        )
        self._function_at, self._file_at = _read_only(columns.function), _read_only(columns.file)
        self._source, self._faulty = _read_only(columns.source), _read_only(columns.faulty)
        self._function: list[str] | None = None
        self._file: list[str] | None = None
        self._start_line: memoryview | None = None

    def __repr__(self) -> str:
        return f"<lidia.FrameTable: {self.frames} frames of {len(self)} addresses, {self.unknown} unknown>"

    def __len__(self) -> int:
        """How many addresses were asked for."""
        return len(self.starts) - 1

    @property
    def frames(self) -> int:
        """How many frames there are in all."""
        return len(self.line)

    @property
    def unknown(self) -> int:
        """How many addresses nothing covers."""
        starts = self.starts
        return sum(map(int.__eq__, starts[:-1], starts[1:]))

    @property
    def faults(self) -> int:
        """How many addresses have line entries outside the line tables."""
        return len(self._faulty)

    # Columns

    @property
    def function(self) -> list[str]:
        """The function of every frame."""
        if self._function is None:
            self._function = self._texts(self._function_at, True)
        return self._function

    @property
    def file(self) -> list[str]:
        """The file of every frame."""
        if self._file is None:
            self._file = self._texts(self._file_at, False)
        return self._file

    @property
    def source(self) -> list[Source]:
        """Which table named every frame."""
        return list(map(SOURCE_OF_BYTE.__getitem__, self._source))

    @property
    def start_line(self) -> memoryview:
        """The line that every frame's function starts on, in the frame's file; 0 where it is not known."""
        if self._start_line is None:
            self._start_line = self._starts(self._function_at, self._file_at, self.line)
        return self._start_line

    def _texts(self, offsets: memoryview, function: bool) -> list[str]:
        size = self._archive.string_size
        texts: list[str] | None = self._archive.texts(offsets, function, NAMES_TIMES * size + NAMES_ALLOWANCE)
        if self._mapped is not None:
            self._mapped.check()
        if texts is None:
            raise too_many_names("strings", "distinct names", size)
        return texts

    def _starts(self, function: memoryview, file: memoryview, line: memoryview) -> memoryview:
        out = array("I", bytes(4 * len(line)))
        self._archive.starts(function, file, line, out)
        if self._mapped is not None:
            self._mapped.check()
        return memoryview(out).toreadonly()

    def to_arrow(self) -> pyarrow.Table:
        """A pyarrow Table with a row for each frame.

        `row` says which of the addresses it is of (from 0), then come the columns of Frame; texts are dictionaries.
        ImportError where pyarrow is not installed.
        """
        pa = imported("pyarrow", "FrameTable.to_arrow", "arrow")
        columns = {
            "row": pa.array(self._rows()),
            "function": pa.array(self.function, pa.string()).dictionary_encode(),
            "file": pa.array(self.file, pa.string()).dictionary_encode(),
            "line": pa.array(array("I", self.line)),
            "column": pa.array(array("I", self.column)),
            "discriminator": pa.array(array("I", self.discriminator)),
            "start_line": pa.array(array("I", self.start_line)),
            "inlined": pa.array(self.inlined.tolist(), pa.bool_()),
            "source": pa.array([str(source) for source in self.source], pa.string()).dictionary_encode(),
        }
        return pa.table(columns)

    def to_pandas(self) -> pandas.DataFrame:
        """A pandas DataFrame with a row for each frame; the columns are those of `to_arrow`.

        ImportError where pandas is not installed.
        """
        pd = imported("pandas", "FrameTable.to_pandas", "pandas")
        columns = {
            "row": array("I", self._rows()),
            "function": self.function,
            "file": self.file,
            "line": array("I", self.line),
            "column": array("I", self.column),
            "discriminator": array("I", self.discriminator),
            "start_line": array("I", self.start_line),
            "inlined": self.inlined.tolist(),
            "source": list(map(str, self.source)),
        }
        return pd.DataFrame(columns)

    def _rows(self) -> array[int]:
        """Which address each frame is of."""
        out, starts = array("I"), self.starts
        for row in range(len(self)):
            out.extend([row] * (starts[row + 1] - starts[row]))
        return out

    # Chains

    @overload
    def __getitem__(self, index: int) -> Frames: ...
    @overload
    def __getitem__(self, index: slice) -> FrameTable: ...
    def __getitem__(self, index: int | slice) -> Frames | FrameTable:
        if isinstance(index, slice):
            return self._slice(range(*index.indices(len(self))))
        if index < 0:
            index += len(self)
        if not 0 <= index < len(self):
            raise IndexError(f"no address {index} among {len(self)}")
        low, high = self.starts[index], self.starts[index + 1]
        if low == high:
            return ()
        function, file, line = self._function_at[low:high], self._file_at[low:high], self.line[low:high]
        functions = self._function[low:high] if self._function is not None else self._texts(function, True)
        files = self._file[low:high] if self._file is not None else self._texts(file, False)
        starts = self._start_line[low:high] if self._start_line is not None else self._starts(function, file, line)
        located = self.column[low:high], self.discriminator[low:high]
        inlined, sources = self.inlined[low:high], self._sources(low, high)
        return tuple(map(Frame, functions, files, line, inlined, sources, starts, *located))

    def __iter__(self) -> Iterator[Frames]:
        return iter(self.chains())

    def chains(
        self, *, function: Callable[[str], str] | None = None, file: Callable[[str], str] | None = None
    ) -> list[Frames]:
        """The chain of each address, as a list.

        `function` and `file`, where given, make another text of each function and of each file; each distinct one is
        asked once. Equal chains of addresses asked one behind the other are one object.
        """
        table, which = self.distinct(function=function, file=file)
        return list(map(table.chains().__getitem__, which))

    def distinct(
        self, *, function: Callable[[str], str] | None = None, file: Callable[[str], str] | None = None
    ) -> tuple[ChainTable, memoryview]:
        """The chains as a table of columns, and which of its chains each address has; the options are those of
        `chains`."""
        columns = self.starts, self.range_index, self.line, self.column, self.discriminator
        run_of, kept, starts = (column.numbers() for column in chains_kernel.runs(*columns))

        def of_kept(numbers: memoryview) -> memoryview:
            return taken(numbers, numbers.format, kept).numbers()  # type: ignore[no-any-return]

        offsets = of_kept(self._function_at), of_kept(self._file_at)
        line = of_kept(self.line)
        starting = self._starts(*offsets, line) if self._start_line is None else of_kept(self._start_line)
        functions, function_numbers = self._distinct_texts(self._function, offsets[0], kept, True)
        files, file_numbers = self._distinct_texts(self._file, offsets[1], kept, False)
        table = ChainTable(
            _through(function, functions), _through(file, files), words(starts), words(function_numbers),
            words(file_numbers), words(line), words(starting), words(of_kept(self.column)),
            words(of_kept(self.discriminator)), bytearray(of_kept(self.inlined.cast("B"))),
            bytearray(of_kept(self._source)),
        )  # fmt: skip
        return table, run_of

    def _distinct_texts(
        self, made: list[str] | None, offsets: memoryview, rows: memoryview, function: bool
    ) -> tuple[list[str], memoryview]:
        """The distinct texts of some rows, whose offsets are given, and which of them each row has."""
        if made is not None:
            texts, numbers = _numbered(list(map(made.__getitem__, rows)))
            return texts, memoryview(numbers).cast("I")
        of_rows, distinct = numbered(offsets, "Q")
        return self._texts(distinct.numbers(), function), of_rows.numbers()

    def _sources(self, low: int, high: int) -> Iterator[Source]:
        return map(SOURCE_OF_BYTE.__getitem__, self._source[low:high])

    def _slice(self, rows: range) -> FrameTable:
        """The table of some of the addresses."""
        starts, chosen = array("I", [0]), array("I")
        for row in rows:
            chosen.extend(range(self.starts[row], min(self.starts[row + 1], self.frames)))
            starts.append(len(chosen))
        new = {row: index for index, row in enumerate(rows)}
        out = object.__new__(FrameTable)
        out._archive, out._mapped = self._archive, self._mapped
        out._faulty = [new[row] for row in self._faulty if row in new]
        out.starts = memoryview(starts).toreadonly()
        for name in (
            "range_index", "_function_at", "_file_at", "line", "column", "discriminator", "_source", "_start_line",
        ):  # fmt: skip
            column = getattr(self, name)
            setattr(
                out, name, column and memoryview(array(column.format, map(column.__getitem__, chosen))).toreadonly()
            )
        out.inlined = memoryview(bytes(map(self.inlined.__getitem__, chosen))).cast("?")
        for name in ("_function", "_file"):
            texts = getattr(self, name)
            setattr(out, name, texts and list(map(texts.__getitem__, chosen)))
        return out

    def __eq__(self, other: object) -> bool:
        return list(self) == list(other) if isinstance(other, FrameTable) else NotImplemented

    __hash__ = None  # type: ignore[assignment]

    def __reduce__(self) -> tuple[object, ...]:
        numbers = {
            name: getattr(self, name).tobytes()
            for name in ("starts", "range_index", "line", "column", "discriminator", "start_line", "inlined", "_source")
        }
        return _restored, (numbers, _numbered(self.function), _numbered(self.file), tuple(self._faulty))


def _read_only(column: Column) -> memoryview:
    numbers: memoryview = column.numbers()
    return numbers.toreadonly()


def _restored(
    numbers: dict[str, bytes], function: tuple[list[str], bytes], file: tuple[list[str], bytes], faulty: tuple[int, ...]
) -> FrameTable:
    """A table that was pickled: it has all texts already, and no archive."""
    out = object.__new__(FrameTable)
    out._archive, out._mapped, out._faulty = None, None, faulty
    for name in ("starts", "range_index", "line", "column", "discriminator"):
        setattr(out, name, memoryview(numbers[name]).cast("I"))
    out._start_line = memoryview(numbers["start_line"]).cast("I")
    out.inlined = memoryview(numbers["inlined"]).cast("?")
    out._source = memoryview(numbers["_source"])
    out._function, out._file = _texts_of(*function), _texts_of(*file)
    out._function_at = out._file_at = memoryview(bytes(8 * len(out.line))).cast("Q")
    return out


def _numbered(texts: list[str]) -> tuple[list[str], bytes]:
    """The distinct texts, and which of them each is."""
    numbers: dict[str, int] = {}
    rows = array("I", [numbers.setdefault(text, len(numbers)) for text in texts])
    return list(numbers), rows.tobytes()


def _texts_of(distinct: list[str], rows: bytes) -> list[str]:
    return list(map(distinct.__getitem__, memoryview(rows).cast("I")))


def _through(make: Callable[[str], str] | None, texts: list[str]) -> list[str]:
    """The texts put through a function, each distinct one once."""
    if make is None:
        return texts
    made = {text: make(text) for text in dict.fromkeys(texts)}  # in order: what is made may be noted
    return list(map(made.__getitem__, texts))


def imported(module: str, what: str, extra: str) -> Any:
    """A module that whence does not require."""
    try:
        return import_module(module)
    except ImportError as error:
        message = f"{what} needs {module}, which is not installed: pip install 'whence[{extra}]'"
        raise ImportError(message, name=module) from error
