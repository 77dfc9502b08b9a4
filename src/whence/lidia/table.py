"""An open archive: lookups, iteration, metadata.

Opening reads the header, the first bytes of the strings and the footer, so its cost does not depend on the size. What
lookups do not need is imported on demand, so that one address is answered fast.
"""

from __future__ import annotations

import builtins
import io
import os
import sys
from _operator import index as integer
from array import array

from whence._base.budget import Budget
from whence._base.closing import Closing
from whence._base.errors import LidiaError, WhenceError
from whence._base.files import open_regular
from whence._base.mapped import MappedFile, checked
from whence._base.model import SOURCES, Frame
from whence._base.source import Source
from whence.lidia.compressed import codec_of, decompress
from whence.lidia.kernels.queries import (
    CALL_FILE,
    FILE,
    FUNCTION,
    LINE_COUNT,
    LINE_FIELDS,
    LINE_INDEX,
    LINES_OUTSIDE,
    Archive,
    FrameColumns,
    Texts,
)
from whence.lidia.kernels.render import Replies
from whence.lidia.layout import (
    HEADER_SIZE,
    LENGTH_PREFIXED_START,
    LINES_ALLOWANCE,
    LINES_TIMES,
    NAMES_ALLOWANCE,
    NAMES_TIMES,
    RANGE_TABLE,
    UNWIND,
    ArchiveHeader,
    ArchiveSections,
    ExtraSection,
)
from whence.lidia.results import FrameTable, LineTableEntry, Range, SourceColumns

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from typing import overload

    from typing_extensions import Buffer

    from whence._base.model import Frames
    from whence.lidia.kernels.inspect import StoredRows
    from whence.lidia.layout import ArchiveSection
    from whence.lidia.unwind import UnwindTables
    from whence.lidia.verify import ArchiveInfo


class Table(Closing):
    """An open archive: looks up vaddrs, and is a sequence of its ranges in order of (vaddr, depth).

    Use `lidia.open` or `lidia.from_bytes` to make one. A context manager; leaving it, or `close`, unmaps the file.
    Indexing and iteration return Range objects, slices lists of them.

    path: the path of the file; "" in memory.
    header: the four sections, with offsets and sizes in bytes.
    encoding: how strings are delimited, "length" or "nul".
    about: the origin of the archive, an Extra.

    Lookups are safe from many threads at a time. whence replaces archives and never rewrites them; if another program
    truncates or overwrites the file, later calls raise LidiaError. An archive opened with `copy=True`, or from bytes,
    does not depend on a file.

    >>> from whence import lidia
    >>> builder = lidia.Builder()
    >>> builder.add(vaddr=0x1000, length=0x20, function="main", file="main.c", line_table=[(0, 3)])
    >>> with lidia.from_bytes(builder.to_bytes()) as table:
    ...     table.lookup(0x1004)[0].function, table[0].end == 0x1020, table.verify()
    ('main', True, [])
    """

    def __init__(self, data: Buffer, *, crc: bool = False, demangle: bool | Callable[[str], str] | None = False,
                 path: str = "", mapped: MappedFile | None = None) -> None:  # fmt: skip
        view = memoryview(data)
        self._data = view if view.format == "B" else view.cast("B")
        self._mapped, self.path = mapped, path
        self.header = header = ArchiveHeader.unpack(bytes(self._data[:HEADER_SIZE]), len(self._data))
        strings = self._data[header.strings.offset : header.strings.end]
        self.encoding = _encoding(strings)
        self._extra = ExtraSection(self._data, header.end)
        self.about = self._extra.read()
        self._sections = ArchiveSections(
            self._data, header, self._extra, nul=self.encoding == "nul", tidy=self.about.tidy
        )
        self._demangle = demangler(demangle)
        self._archive = self._archive_of(self._data)
        if mapped is not None:
            self._archive.watch(mapped.fault)
        self._stored: StoredRows | None = None
        if crc:
            self.check_crc()
        self.check()

    def _archive_of(self, data: Buffer) -> Archive:
        archive = Archive(data, self._sections, int.from_bytes(os.urandom(8), "little"))
        archive.set_frame_factory(_frame_factory, self._demangle)
        return archive

    # Lookups

    def lookup(self, vaddr: int, *, return_address: bool = False) -> Frames:
        """Return the frames at `vaddr`, innermost first.

        Args:
            vaddr: an address of the binary. Addresses outside of 64 bits have no frames.
            return_address: `vaddr` is one past a call, so the byte before it is looked up.

        Returns:
            A tuple of Frame; () if the archive does not cover the address.

        Raises:
            TypeError: `vaddr` is not an integer.
            LidiaError: a name or line entry for this address is outside its section, or the file has changed.
            ValueError: the archive is closed.
        """
        frames: Frames | None
        try:
            frames = self._archive.lookup(integer(vaddr) - 1 if return_address else vaddr)
        except AttributeError:
            self._still_open()
            raise
        if frames is None:
            raise self._fault()
        return frames

    def lookup_many(self, vaddrs: Iterable[int], *, return_address: bool = False) -> FrameTable:
        """Return the frames at each of `vaddrs`, in their order.

        Takes about 0.2 microseconds for each address, without the interpreter's lock.

        Args:
            vaddrs: integers; an array of unsigned 64-bit numbers is used without a copy. Addresses outside of 64 bits
                have no frames.
            return_address: each address is one past a call, so the byte before it is looked up.

        Returns:
            A FrameTable with an item for each address. A name outside its section is "", a line entry line 0 (counted
            by `FrameTable.faults`).

        Raises:
            LidiaError: the file has changed.
            ValueError: the archive is closed.
        """
        columns = self.find_frames(u64_column(vaddrs), return_address=return_address)
        return FrameTable(self._still_open(), columns, self._mapped)

    def find_frames(
        self, vaddrs: memoryview | array[int], *, return_address: bool = False, discriminators: bool = True
    ) -> FrameColumns:
        """Return the frames at each of `vaddrs` as columns of numbers, for a renderer."""
        archive, mapped = self._still_open(), self._mapped
        columns = archive.find_frames(vaddrs, 1 if return_address else 0, discriminators)
        if mapped is not None:
            mapped.check()
        return columns

    def texts_of(self, frames: FrameColumns) -> Texts:
        """Return the texts of frames from `find_frames`, for a renderer."""
        return Texts(self._still_open(), frames)

    def replies(
        self, module: bytes, symbol_starts: array[int], symbol_at: Callable[[int], tuple[int, bytes, bytes]],
        readable: Callable[[bytes], bytes], gap: bytes, between: bytes,
    ) -> Replies:  # fmt: skip
        """Return an object that answers llvm-symbolizer's usual questions from this archive; see Replies."""
        form = gap, between, Source.DWARF.number
        return Replies(self._still_open(), module, symbol_starts, symbol_at, readable, form)

    def start_lines(self, frames: FrameColumns) -> array[int]:
        """Return the line on which the function of each frame is declared, in the frame's file; 0 if unknown."""
        out = array("I", bytes(4 * len(frames.line)))
        self._still_open().starts(frames.function.numbers(), frames.file.numbers(), frames.line.numbers(), out)
        return out

    def _fault(self) -> LidiaError:
        """Return the error of the last lookup."""
        self.check()
        index = self._archive.fault_index
        row = self._rows().row(index)
        if self._archive.fault == LINES_OUTSIDE:
            return self._lines_outside(index, row)
        return self._name_outside(index, row)

    def _name_outside(self, index: int, row: Sequence[int]) -> LidiaError:
        function, file, call_file = row[1 + FUNCTION], row[1 + FILE], row[1 + CALL_FILE]
        names = f"function {function:#x}, file {file:#x}, call file {call_file:#x}"
        return self._malformed(index, f"a name outside the {self.header.strings.size} bytes of strings: {names}")

    def _lines_outside(self, index: int, row: Sequence[int]) -> LidiaError:
        first, count = row[1 + LINE_INDEX], row[1 + LINE_COUNT]
        entries = self.header.lines.entries
        return self._malformed(index, f"line entries [{first}, {first + count}), but the line tables have {entries}")

    def _malformed(self, index: int, fault: str) -> LidiaError:
        offset = self.header.ranges.row_offset(index)
        return LidiaError(RANGE_TABLE, offset, f"range {index} has {fault}", path=self.path)

    # Ranges and metadata

    @property
    def strings(self) -> memoryview:
        """The bytes of the strings."""
        return self._data[self.header.strings.offset : self.header.strings.end]

    def content(self) -> memoryview:
        """Return the bytes of the archive, decompressed. Raises ValueError if the archive is closed."""
        self._still_open()
        return self._data

    def source_numbers(self) -> bytes:
        """Return the number of the table that named each range (`Source.number`); zeros if it is not stored."""
        data, sections = self.content(), self._sections
        if sections.sources:
            return bytes(data[sections.source_offset : sections.source_offset + sections.sources])
        out = bytearray()
        firsts = sections.run_offset
        values = firsts + 4 * sections.runs
        for run in range(sections.runs):
            end = len(self)
            if run + 1 < sections.runs:
                end = min(end, int.from_bytes(data[firsts + 4 * run + 4 : firsts + 4 * run + 8], "little"))
            out += bytes(data[values + run : values + run + 1]) * max(0, end - len(out))
        return bytes(out).ljust(len(self), b"\0")

    def vaddrs(self) -> array[int]:
        """Return the vaddr of each range, in ascending order."""
        section = self.header.va_table
        self._still_open()
        with self.reading():
            starts = array("Q" if section.width == 8 else "I", bytes(self._data[section.offset : section.end]))
        if sys.byteorder == "big":
            starts.byteswap()
        return starts if starts.typecode == "Q" else array("Q", starts)

    def __len__(self) -> int:
        """Return the number of ranges."""
        return self.header.va_table.entries

    def _rows(self) -> StoredRows:
        self._still_open()
        if self._stored is None:
            from whence.lidia.kernels.inspect import StoredRows

            self._stored = StoredRows(self._data, self._sections)
        return self._stored

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, index: int) -> Range: ...
        @overload
        def __getitem__(self, index: slice) -> list[Range]: ...

    def __getitem__(self, index: int | slice) -> Range | list[Range]:
        """Return the range at an index in order of (vaddr, depth), or the list of ranges of a slice.

        Raises:
            IndexError: the index is out of bounds.
            LidiaError: a name or line entry is outside its section, the names or line entries of a slice exceed the
                limit of the archive's size, or the file has changed.
        """
        if isinstance(index, slice):
            return list(self._ranges(range(*index.indices(len(self)))))
        stored = self._range(index + len(self) if index < 0 else index)
        return stored if self._demangle is None else stored._replace(function=self._demangle(stored.function))

    def _range(self, index: int) -> Range:
        """Return a range with its stored name."""
        rows, mapped = self._rows(), self._mapped
        row = rows.row(index)
        if row is None:
            raise IndexError(f"range index {index} is out of bounds: there are {len(self)} ranges")
        vaddr, length, depth, function, file, first, count, call_file, call_line, source = row
        texts = [rows.text(function), *(rows.text(offset) if offset else b"" for offset in (file, call_file))]
        lines = rows.lines(first, count, LineTableEntry)
        start_line = rows.start(function, file, lines[0][1] if lines else 0)
        if mapped is not None:
            mapped.check()
        if None in texts:
            raise self._name_outside(index, row)
        if lines is None:
            raise self._lines_outside(index, row)
        names = [text.decode("utf-8", "surrogateescape") for text in texts]
        named_by = SOURCES[source] if source < len(SOURCES) else Source.UNKNOWN
        return Range(vaddr, length, names[0], names[1], names[2], call_line, depth, lines, named_by, start_line)

    def namesakes(self, index: int) -> list[int]:
        """Return the indexes of the functions with the same stored name as the range at an index, in order."""
        rows: list[int] = self._rows().namesakes(index)
        self.check()
        return rows

    def unwind(self) -> UnwindTables | None:
        """Return the unwind tables (`lidia create --unwind`) as views; None if the archive has none.

        Raises LidiaError if they are damaged.
        """
        from whence.lidia.unwind import read_unwind

        data = self._extra.view(UNWIND)
        return read_unwind(data) if len(data) else None

    def source_columns(self, index: int) -> SourceColumns | None:
        """Return the columns of the range at an index; None in an archive without columns. Raises IndexError."""
        if not 0 <= index < len(self):
            raise IndexError(f"range index {index} is out of bounds: there are {len(self)} ranges")
        if not self._sections.column_width:
            return None
        columns = self._rows().columns(index)
        self.check()
        return SourceColumns(*columns)

    def __iter__(self) -> Iterator[Range]:
        """Yield every range, in order of (vaddr, depth).

        Raises LidiaError if the names or line entries together exceed the limit of the archive's size.
        """
        return self._ranges(range(len(self)))

    def _ranges(self, indexes: range) -> Iterator[Range]:
        size, entry = len(self._data), LINE_FIELDS * self.header.lines.width
        names = Budget(
            RANGE_TABLE, "names of ranges", size, times=NAMES_TIMES, allowance=NAMES_ALLOWANCE, error=LidiaError
        )
        lines = Budget(
            RANGE_TABLE, "line entries of ranges", size, times=LINES_TIMES, allowance=LINES_ALLOWANCE,
            error=LidiaError,
        )  # fmt: skip
        readable: dict[str, str] = {}  # by stored name
        for index in indexes:
            stored = self._range(index)
            names.charge(len(stored.function) + len(stored.file) + len(stored.call_file))
            lines.charge(entry * len(stored.line_table))
            if self._demangle is None:
                yield stored
                continue
            name = readable.get(stored.function)
            if name is None:
                name = readable[stored.function] = self._demangle(stored.function)
            yield stored._replace(function=name)

    def info(self) -> ArchiveInfo:
        """Return counts and sizes in bytes. Reads the complete archive."""
        from whence.lidia import verify

        self._still_open()
        with self.reading():
            return verify.info(self._data, self._sections, self.header, self._extra, self.path)

    # Checking

    def verify(self) -> list[str]:
        """Return every problem, a sentence each: checksums, order, names and lines outside their sections."""
        from whence.lidia import verify

        self._still_open()
        with self.reading():
            return verify.problems(self._data, self._sections, self.header, self._extra)

    def notes(self) -> list[str]:
        """Return remarks that are not errors, a sentence each: ranges without a length, as the Go package writes."""
        from whence.lidia import verify

        self._still_open()
        return verify.notes(self._data, self._sections)

    def _check(self, section: ArchiveSection) -> None:
        from whence.lidia.verify import check_crc

        self._still_open()
        with self.reading():
            check_crc(self._data, section)

    def check_crc(self) -> None:
        """Verify all four checksums, reading the complete archive. Raises ChecksumError for the first that is wrong."""
        for section in self.header:
            self._check(section)

    def check_crc_va(self) -> None:
        """Verify the checksum of the VA table. Raises ChecksumError, or LidiaError if the file has changed."""
        self._check(self.header.va_table)

    def check_crc_fields(self) -> None:
        """Verify the checksum of the range table. Raises the errors of `check_crc_va`."""
        self._check(self.header.ranges)

    def check_crc_strings(self) -> None:
        """Verify the checksum of the strings. Raises the errors of `check_crc_va`."""
        self._check(self.header.strings)

    def check_crc_line_tables(self) -> None:
        """Verify the checksum of the line tables. Raises the errors of `check_crc_va`."""
        self._check(self.header.lines)

    # Opening and closing

    def check(self) -> None:
        """Raise LidiaError if the archive's file was truncated or overwritten since it was mapped."""
        if self._mapped is not None:
            self._mapped.check()

    def reading(self) -> AbstractContextManager[None]:
        """Return a context manager for a block that reads the file; checks at its end that the file is unchanged."""
        return checked(self.check, self.path)

    def close(self) -> None:
        """Unmap the file. Lookups running in other threads finish; later calls raise ValueError."""
        self._archive = self._stored = None
        self._data = memoryview(b"")
        self._mapped = None  # lookups and FrameTables may still read the file; the last reference unmaps it

    def _still_open(self) -> Archive:
        archive = self._archive
        if archive is None:
            raise ValueError("the archive is closed")
        return archive

    def __repr__(self) -> str:
        return f"<lidia.Table {self.path or 'in memory'}: {len(self)} ranges>"


def _frame_factory() -> tuple[type[Frame], tuple[Source, ...]]:
    """Return the class of frames, and the sources by number."""
    return Frame, SOURCES


def demangler(demangle: bool | Callable[[str], str] | None) -> Callable[[str], str] | None:
    """Return the function that makes names readable, or None. True means whence.demangle.demangle."""
    if demangle is True:
        from whence.demangle import demangle as readable  # compiled code that only some callers need

        return readable
    return demangle or None


def open(
    path: str | os.PathLike[str], *, crc: bool = False, demangle: bool | Callable[[str], str] | None = False,
    copy: bool = False,
) -> Table:  # fmt: skip
    """Open an archive file by mapping it. The cost does not depend on its size.

    An archive compressed by gzip or zstd is decompressed into memory.

    Args:
        path: the path of the archive.
        crc: verify the checksums, reading the complete archive.
        demangle: make function names readable: True, or a function from a linkage name to a readable one.
        copy: read the archive into memory. Lookups then do not check whether the file has changed, which saves 0.3
            microseconds each, and later changes of the file have no effect.

    Raises:
        LidiaError: the file is not an archive of version 1, or a section extends past its end.
        ChecksumError: `crc`, and a checksum is wrong.
        Unsupported: a zstd archive without zstd support.
        OSError: the file can't be read.

    >>> open("missing.lidia")
    Traceback (most recent call last):
    FileNotFoundError: [Errno 2] No such file or directory: 'missing.lidia'
    """
    with open_regular(path, LidiaError) as (descriptor, size):
        head = os.read(descriptor, HEADER_SIZE)
        if codec_of(head):
            os.lseek(descriptor, 0, os.SEEK_SET)
            with builtins.open(descriptor, "rb", closefd=False) as file:
                return Table(decompress(file, size), crc=crc, demangle=demangle, path=os.fspath(path))
        if size < HEADER_SIZE:
            return Table(head)  # raises the error of the header
        mapped = MappedFile(descriptor, os.fspath(path), LidiaError)
    try:
        if copy:
            data = bytes(mapped.view)
            mapped.check()
            return Table(data, crc=crc, demangle=demangle, path=os.fspath(path))
        return Table(mapped.view, crc=crc, demangle=demangle, path=os.fspath(path), mapped=mapped)
    except BaseException as error:
        mapped.check()
        if isinstance(error, WhenceError):
            error.in_file(os.fspath(path))
        from traceback import clear_frames  # its import takes milliseconds

        clear_frames(error.__traceback__)  # they have views of the mapping
        raise


def from_bytes(data: Buffer, *, crc: bool = False, demangle: bool | Callable[[str], str] | None = False) -> Table:
    """Open an archive in memory, a buffer of bytes that is not copied. The options and errors are those of `open`.

    An archive compressed by gzip or zstd is decompressed.
    """
    if codec_of(memoryview(data).cast("B")[:4]):
        data = decompress(io.BytesIO(data), memoryview(data).nbytes)
    return Table(data, crc=crc, demangle=demangle)


def _encoding(strings: memoryview) -> str:
    """Return how strings are delimited, "length" or "nul".

    Length-prefixed strings begin as whence and the Go package write them, or else parse up to their end.
    """
    if bytes(strings[: len(LENGTH_PREFIXED_START)]) == LENGTH_PREFIXED_START or not len(strings):
        return "length"
    if len(strings) < 4:
        return "nul"
    from whence.lidia.kernels.inspect import count_strings

    return "length" if count_strings(strings)[1] == len(strings) else "nul"


def u64_column(vaddrs: Iterable[int]) -> memoryview | array[int]:
    """Return addresses as unsigned 64-bit numbers, without a copy if possible; others become 2^64 - 1."""
    if isinstance(vaddrs, (array, memoryview)) or hasattr(vaddrs, "__array_interface__"):
        view = memoryview(vaddrs)  # type: ignore[arg-type]
        if view.itemsize == 8 and view.format in ("Q", "L") and view.c_contiguous and view.ndim == 1:
            return view.cast("B").cast("Q")
    if not hasattr(vaddrs, "__len__"):
        vaddrs = list(vaddrs)  # they may be iterated twice
    try:
        return array("Q", vaddrs)
    except OverflowError:
        return array("Q", (vaddr if 0 <= vaddr < 1 << 64 else 0xFFFFFFFFFFFFFFFF for vaddr in vaddrs))
