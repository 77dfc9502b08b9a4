"""Results of reading archives: the frames of many addresses as a table, and stored ranges."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from importlib import import_module

from whence._base.model import Frame, Frames, Source
from whence._base.records import NamedTuple
from whence.kernels.rows import numbered, taken
from whence.lidia.chains import SOURCE_OF_BYTE, ChainTable, u32_array, u64_array
from whence.lidia.kernels import chains as chains_kernel
from whence.lidia.layout import NAMES_ALLOWANCE, NAMES_TIMES, too_many_names

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from typing import Any, Self, TypedDict, overload

    import pandas
    import pyarrow

    from whence._base.mapped import MappedFile
    from whence.kernels.columns import Column
    from whence.lidia.kernels.queries import Archive, FrameColumns

    class RangeFields(TypedDict, total=False):
        """The fields of a Range as keyword arguments."""

        vaddr: int
        va: int
        length: int
        function: str
        file: str
        call_file: str
        call_line: int
        depth: int
        line_table: Iterable[tuple[int, int]]
        source: Source | str
        start_line: int


SHOWN_ADDRESSES = 50  # in a notebook
SHOWN_ENTRIES = 8  # of a line table, in a repr


class LineTableEntry(NamedTuple):
    """The code of a range is from line `line_number`, starting `offset` bytes after the range's vaddr."""

    offset: int
    line_number: int


class SourceColumns(NamedTuple):
    """The columns and discriminators of a range's line entries, in order, and of its call; 0 is unknown."""

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
    """The addresses [vaddr, end) of one function, or of one inlined call (depth > 0), in one file.

    vaddr: the first address; `va`, the Go package's name, is accepted instead.
    length: in bytes.
    function, file: names; "" if unknown.
    call_file, call_line: where an inlined call is made.
    depth: the number of calls inlined around the range, 0 for a function.
    line_table: LineTableEntry tuples, which may be given as pairs of (offset, line), with offsets in bytes from
        `vaddr`.
    source: the table that named the range.
    start_line: the line of `file` on which the function is declared; 0 if unknown.

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
        """Raise TypeError unless exactly one of `vaddr` and `va` is given, ValueError for an unknown source."""
        if (vaddr is None) == (va is None):
            raise TypeError("a Range has a vaddr: give either vaddr or va")
        start = (va if vaddr is None else vaddr) or 0
        lines = tuple(LineTableEntry(offset, line) for offset, line in line_table)
        return super().__new__(
            cls, start, length, function, file, call_file, call_line, depth, lines, Source(source), start_line
        )

    def __repr__(self) -> str:
        """Return the fields; of a long line table only the first entries."""
        fields = [f"{name}={value!r}" for name, value in zip(self._fields, self, strict=True)]
        if len(self.line_table) > SHOWN_ENTRIES:
            entries = ", ".join(map(repr, self.line_table[:SHOWN_ENTRIES]))
            fields[self._fields.index("line_table")] = f"line_table=({entries}, ... {len(self.line_table):,} entries)"
        return f"Range({', '.join(fields)})"

    @property
    def va(self) -> int:
        """The vaddr, by the Go package's name."""
        return self.vaddr

    @property
    def end(self) -> int:
        """The end of the range: vaddr + length."""
        return self.vaddr + self.length


class FrameTable(Sequence[Frames]):
    """The frames of many addresses, in the order of the addresses.

    As a sequence, the table has an item for each address: `table[i]` is a tuple of Frame, innermost first, () if the
    archive does not cover the address; a slice is a FrameTable. As columns, it has an item for each frame; those of
    address i are [starts[i], starts[i + 1]):

        function, file            str; "" for a name outside the archive's strings
        line, start_line, column, discriminator
                                  unsigned 32-bit numbers, 0 if unknown; the last two need an archive with columns
        inlined                   bool
        source                    members of whence.Source
        range_index               index of the range in the archive: `archive[range_index[k]]`

    Texts are made on first use, each distinct text once; numbers are memoryviews, which numpy uses without a copy.
    Reading texts raises LidiaError if names overlap beyond the limit of the archive's size, or if the archive's file
    has changed. A pickled table does not need the archive.

    >>> from whence import lidia
    >>> builder = lidia.Builder()
    >>> builder.add(vaddr=0x1000, length=4, function="f", file="f.c", line_table=[(0, 3)])
    >>> table = lidia.from_bytes(builder.to_bytes()).lookup_many([0x1001, 0x2000])
    >>> list(table.line), table.function, table[1], table.unknown
    ([3], ['f'], (), 1)
    """

    __slots__ = (
        "_archive", "_faulty", "_file", "_file_offset", "_function", "_function_offset", "_mapped", "_source",
        "_start_line", "column", "discriminator", "inlined", "line", "range_index", "starts",
    )  # fmt: skip

    starts: memoryview
    range_index: memoryview
    line: memoryview
    column: memoryview
    discriminator: memoryview
    inlined: memoryview[bool]
    _faulty: Sequence[int]

    def __init__(self, archive: Archive, columns: FrameColumns, mapped: MappedFile | None) -> None:
        """Wrap the result of a kernel; use `Table.lookup_many` or `Binary.lookup_many`."""
        self._archive, self._mapped = archive, mapped
        self.starts, self.range_index = _read_only(columns.starts), _read_only(columns.range_index)
        self.line, self.inlined = _read_only(columns.line), memoryview(columns.inlined).toreadonly().cast("?")
        unknown = None if len(columns.column) else memoryview(bytes(4 * len(columns.line))).cast("I")
        self.column, self.discriminator = (
            unknown or _read_only(column) for column in (columns.column, columns.discriminator)
        )
        self._function_offset, self._file_offset = _read_only(columns.function), _read_only(columns.file)
        self._source, self._faulty = _read_only(columns.source), _read_only(columns.faulty)
        self._function: list[str] | None = None
        self._file: list[str] | None = None
        self._start_line: memoryview | None = None

    def __repr__(self) -> str:
        return f"<lidia.FrameTable: {self.frames} frames of {len(self)} addresses, {self.unknown} unknown>"

    def _repr_html_(self) -> str:
        """Return the frames of the first addresses as HTML, for notebooks."""
        from whence._base.html import html_table

        rows: list[tuple[object, ...]] = []
        for index in range(min(len(self), SHOWN_ADDRESSES)):
            frames = self[index]
            rows += [(index, frame.function, frame.file, frame.line or "", frame.inlined or "") for frame in frames]
            if not frames:
                rows.append((index, "??", "", "", ""))
        more = f", the first {SHOWN_ADDRESSES} of them below" if len(self) > SHOWN_ADDRESSES else ""
        caption = f"{self.frames:,} frames of {len(self):,} addresses{more}; {self.unknown:,} unknown"
        return html_table(("address", "function", "file", "line", "inlined"), rows, caption)

    def __len__(self) -> int:
        """Return the number of addresses."""
        return len(self.starts) - 1

    @property
    def frames(self) -> int:
        """The number of frames of all addresses."""
        return len(self.line)

    @property
    def unknown(self) -> int:
        """The number of addresses without frames."""
        starts = self.starts
        return sum(map(int.__eq__, starts[:-1], starts[1:]))

    @property
    def faults(self) -> int:
        """The number of addresses with line entries outside the line tables; their line is 0."""
        return len(self._faulty)

    # Columns

    @property
    def function(self) -> list[str]:
        """The function of every frame."""
        if self._function is None:
            self._function = self._texts(self._function_offset, True)
        return self._function

    @property
    def file(self) -> list[str]:
        """The file of every frame."""
        if self._file is None:
            self._file = self._texts(self._file_offset, False)
        return self._file

    @property
    def source(self) -> list[Source]:
        """The table that named every frame."""
        return list(map(SOURCE_OF_BYTE.__getitem__, self._source))

    @property
    def start_line(self) -> memoryview:
        """The line of the frame's file on which its function is declared, for every frame; 0 if unknown."""
        if self._start_line is None:
            self._start_line = self._starts(self._function_offset, self._file_offset, self.line)
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
        """Return a pyarrow Table with a row for each frame.

        The column `row` is the index of the address, from 0; the other columns are the fields of Frame. Texts are
        dictionaries. Raises ImportError without pyarrow, LidiaError as reading texts does.
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
        """Return a pandas DataFrame with a row for each frame; the columns are those of `to_arrow`.

        Raises ImportError without pandas, LidiaError as reading texts does.
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
        """Return the index of the address of each frame."""
        out, starts = array("I"), self.starts
        for row in range(len(self)):
            out.extend([row] * (starts[row + 1] - starts[row]))
        return out

    # Chains

    if TYPE_CHECKING:

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
            raise IndexError(f"address index {index} is out of bounds: there are {len(self)} addresses")
        low, high = self.starts[index], self.starts[index + 1]
        if low == high:
            return ()
        function, file, line = self._function_offset[low:high], self._file_offset[low:high], self.line[low:high]
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
        """Return the chain of each address, a tuple of Frame.

        Args:
            function: called once for each distinct function; returns the text to use instead.
            file: called once for each distinct file; returns the text to use instead.

        Equal chains of consecutive addresses are one object.
        """
        table, which = self.distinct(function=function, file=file)
        return list(map(table.chains().__getitem__, which))

    def distinct(
        self, *, function: Callable[[str], str] | None = None, file: Callable[[str], str] | None = None
    ) -> tuple[ChainTable, memoryview]:
        """Return the chains in columns, and the number of each address's chain; the arguments are those of `chains`."""
        columns = self.starts, self.range_index, self.line, self.column, self.discriminator
        run_of, rows, starts = (column.numbers() for column in chains_kernel.runs(*columns))

        def chosen(numbers: memoryview) -> memoryview:
            return taken(numbers, numbers.format, rows).numbers()  # type: ignore[no-any-return]

        offsets = chosen(self._function_offset), chosen(self._file_offset)
        line = chosen(self.line)
        starting = self._starts(*offsets, line) if self._start_line is None else chosen(self._start_line)
        functions, function_numbers = self._distinct_texts(self._function, offsets[0], rows, True)
        files, file_numbers = self._distinct_texts(self._file, offsets[1], rows, False)
        table = ChainTable(
            _through(function, functions), _through(file, files), u32_array(starts), u32_array(function_numbers),
            u32_array(file_numbers), u32_array(line), u32_array(starting), u32_array(chosen(self.column)),
            u32_array(chosen(self.discriminator)), bytearray(chosen(self.inlined.cast("B"))),
            bytearray(chosen(self._source)),
        )  # fmt: skip
        if self._archive is not None:
            outermost = array("I", [row - 1 for row in starts[2:]])
            spans = self._archive.spans(taken(chosen(self.range_index), "I", outermost).numbers())
            table.span_start, table.span_size = (array("Q", (0,)) + u64_array(column.numbers()) for column in spans)
        return table, run_of

    def _distinct_texts(
        self, names: list[str] | None, offsets: memoryview, rows: memoryview, function: bool
    ) -> tuple[list[str], memoryview]:
        """Return the distinct texts of some rows, whose offsets are given, and the index of each row's text."""
        if names is not None:
            texts, numbers = _numbered(list(map(names.__getitem__, rows)))
            return texts, memoryview(numbers).cast("I")
        of_rows, distinct = numbered(offsets, "Q")
        return self._texts(distinct.numbers(), function), of_rows.numbers()

    def _sources(self, low: int, high: int) -> Iterator[Source]:
        return map(SOURCE_OF_BYTE.__getitem__, self._source[low:high])

    def _slice(self, rows: range) -> FrameTable:
        """Return the table of some of the addresses."""
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
            "range_index", "_function_offset", "_file_offset", "line", "column", "discriminator", "_source",
            "_start_line",
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
    """Unpickle a table, which has all texts and no archive."""
    out = object.__new__(FrameTable)
    out._archive, out._mapped, out._faulty = None, None, faulty
    for name in ("starts", "range_index", "line", "column", "discriminator"):
        setattr(out, name, memoryview(numbers[name]).cast("I"))
    out._start_line = memoryview(numbers["start_line"]).cast("I")
    out.inlined = memoryview(numbers["inlined"]).cast("?")
    out._source = memoryview(numbers["_source"])
    out._function, out._file = _texts_of(*function), _texts_of(*file)
    out._function_offset = out._file_offset = memoryview(bytes(8 * len(out.line))).cast("Q")
    return out


def _numbered(texts: list[str]) -> tuple[list[str], bytes]:
    """Return the distinct texts, and the index of each text among them."""
    numbers: dict[str, int] = {}
    rows = array("I", [numbers.setdefault(text, len(numbers)) for text in texts])
    return list(numbers), rows.tobytes()


def _texts_of(distinct: list[str], rows: bytes) -> list[str]:
    return list(map(distinct.__getitem__, memoryview(rows).cast("I")))


def _through(make: Callable[[str], str] | None, texts: list[str]) -> list[str]:
    """Return the texts after a function was applied, called once for each distinct text."""
    if make is None:
        return texts
    results = {text: make(text) for text in dict.fromkeys(texts)}  # in order, as the function may have side effects
    return list(map(results.__getitem__, texts))


def imported(module: str, what: str, extra: str) -> Any:
    """Import an optional dependency. Raises ImportError that says how to install it."""
    try:
        return import_module(module)
    except ImportError as error:
        message = f"{what} needs {module}, which is not installed: pip install 'whence[{extra}]'"
        raise ImportError(message, name=module) from error
