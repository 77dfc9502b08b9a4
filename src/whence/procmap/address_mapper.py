"""From a byte of an ELF file to the vaddr it is loaded at, and back.

The kernel maps whole pages: a segment's mapping starts at its p_offset rounded down to a page, so the bytes before
p_offset on that page are in memory too, and belong to the segment's addresses. Two segments may share a page of the
file; then an offset alone is ambiguous, and the extent of the mapping it came from is not (pprof's rule): only a
segment whose pages hold the whole mapping can have made it.

    >>> mapper = AddressMapper.from_segments([LoadSegment(0x1234, 0x400000, 0x2000)])
    >>> [hex(mapper.file_offset_to_virtual_address(offset)) for offset in (0x1000, 0x1234)]
    ['0x3ffdcc', '0x400000']
    >>> mapper.file_offset_to_virtual_address(0x3234) is None
    True

The page is the segment's own alignment, within what machines have as page sizes (4 to 64 KiB), not that of the
machine we run on: mappings may come from another one.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TYPE_CHECKING, NamedTuple

from whence.elf.kernels import constants
from whence.errors import ElfError
from whence.files import open_regular
from whence.procmap.build_id import whole_elf

if TYPE_CHECKING:
    from whence.elf import ElfFile
    from whence.procmap.mapping import Mapping

WIDTH = (1 << 64) - 1
SMALLEST_PAGE, LARGEST_PAGE = 1 << 12, 1 << 16


class LoadSegment(NamedTuple):
    """An executable PT_LOAD segment: bytes [file_offset, file_offset + file_size) of the file are at vaddr."""

    file_offset: int
    vaddr: int
    file_size: int
    align: int = SMALLEST_PAGE

    @property
    def page(self) -> int:
        """What the mapping's start is rounded to."""
        align = self.align
        if align & (align - 1) or (self.file_offset - self.vaddr) % (align or 1):
            return SMALLEST_PAGE
        return min(max(align, SMALLEST_PAGE), LARGEST_PAGE)

    @property
    def end(self) -> int:
        return self.file_offset + self.file_size

    def covers(self, start: int, end: int, page: int) -> bool:
        """Whether the pages the kernel maps for this segment hold bytes [start, end) of the file."""
        return self.file_offset & -page <= start and end <= self.end + (-self.end % page)

    def vaddr_of(self, file_offset: int) -> int:
        return (self.vaddr + file_offset - self.file_offset) & WIDTH


class AddressMapper:
    """The executable segments of one ELF file. Unchanging, safe for use from many threads."""

    __slots__ = ("segments",)

    def __init__(self, path: str | os.PathLike[str]) -> None:
        """Read the program headers of the file at `path` (see Mapping.openable_path). Raises OSError, ElfError."""
        with open_regular(path, ElfError) as (descriptor, _), whole_elf(descriptor, os.fspath(path)) as elf:
            self.segments = executable_segments(elf)

    @classmethod
    def from_segments(cls, segments: Iterable[LoadSegment]) -> AddressMapper:
        mapper = cls.__new__(cls)
        mapper.segments = tuple(segments)
        return mapper

    @classmethod
    def from_elf(cls, elf: ElfFile) -> AddressMapper:
        return cls.from_segments(executable_segments(elf))

    def file_offset_to_virtual_address(self, file_offset: int, mapping: Mapping | None = None) -> int | None:
        """The vaddr (modulo 2^64) of a byte of the file; None outside every executable segment.

        Accepts [p_offset rounded down to the page, p_offset + p_filesz). With the mapping that the offset came from,
        the segment that made the mapping answers, also for the bytes behind p_filesz on its last page.
        """
        if mapping is not None:
            maker = self.segment_of(mapping, file_offset)
            if maker is not None:
                return maker.vaddr_of(file_offset)
        before = None
        for segment in self.segments:
            if segment.file_offset <= file_offset < segment.end:
                return segment.vaddr_of(file_offset)
            if before is None and segment.file_offset & -segment.page <= file_offset < segment.end:
                before = segment
        return None if before is None else before.vaddr_of(file_offset)

    def segment_of(self, mapping: Mapping, file_offset: int | None = None) -> LoadSegment | None:
        """The segment that the kernel made a mapping of; None when none has its extent.

        Of several the one with the very extent counts, then one that starts with it (mprotect cuts mappings), then the
        one that has the byte at `file_offset`, then the one that has most of the mapping.
        """
        start, end = mapping.offset, mapping.offset + mapping.size

        def likeness(segment: LoadSegment) -> tuple[bool, bool, bool, int]:
            first, last = segment.file_offset & -SMALLEST_PAGE, segment.end + (-segment.end % SMALLEST_PAGE)
            holds = file_offset is not None and segment.file_offset <= file_offset < segment.end
            shared = min(segment.end, end) - max(segment.file_offset, start)
            return first == start and last == end, first == start, holds, shared

        # The machine's page is not known here: the smallest page tells most apart, the segment's own is the way out.
        for small in (True, False):
            found = [s for s in self.segments if s.covers(start, end, SMALLEST_PAGE if small else s.page)]
            if found:
                return max(found, key=likeness) if len(found) > 1 else found[0]
        return None

    def virtual_address_to_file_offset(self, vaddr: int) -> int | None:
        """The byte of the file that is loaded at a vaddr; None outside every executable segment."""
        for segment in self.segments:
            if segment.vaddr <= vaddr < segment.vaddr + segment.file_size:
                return vaddr - segment.vaddr + segment.file_offset
        return None

    def vaddr(self, mapping: Mapping, runtime: int) -> int | None:
        """The vaddr of a runtime address inside a mapping of this file."""
        return self.file_offset_to_virtual_address(mapping.file_offset(runtime), mapping)

    def runtime(self, mapping: Mapping, vaddr: int) -> int | None:
        """The runtime address of a vaddr in a mapping of this file; None when the mapping does not hold it."""
        maker = self.segment_of(mapping)
        if maker is None:
            return None
        at = vaddr - maker.vaddr + maker.file_offset - mapping.offset + mapping.start
        return at if mapping.start <= at < mapping.limit else None


def executable_segments(elf: ElfFile) -> tuple[LoadSegment, ...]:
    """The executable PT_LOAD segments of an ELF file, by file offset. Raises ElfError when the table is damaged."""
    loads = [s for s in elf.segments if s.type == constants.PT_LOAD and s.executable and s.file_size]
    if not loads and elf.problems:
        raise elf.problems[0]
    return tuple(sorted(LoadSegment(s.file_offset, s.vaddr, s.file_size, s.align) for s in loads))
