"""An archive opened: lookups, iteration, what it says about itself.

Opening reads the header, the first bytes of the strings and the footer: its cost does not depend on the archive's size.
"""

from __future__ import annotations

import mmap
import os
from array import array
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from traceback import clear_frames
from typing import TYPE_CHECKING, Self

from whence.errors import LidiaError
from whence.lidia import extra as extras
from whence.lidia import lookup_kernel, verify
from whence.lidia.answers import WORDS, Answers
from whence.lidia.builder import LineTableEntry, Range
from whence.lidia.layout import HEADER_SIZE, LENGTH_PREFIXED_START, Header
from whence.model import Frame

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator
    from types import TracebackType

    from typing_extensions import Buffer

    from whence.model import Frames


@dataclass(frozen=True, slots=True)
class Info:
    """What is in an archive: sizes in bytes, widths of fields in bytes, counts."""

    path: str
    size: int
    ranges: int
    functions: int
    inlined: int
    deepest: int
    with_file: int
    with_lines: int
    strings: int
    encoding: str
    line_entries: int
    va_width: int
    field_width: int
    line_width: int
    va_size: int
    range_size: int
    string_size: int
    line_size: int
    trailing_size: int
    build_id: str
    machine: str
    producer: str
    made_from: tuple[str, ...]
    sources: dict[str, int]
    extra_problem: str


class Table:
    """An archive. A context manager: leaving it (or `close`) lets the mapped file go.

    Lookups are safe from many threads at once. A file that is cut while it is mapped kills the process that reads
    it, as with every mapped file; archives written by whence are replaced, never rewritten.
    """

    def __init__(self, data: Buffer, *, crc: bool = False, demangle: Callable[[str], str] | None = None,
                 path: str = "", mapped: mmap.mmap | None = None) -> None:  # fmt: skip
        view = memoryview(data)
        self._data = view if view.format == "B" else view.cast("B")
        self._mapped, self.path = mapped, path
        self.header = header = Header.unpack(bytes(self._data[:HEADER_SIZE]), len(self._data))
        strings = self._data[header.strings.offset : header.strings.end]
        self.encoding = _encoding(strings)
        self._extra = extras.find(self._data, header.end)
        self.about = extras.read(self._data, self._extra)
        source, runs = _sources(self._data, self._extra, header.va.count)
        self._archive = lookup_kernel.Archive(
            self._data,
            (header.va.offset, header.va.width, header.va.count),
            (header.ranges.offset, header.ranges.width),
            (header.strings.offset, header.strings.count),
            (header.lines.offset, header.lines.width, header.lines.count),
            self.encoding == "nul", self.about.tidy, source, runs,
        )  # fmt: skip
        self._archive.dress(Frame, WORDS, demangle)
        if crc:
            self.check_crc()

    # Looking up

    def lookup(self, vaddr: int, *, return_address: bool = False) -> Frames:
        """The frames of an address, innermost first; () when nothing covers it.

        With `return_address` the address is one past a call: the byte before it is looked up. LidiaError when the
        archive's names or line entries for this address lie outside their sections.
        """
        try:
            frames: Frames | None = self._archive.lookup(vaddr - 1 if return_address else vaddr)
        except OverflowError:
            return ()
        except AttributeError:
            self._still_open()
            raise
        if frames is None:
            raise self._fault()
        return frames

    def lookup_many(self, vaddrs: Iterable[int], *, return_address: bool = False) -> Answers:
        """The frames of many addresses, in columns.

        `vaddrs` may be anything that holds integers; an array of unsigned 64-bit ones is taken as it lies. The lock of
        the interpreter is not held while it works.
        """
        archive = self._still_open()
        asked = _as_words(vaddrs)
        count = len(asked)
        back = 1 if return_address else 0
        starts, innermost = array("I", bytes(4 * count + 4)), array("I", bytes(4 * count))
        frames = archive.count_frames(asked, back, starts, innermost)
        if frames >= 0xFFFFFFFF:
            raise OverflowError("so many frames do not fit one answer: ask for fewer addresses at once")
        place, line = array("I", bytes(4 * frames)), array("I", bytes(4 * frames))
        function, file = array("Q", bytes(8 * frames)), array("Q", bytes(8 * frames))
        inlined, source = array("B", bytes(frames)), array("B", bytes(frames))
        faults = archive.fill_frames(asked, back, starts, innermost, place, function, file, line, inlined, source)
        return Answers(archive, starts, place, function, file, line, inlined, source, faults)

    def _fault(self) -> LidiaError:
        place = self._archive.fault_at
        row = self._archive.range(place)
        if self._archive.fault == 2:
            return LidiaError(
                "range table", place * 8 * self.header.ranges.width,
                f"its line entries are among the {self.header.lines.count}", f"{row[5]} and {row[6]} from there",
            )  # fmt: skip
        return LidiaError(
            "range table", place * 8 * self.header.ranges.width,
            f"its names lie in the {self.header.strings.size} bytes of the strings",
            f"function {row[3]:#x}, file {row[4]:#x}, call file {row[7]:#x}",
        )  # fmt: skip

    # What is in it

    def __len__(self) -> int:
        return self.header.va.count

    def __getitem__(self, place: int) -> Range:
        """The range in a row of the archive."""
        archive = self._still_open()
        if place < 0:
            place += len(self)
        row = archive.range(place)
        if row is None:
            raise IndexError("there is no such range")
        va, length, depth, function, file, index, count, call_file, call_line, source = row
        texts = [archive.text(offset) for offset in (function, file, call_file)]
        lines = archive.lines(index, count)
        if None in texts or lines is None:
            at = place * 8 * self.header.ranges.width
            raise LidiaError("range table", at, "its names and line entries lie in their sections", row[3:8])
        names = [text.decode("utf-8", "surrogateescape") for text in texts]
        entries = tuple(LineTableEntry(offset, line) for offset, line in lines)
        word = WORDS[source] if source < len(WORDS) else ""
        return Range(va, length, names[0], names[1], names[2], call_line, depth, entries, word)

    def __iter__(self) -> Iterator[Range]:
        """Every range, in order of (va, depth)."""
        for place in range(len(self)):
            yield self[place]

    @cached_property
    def _inspected(self) -> verify.Inspected:
        return verify.Inspected(*self._still_open().inspect())

    def info(self) -> Info:
        """What is in the archive. Reads all of it once."""
        archive, header, found = self._still_open(), self.header, self._inspected
        strings = self._data[header.strings.offset : header.strings.end]
        if self.encoding == "length":
            count = lookup_kernel.count_strings(strings)[0]
        else:
            count = bytes(strings).count(0)
        return Info(
            path=self.path, size=len(self._data), ranges=len(self), functions=found.functions, inlined=found.inlined,
            deepest=found.deepest, with_file=found.with_file, with_lines=found.with_lines, strings=count,
            encoding=self.encoding, line_entries=header.lines.count, va_width=header.va.width,
            field_width=header.ranges.width, line_width=header.lines.width, va_size=header.va.size,
            range_size=header.ranges.size, string_size=header.strings.size, line_size=header.lines.size,
            trailing_size=len(self._data) - header.end, build_id=self.about.build_id, machine=self.about.machine,
            producer=self.about.producer, made_from=self.about.made_from,
            sources={WORDS[i]: n for i, n in enumerate(archive.count_sources()) if n and i < len(WORDS) and WORDS[i]},
            extra_problem=verify.problem_of_extra(self._data, self._extra),
        )  # fmt: skip

    # Checking

    def verify(self) -> list[str]:
        """Everything that is wrong, a sentence each: checksums, order, names and lines outside their sections."""
        return verify.problems(self._still_open(), self._data, self.header, self._inspected, self._extra)

    def check_crc(self) -> None:
        """Compare all four checksums; ChecksumError names the first section that differs."""
        for section in self.header.sections:
            verify.check_crc(self._data, section)

    def check_crc_va(self) -> None:
        verify.check_crc(self._data, self.header.va)

    def check_crc_fields(self) -> None:
        verify.check_crc(self._data, self.header.ranges)

    def check_crc_strings(self) -> None:
        verify.check_crc(self._data, self.header.strings)

    def check_crc_line_tables(self) -> None:
        verify.check_crc(self._data, self.header.lines)

    # Opening and closing

    def close(self) -> None:
        """Let the file go. Lookups that still run in other threads end well; later ones raise ValueError."""
        self._archive = None
        self._data = memoryview(b"")
        if self._mapped is not None:
            with suppress(BufferError):  # a lookup or an Answers still reads it: the last of them lets it go
                self._mapped.close()
            self._mapped = None

    def _still_open(self) -> lookup_kernel.Archive:
        archive = self._archive
        if archive is None:
            raise ValueError("the archive is closed")
        return archive

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<lidia.Table {self.path or 'in memory'}: {len(self)} ranges>"


def open(path: str | os.PathLike[str], *, crc: bool = False, demangle: Callable[[str], str] | None = None) -> Table:
    """Map an archive. `crc`: compare its checksums now. `demangle` turns function names, each once.

    LidiaError when the header does not hold; ChecksumError; OSError.
    """
    with Path(path).open("rb") as file:
        size = os.fstat(file.fileno()).st_size
        if size < HEADER_SIZE:
            return Table(file.read(HEADER_SIZE), path=os.fspath(path))  # raises: the header says what is missing
        mapped = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
    try:
        return Table(mapped, crc=crc, demangle=demangle, path=os.fspath(path), mapped=mapped)
    except BaseException as error:
        clear_frames(error.__traceback__)  # they hold views of the mapping
        with suppress(BufferError):
            mapped.close()
        raise


def from_bytes(data: Buffer, *, crc: bool = False, demangle: Callable[[str], str] | None = None) -> Table:
    """An archive in memory, not copied."""
    return Table(data, crc=crc, demangle=demangle)


def _encoding(strings: memoryview) -> str:
    """`length` or `nul`. Archives begin with a known string; others are length-prefixed if they parse to their end."""
    if bytes(strings[: len(LENGTH_PREFIXED_START)]) == LENGTH_PREFIXED_START or not len(strings):
        return "length"
    if len(strings) < 4:
        return "nul"
    return "length" if lookup_kernel.count_strings(strings)[1] == len(strings) else "nul"


def _sources(data: memoryview, found: extras.Found | None, count: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Where the bytes that name each range's source are: (offset, count) of bytes, and of runs."""
    if found is None:
        return (0, 0), (0, 0)
    offset, size = found.chunks.get(b"SRCB", (0, 0))
    if size == count:
        return (offset, size), (0, 0)
    offset, size = found.chunks.get(b"SRCR", (0, 0))
    if size >= 4:
        runs = int.from_bytes(data[offset : offset + 4], "little")
        if size == 4 + 5 * runs:
            return (0, 0), (offset + 4, runs)
    return (0, 0), (0, 0)


def _as_words(vaddrs: Iterable[int]) -> memoryview | array[int]:
    if isinstance(vaddrs, (array, memoryview)) or hasattr(vaddrs, "__array_interface__"):
        view = memoryview(vaddrs)  # type: ignore[arg-type]
        if view.itemsize == 8 and view.format in ("Q", "L") and view.c_contiguous and view.ndim == 1:
            return view.cast("B").cast("Q")
    try:
        return array("Q", vaddrs)
    except OverflowError:
        return array("Q", (vaddr if 0 <= vaddr < 1 << 64 else 0xFFFFFFFFFFFFFFFF for vaddr in vaddrs))
