"""An archive opened: lookups, iteration, what it says about itself.

Opening reads the header, the first bytes of the strings and the footer: its cost does not depend on the archive's size.
"""

from __future__ import annotations

import builtins
import io
import os
import sys
from _operator import index as integer
from array import array
from contextlib import contextmanager

from whence._base.budget import Budget
from whence._base.closing import Closing
from whence._base.errors import LidiaError, WhenceError, naming
from whence._base.files import open_regular
from whence._base.mapped import MappedFile
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

TYPE_CHECKING = False
if TYPE_CHECKING:
    from array import array
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import overload

    from typing_extensions import Buffer

    from whence._base.model import Frames
    from whence.lidia.kernels import inspect as inspect_kernel
    from whence.lidia.kernels.render import Replies
    from whence.lidia.layout import ArchiveSection
    from whence.lidia.results import FrameTable, Range, SourceColumns
    from whence.lidia.unwind import UnwindTables
    from whence.lidia.verify import ArchiveInfo


class Table(Closing):
    """An archive: a sequence of its ranges in order of (vaddr, depth), and frames for vaddrs.

    A context manager: leaving it (or `close`) lets the mapped file go. `path` is "" in memory; `header` has the four
    sections (offsets and sizes in bytes); `encoding` says how strings are delimited, "length" or "nul"; `about` is what
    the archive says of itself. Indexing and iteration return Range, slices lists of them.

    Lookups are safe from many threads at once. Archives written by whence are replaced, never rewritten; when another
    program cuts or overwrites the file, what is asked next raises LidiaError. An archive that was opened with
    `copy=True`, or from bytes, is in memory and does not depend on a file.
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
        self._inspected: inspect_kernel.StoredRows | None = None
        if crc:
            self.check_crc()
        self.check()

    def _archive_of(self, data: Buffer) -> Archive:
        archive = Archive(data, self._sections, int.from_bytes(os.urandom(8), "little"))
        archive.set_frame_factory(_frame_factory, self._demangle)
        return archive

    # Looking up

    def lookup(self, vaddr: int, *, return_address: bool = False) -> Frames:
        """The frames of an address, innermost first; () when nothing covers it.

        Nothing covers addresses below 0 and from 2^64 on: they have no frames, and are no error.
        With `return_address` the address is one past a call: the byte before it is looked up. TypeError for what is no
        integer; LidiaError when the archive's names or line entries for this address lie outside their sections.
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
        """The frames of many vaddrs, in the order asked: a chain for each, and columns.

        `vaddrs` may be anything that holds integers; an array of unsigned 64-bit ones is taken as it lies. Those
        outside of 64 bits have no frames. With `return_address` each is one past a call. The lock of the interpreter is
        not held while it works: some 0.2 microseconds for each. What lies outside its section is "" or line 0 here
        (`FrameTable.faults`), no error. LidiaError when the file changed meanwhile.
        """
        from whence.lidia.results import FrameTable

        columns = self.find_frames(as_words(vaddrs), return_address=return_address)
        return FrameTable(self._still_open(), columns, self._mapped)

    def find_frames(
        self, vaddrs: memoryview | array[int], *, return_address: bool = False, discriminators: bool = True
    ) -> FrameColumns:
        """The same as numbers alone, for a renderer; without `discriminators` those are left out."""
        archive, mapped = self._still_open(), self._mapped
        columns = archive.find_frames(vaddrs, 1 if return_address else 0, discriminators)
        if mapped is not None:
            mapped.check()
        return columns

    def texts_of(self, frames: FrameColumns) -> Texts:
        """The texts that such frames show, for a renderer."""
        return Texts(self._still_open(), frames)

    def replies(
        self, module: bytes, symbol_starts: array[int], symbol_at: Callable[[int], tuple[int, bytes, bytes]],
        readable: Callable[[bytes], bytes], gap: bytes, between: bytes,
    ) -> Replies:  # fmt: skip
        """What replies to the usual questions of llvm-symbolizer's callers from a table in memory."""
        from whence.lidia.kernels.render import Replies

        form = gap, between, Source.DWARF.number
        return Replies(self._still_open(), module, symbol_starts, symbol_at, readable, form)

    def start_lines(self, frames: FrameColumns) -> array[int]:
        """The line that each such frame's function starts on, in the frame's file; 0 where it is not known."""
        out = array("I", bytes(4 * len(frames.line)))
        self._still_open().starts(frames.function.numbers(), frames.file.numbers(), frames.line.numbers(), out)
        return out

    def _fault(self) -> LidiaError:
        """Why the last lookup has no answer."""
        self.check()
        index = self._archive.fault_index
        row = self._rows().row(index)
        if self._archive.fault == LINES_OUTSIDE:
            return self._lines_outside(index, row)
        return self._name_outside(index, row)

    def _name_outside(self, index: int, row: Sequence[int]) -> LidiaError:
        function, file, call_file = row[1 + FUNCTION], row[1 + FILE], row[1 + CALL_FILE]
        found = f"function {function:#x}, file {file:#x}, call file {call_file:#x}"
        strings = self.header.strings.size
        rule = f"names lie in the {strings} bytes of the strings"
        return self._broken(index, f"range {index} has a name outside the strings", rule, found)

    def _lines_outside(self, index: int, row: Sequence[int]) -> LidiaError:
        found = f"{row[1 + LINE_COUNT]} from {row[1 + LINE_INDEX]} on"
        rule = f"line entries are among the {self.header.lines.entries} there are"
        return self._broken(index, f"range {index} has line entries outside the line tables", rule, found)

    def _broken(self, index: int, fault: str, rule: str, found: str) -> LidiaError:
        """The error of a range."""
        offset = self.header.ranges.row_offset(index)
        fault = f"{fault} ({RANGE_TABLE}+{offset:#x}): {found}; {rule}"
        return LidiaError(RANGE_TABLE, offset, rule, found, fault=fault, path=self.path)

    # What is in it

    @property
    def strings(self) -> memoryview:
        """The bytes of the strings."""
        return self._data[self.header.strings.offset : self.header.strings.end]

    def vaddrs(self) -> array[int]:
        """The vaddr that each range starts with, in order."""
        section = self.header.va_table
        self._still_open()
        with self._reading():
            starts = array("Q" if section.width == 8 else "I", bytes(self._data[section.offset : section.end]))
        if sys.byteorder == "big":
            starts.byteswap()
        return starts if starts.typecode == "Q" else array("Q", starts)

    def __len__(self) -> int:
        """How many ranges there are."""
        return self.header.va_table.entries

    def _rows(self) -> inspect_kernel.StoredRows:
        """Its rows as they are stored; lookups need none of this, so it is loaded late."""
        self._still_open()
        if self._inspected is None:
            from whence.lidia.kernels.inspect import StoredRows

            self._inspected = StoredRows(self._data, self._sections)
        return self._inspected

    if TYPE_CHECKING:

        @overload
        def __getitem__(self, index: int) -> Range: ...
        @overload
        def __getitem__(self, index: slice) -> list[Range]: ...

    def __getitem__(self, index: int | slice) -> Range | list[Range]:
        """The range of this index in the order of (vaddr, depth), or a list of those of a slice.

        IndexError; LidiaError when its names or line entries lie outside their sections, or when those of a slice
        together are more than the archive's size justifies.
        """
        if isinstance(index, slice):
            return list(self._ranges(range(*index.indices(len(self)))))
        found = self._range(index + len(self) if index < 0 else index)
        return found if self._demangle is None else found._replace(function=self._demangle(found.function))

    def _range(self, index: int) -> Range:
        """A range with its name as it is stored."""
        from whence.lidia.results import LineTableEntry, Range

        rows, mapped = self._rows(), self._mapped
        row = rows.row(index)
        if row is None:
            raise IndexError(f"no range {index} among {len(self)}")
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

    def unwind(self) -> UnwindTables | None:
        """What unwinds the file's code (`lidia create --unwind`), as views; None where the archive has none of it.
        Raises LidiaError where that is damaged."""
        from whence.lidia.unwind import read_unwind

        data = self._extra.view(UNWIND)
        return read_unwind(data) if len(data) else None

    def source_columns(self, index: int) -> SourceColumns | None:
        """The columns of the range of this index; None in an archive without columns. IndexError."""
        from whence.lidia.results import SourceColumns

        if not 0 <= index < len(self):
            raise IndexError(f"no range {index} among {len(self)}")
        if not self._sections.column_width:
            return None
        found = self._rows().columns(index)
        self.check()
        return SourceColumns(*found)

    def __iter__(self) -> Iterator[Range]:
        """Every range, in order of (vaddr, depth).

        LidiaError when their names or line entries together are more than the archive's size justifies.
        """
        return self._ranges(range(len(self)))

    def _ranges(self, indexes: range) -> Iterator[Range]:
        stored, entry = len(self._data), LINE_FIELDS * self.header.lines.width
        names = Budget(
            RANGE_TABLE, "names of ranges", stored, times=NAMES_TIMES, allowance=NAMES_ALLOWANCE, error=LidiaError
        )
        lines = Budget(
            RANGE_TABLE, "line entries of ranges", stored, times=LINES_TIMES, allowance=LINES_ALLOWANCE,
            error=LidiaError,
        )  # fmt: skip
        readable: dict[str, str] = {}  # names, by those that are stored
        for index in indexes:
            found = self._range(index)
            names.charge(len(found.function) + len(found.file) + len(found.call_file))
            lines.charge(entry * len(found.line_table))
            if self._demangle is not None:
                name = readable.get(found.function)
                if name is None:
                    name = readable[found.function] = self._demangle(found.function)
                found = found._replace(function=name)
            yield found

    def info(self) -> ArchiveInfo:
        """What is in the archive: counts, and sizes in bytes. Reads all of it once."""
        from whence.lidia import verify

        self._still_open()
        with self._reading():
            return verify.info(self._data, self._sections, self.header, self._extra, self.path)

    # Checking

    def verify(self) -> list[str]:
        """Everything that is wrong, a sentence each: checksums, order, names and lines outside their sections."""
        from whence.lidia import verify

        self._still_open()
        with self._reading():
            return verify.problems(self._data, self._sections, self.header, self._extra)

    def notes(self) -> list[str]:
        """What is worth knowing and breaks no rule, a sentence each: ranges without a length, as the Go package writes
        them."""
        from whence.lidia import verify

        self._still_open()
        return verify.notes(self._data, self._sections)

    def _check(self, section: ArchiveSection) -> None:
        from whence.lidia.verify import check_crc

        self._still_open()
        with self._reading():
            check_crc(self._data, section)

    def check_crc(self) -> None:
        """Compare all four checksums: reads the whole archive once. ChecksumError names the first that differs."""
        for section in self.header:
            self._check(section)

    def check_crc_va(self) -> None:
        """Compare the checksum of the VA table. ChecksumError; LidiaError when the file changed meanwhile."""
        self._check(self.header.va_table)

    def check_crc_fields(self) -> None:
        """Compare the checksum of the range table, as `check_crc_va` does."""
        self._check(self.header.ranges)

    def check_crc_strings(self) -> None:
        """Compare the checksum of the strings, as `check_crc_va` does."""
        self._check(self.header.strings)

    def check_crc_line_tables(self) -> None:
        """Compare the checksum of the line tables, as `check_crc_va` does."""
        self._check(self.header.lines)

    # Opening and closing

    def check(self) -> None:
        """Raise LidiaError when the archive's file was cut or overwritten since it was mapped."""
        if self._mapped is not None:
            self._mapped.check()

    @contextmanager
    def _reading(self) -> Iterator[None]:
        """A block that reads the archive: what it got holds if it ends well."""
        mapped = self._mapped
        with naming(self.path):
            try:
                yield
            finally:
                if mapped is not None:
                    mapped.check()

    def close(self) -> None:
        """Let the file go. Lookups that still run in other threads end well; later ones raise ValueError."""
        self._archive = self._inspected = None
        self._data = memoryview(b"")
        self._mapped = None  # a lookup or a FrameTable may still read it: the last of them lets it go

    def _still_open(self) -> Archive:
        archive = self._archive
        if archive is None:
            raise ValueError("the archive is closed")
        return archive

    def __repr__(self) -> str:
        return f"<lidia.Table {self.path or 'in memory'}: {len(self)} ranges>"


def _frame_factory() -> tuple[type[Frame], tuple[Source, ...]]:
    """What frames are made of, imported when the first is."""
    return Frame, SOURCES


def demangler(demangle: bool | Callable[[str], str] | None) -> Callable[[str], str] | None:
    """What makes names readable, None for names as they are stored. True stands for whence.demangle.demangle."""
    if demangle is True:
        from whence.demangle import demangle as readable

        return readable
    return demangle or None


def open(
    path: str | os.PathLike[str], *, crc: bool = False, demangle: bool | Callable[[str], str] | None = False,
    copy: bool = False,
) -> Table:  # fmt: skip
    """Map an archive. The cost does not depend on the archive's size, unless `crc` compares its checksums now.

    An archive compressed by gzip or zstd is decompressed into memory first.

    With `copy` the whole archive is read into memory now. `lookup` then does not ask the system each time whether the
    file has changed, which saves 0.3 microseconds of a lookup, and later changes of the file have no effect. With
    `demangle` the names of functions are readable ones: True, or a function that makes one of a linkage name.
    LidiaError for what is no archive of version 1, or has a section outside its bytes;
    ChecksumError; OSError.
    """
    with open_regular(path, LidiaError) as (descriptor, size):
        head = os.read(descriptor, HEADER_SIZE)
        if codec_of(head):
            os.lseek(descriptor, 0, os.SEEK_SET)
            with builtins.open(descriptor, "rb", closefd=False) as file:
                return Table(decompress(file, size), crc=crc, demangle=demangle, path=os.fspath(path))
        if size < HEADER_SIZE:
            return Table(head)  # raises: the header says what is missing
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
        from traceback import clear_frames

        clear_frames(error.__traceback__)  # they hold views of the mapping
        raise


def from_bytes(data: Buffer, *, crc: bool = False, demangle: bool | Callable[[str], str] | None = False) -> Table:
    """An archive in memory, any buffer of bytes, which is not copied. The options and errors are those of `open`.

    An archive compressed by gzip or zstd is decompressed.
    """
    if codec_of(memoryview(data).cast("B")[:4]):
        data = decompress(io.BytesIO(data), memoryview(data).nbytes)
    return Table(data, crc=crc, demangle=demangle)


def _encoding(strings: memoryview) -> str:
    """`length` or `nul`. Archives begin with a known string; others are length-prefixed if they parse to their end."""
    if bytes(strings[: len(LENGTH_PREFIXED_START)]) == LENGTH_PREFIXED_START or not len(strings):
        return "length"
    if len(strings) < 4:
        return "nul"
    from whence.lidia.kernels.inspect import count_strings

    return "length" if count_strings(strings)[1] == len(strings) else "nul"


def as_words(vaddrs: Iterable[int]) -> memoryview | array[int]:
    """Addresses as an array of 64-bit words: as they lie where they are such, all ones for one that has no 64 bits."""
    if isinstance(vaddrs, (array, memoryview)) or hasattr(vaddrs, "__array_interface__"):
        view = memoryview(vaddrs)  # type: ignore[arg-type]
        if view.itemsize == 8 and view.format in ("Q", "L") and view.c_contiguous and view.ndim == 1:
            return view.cast("B").cast("Q")
    if not hasattr(vaddrs, "__len__"):
        vaddrs = list(vaddrs)  # it may be needed once more
    try:
        return array("Q", vaddrs)
    except OverflowError:
        return array("Q", (vaddr if 0 <= vaddr < 1 << 64 else 0xFFFFFFFFFFFFFFFF for vaddr in vaddrs))
