"""Units of a compressed .debug_info, read while the section is being decompressed and dropped when they were read.

Decompressing one stream takes one core; the others read the units that are available (`StreamingInfo`). The bytes of a
group of units are dropped when all its ranges were read. This needs units that do not refer to DIEs of others, and
names that are copied out of .debug_info. Otherwise (such references, line programs shared by distant units, broken
units) StreamingUnsupported is raised, and the section is read after it was decompressed.

A query of few addresses needs few units, and no more of the stream than up to their end and the end of units with their
names: `InfoPrefix`.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator
from contextlib import suppress

from whence._base.errors import DwarfError, ObjectError
from whence._base.forks import Lock
from whence._base.window import ByteOrder
from whence.dwarf.kernels import abbrevs as abbrevs_kernel
from whence.dwarf.kernels.constants import DWARF64
from whence.dwarf.kernels.units import FAULT, HAS, HAS_STMT_LIST, STMT_LIST
from whence.dwarf.sections import Sections, read_sections
from whence.dwarf.unit_set import BATCH, DwarfFile, Units, UnitSet
from whence.ranges.strings import OFFSET_BITS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from whence.objects.elf.compress import SectionStream
    from whence.objects.interface import ObjectFile

SHORTEST = 12  # bytes that a unit with a root DIE has
SMALLEST = 4 << 20  # compressed bytes from which streaming pays
ONLY_FOR_UNITS = tuple(f".debug_{name}" for name in ("abbrev", "str_offsets", "addr", "ranges", "rnglists", "line"))
SMALLEST_PREFIX = 1 << 20  # compressed bytes from which a query decompresses only the first units


class StreamingUnsupported(Exception):
    """The units have to be read after the section was decompressed."""


def should_stream(elf: ObjectFile) -> bool:
    """Return True if a file's .debug_info is large, compressed, and needs no relocation."""
    return is_compressed(elf, SMALLEST)


def is_compressed(elf: ObjectFile, least: int, name: str = ".debug_info") -> bool:
    """Return True if a section is compressed, has at least `least` bytes, and needs no relocation."""
    section = elf.section(name)
    return section is not None and section.compressed and section.size >= least and not elf.is_relocatable


def stream_of(elf: ObjectFile, least: int, name: str = ".debug_info") -> SectionStream | None:
    """Return a compressed section as a stream; None if it has fewer bytes, or must be decompressed at once."""
    section = elf.section(name)
    if section is None or not is_compressed(elf, least, name):
        return None
    try:
        return elf.stream(section)
    except ObjectError:
        return None  # raised again to the reader of the whole section


class InfoPrefix:
    """The first bytes of .debug_info and .debug_line, as many as the units of queries needed so far.

    Threads may share it.
    """

    def __init__(self, elf: ObjectFile, file: DwarfFile, stream: SectionStream) -> None:
        self._elf, self._file, self._stream = elf, file, stream
        self._lines = stream_of(elf, 0, ".debug_line")
        self._lock = Lock()
        self._sections: Sections | None = None

    @classmethod
    def of(cls, elf: ObjectFile, file: DwarfFile) -> InfoPrefix | None:
        """Return the prefix of a file; None if its .debug_info has to be read as a whole."""
        stream = stream_of(elf, SMALLEST_PREFIX)
        return None if stream is None else cls(elf, file, stream)

    def __repr__(self) -> str:
        return f"<InfoPrefix: {self.decompressed} of {self._stream.size} bytes>"

    @property
    def decompressed(self) -> int:
        """Number of bytes that are decompressed."""
        return self._stream.done

    def sections_with(self, offsets: list[int]) -> Sections | None:
        """Return the sections with the units at these offsets of .debug_info; None if a unit is cut off."""
        with self._lock:
            if self._sections is not None:
                return self._sections if self._reach(offsets) else None
            others = threading.Thread(target=self._read_others, daemon=True)
            try:
                others.start()
            except RuntimeError:  # the system refuses a thread
                self._read_others()
                return self._sections if self._reach(offsets) else None
            reached = self._reach(offsets)
            others.join()
            return self._sections if reached else None

    def _read_others(self) -> None:
        lines, alt = self._lines, self._file.alt_sections
        sections = read_sections(self._elf, [], info=self._stream.content, alt=alt, lines=lines is None)
        if lines is not None:
            sections.debug_line = lines.content
        self._sections = sections

    def units_of(self, refs: Iterable[int]) -> set[int]:
        """Return the offsets of the units around offsets in .debug_info, by the lengths in unit headers.

        Empty if a length is wrong. Decompresses as much as it needs.
        """
        stream, order = self._stream, self._file.order
        offsets: set[int] = set()
        start = end = 0
        with self._lock:
            for ref in sorted(refs):
                while end <= ref:
                    start = end
                    if stream.size - start < SHORTEST:
                        return set()
                    stream.wait(start + SHORTEST)
                    size = unit_size(stream.content, start, order)
                    if not SHORTEST <= size <= stream.size - start:
                        return set()
                    end = start + size
                offsets.add(start)
        return offsets

    def has_lines(self, units: Units, chosen: Iterable[int]) -> bool:
        """Decompress the line programs of units, if .debug_line is compressed; return False if that fails."""
        lines = self._lines
        if lines is None:
            return True
        try:
            with self._lock:
                for index in chosen:
                    offset = units.value(index, STMT_LIST)
                    if units.value(index, HAS) & HAS_STMT_LIST and offset + SHORTEST <= lines.size:
                        lines.wait(offset + SHORTEST)
                        lines.wait(min(lines.size, offset + unit_size(lines.content, offset, self._file.order)))
        except ObjectError:
            return False
        return True

    def _reach(self, offsets: list[int]) -> bool:
        stream = self._stream
        try:
            for offset in offsets:
                stream.wait(offset + 12)
                end = offset + unit_size(stream.content, offset, self._file.order)
                if end > stream.size:
                    return False
                stream.wait(end)
        except ObjectError:
            return False
        return True

    def keep(self) -> None:
        """Decompress the rest for the file to keep. Errors are left to its readers."""
        for name, stream in ((".debug_info", self._stream), (".debug_line", self._lines)):
            section = self._elf.section(name)
            if section is not None and stream is not None:
                with self._lock, suppress(ObjectError):
                    self._elf.keep(section, stream.run())


class StreamingInfo:
    """A .debug_info that is decompressed while its units are read."""

    def __init__(self, elf: ObjectFile, file: DwarfFile, stream: SectionStream) -> None:
        self._elf, self._file, self._stream = elf, file, stream
        self._starts: list[int] = []  # of the waves
        self._kept = False
        self.problems: list[DwarfError | ObjectError] = []
        self.sections: Sections = read_sections(elf, self.problems, info=stream.content, alt=file.alt_sections)

    @classmethod
    def of(cls, elf: ObjectFile, file: DwarfFile) -> StreamingInfo | None:
        """Return one for a file; None if its .debug_info is stored, small, or part of a relocatable file."""
        stream = stream_of(elf, SMALLEST)
        return None if stream is None else cls(elf, file, stream)

    def __repr__(self) -> str:
        return f"<StreamingInfo: {self._stream.done} of {self._stream.size} bytes>"

    @property
    def source(self) -> int:
        """The source of names that are in .debug_info itself."""
        assert self.sections.refs is not None
        return self.sections.refs[0] >> OFFSET_BITS

    def waves(self, aranges: memoryview) -> Iterator[UnitSet]:
        """Yield sets of units of about two megabytes, in order. `aranges`: the bytes of .debug_aranges.

        Raises StreamingUnsupported.
        """
        file, sections = self._file, self.sections
        if not abbrevs_kernel.refs_stay_in_units(sections.debug_abbrev):
            raise StreamingUnsupported
        offset, size = 0, self._stream.size
        programs: set[int] = set()
        size_limit = BATCH
        while offset < size:
            end = min(offset + size_limit, size)
            try:
                self._stream.wait(end)
            except ObjectError:
                raise StreamingUnsupported from None
            offsets, after = whole_units(sections.debug_info, offset, end, file.order)
            if not offsets:
                if end == size:
                    raise StreamingUnsupported  # the lengths of units are wrong
                size_limit *= 2
                continue
            units = UnitSet(file, sections, offsets, aranges=aranges)
            lines = {
                value
                for value, has in zip(units.units.column(STMT_LIST), units.units.column(HAS))
                if has & HAS_STMT_LIST
            }
            if any(units.units.column(FAULT)) or programs & lines:
                raise StreamingUnsupported
            programs |= lines
            self._starts.append(offset)
            yield units
            offset, size_limit = after, BATCH

    def done_before(self, wave: int) -> None:
        """Drop the bytes of all sets before this one."""
        self._stream.forget(self._starts[wave])

    def release(self) -> None:
        """Drop all bytes of .debug_info, and the sections that only its units need."""
        self._stream.forget(self._stream.size)
        for name in ONLY_FOR_UNITS:
            self._elf.release(name)

    def keep(self) -> None:
        """Decompress the rest, for the file to keep, unless some of it was dropped already."""
        section = self._elf.section(".debug_info")
        if section is not None and not self._stream.forgotten:
            with suppress(ObjectError):
                self._elf.keep(section, self._stream.run())
                self._kept = True

    def close(self) -> None:
        """Drop the names that are in .debug_info itself, unless the file keeps it."""
        if not self._kept and self.sections.refs is not None:
            self._file.strings.sources[self.source] = memoryview(b"")


def whole_units(data: memoryview, offset: int, end: int, order: ByteOrder) -> tuple[list[int], int]:
    """Return the offsets of the units in [offset, end), by their lengths, and the end of the last."""
    offsets = []
    while end - offset >= SHORTEST:
        size = unit_size(data, offset, order)
        if size < SHORTEST:
            raise StreamingUnsupported
        if size > end - offset:
            break
        offsets.append(offset)
        offset += size
    return offsets, offset


def unit_size(data: memoryview, offset: int, order: ByteOrder) -> int:
    """Return the size of a unit from its length field; there must be twelve bytes."""
    length = int.from_bytes(data[offset : offset + 4], order)
    return 4 + length if length != DWARF64 else 12 + int.from_bytes(data[offset + 4 : offset + 12], order)
