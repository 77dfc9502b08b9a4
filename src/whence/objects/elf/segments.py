"""The segment table: what the loader maps, and so how file offsets and vaddrs correspond (gABI, "Program Loading").

A loader maps whole pages: a segment's mapping starts at its p_offset rounded down to a page, so the bytes before
p_offset on that page are in memory too, and belong to the segment's addresses. Two segments may share a page of the
file; then an offset alone is ambiguous, but the extent of its mapping is not (pprof's rule): only a segment whose pages
contain the whole mapping can have caused it.

The page is the segment's own alignment, within what machines have as page sizes (4 to 64 KiB), not that of the
machine we run on: mappings may come from another one.
"""

from __future__ import annotations

from bisect import bisect_right

from whence._base.records import Record
from whence.objects.elf import layout
from whence.objects.elf.header import Header, entries
from whence.objects.elf.kernels import constants
from whence.objects.elf.layout import ELF64
from whence.objects.parts import ObjectSegment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    Extent = tuple[int, int | None]

WIDTH = (1 << 64) - 1
SMALLEST_PAGE, LARGEST_PAGE = 1 << 12, 1 << 16
LLD_ADDS, BASES = 1 << 16, 1 << 21  # more bytes than LLD adds before code; linkers place programs at multiples


class Segment(Record, ObjectSegment, frozen=True):
    """A program header: bytes [file_offset, file_offset + file_size) at vaddr, then zeros up to memory_size."""

    type: int
    flags: int
    file_offset: int
    vaddr: int
    file_size: int
    memory_size: int
    align: int

    @classmethod
    def of_code(cls, file_offset: int, vaddr: int, size: int, align: int = SMALLEST_PAGE) -> Segment:
        """Return a readable and executable PT_LOAD segment, all of it in the file."""
        return cls(constants.PT_LOAD, constants.PF_R | constants.PF_X, file_offset, vaddr, size, size, align)

    @property
    def executable(self) -> bool:
        return bool(self.flags & constants.PF_X)

    @property
    def writable(self) -> bool:
        return bool(self.flags & constants.PF_W)

    @property
    def is_loaded(self) -> bool:
        return self.type == constants.PT_LOAD

    @property
    def is_nobits(self) -> bool:
        """True if it is loaded, but has no bytes in the file: in debug files of objcopy --only-keep-debug."""
        return self.type == constants.PT_LOAD and self.memory_size > 0 and not self.file_size

    @property
    def page(self) -> int:
        """The alignment of the mapping's start."""
        align = self.align
        if align & (align - 1) or (self.file_offset - self.vaddr) % (align or 1):
            return SMALLEST_PAGE
        return min(max(align, SMALLEST_PAGE), LARGEST_PAGE)

    def covers(self, start: int, end: int, page: int) -> bool:
        """Return True if the pages that a loader maps for this segment contain bytes [start, end) of the file."""
        file_end = self.file_end
        return self.file_offset & -page <= start and end <= file_end + (-file_end % page)

    @property
    def bounds(self) -> tuple[int, ...]:
        """The file offsets of the first and after the last byte of its pages."""
        starts = [self.file_offset & -page for page in (SMALLEST_PAGE, self.page)]
        ends = [self.file_end + (-self.file_end % page) for page in (SMALLEST_PAGE, self.page)]
        return self.file_offset, self.file_end, *starts, *ends

    def vaddr_of(self, file_offset: int) -> int:
        """Return the vaddr (modulo 2^64) of a byte of the file, which may be outside the segment."""
        return (self.vaddr + file_offset - self.file_offset) & WIDTH


def read_segments(data: memoryview, header: Header) -> tuple[Segment, ...]:
    rows = entries(data, header, header.segments, layout.SEGMENT[header.bits], "segment table")
    if header.bits == ELF64:
        return tuple(
            Segment(type_, flags, offset, vaddr, file_size, memory_size, align)
            for type_, flags, offset, vaddr, _, file_size, memory_size, align in rows
        )
    return tuple(
        Segment(type_, flags, offset, vaddr, file_size, memory_size, align)
        for type_, offset, vaddr, _, file_size, memory_size, flags, align in rows
    )


class Translation:
    """File offsets of a file to vaddrs and back, by its PT_LOAD segments. Immutable and thread-safe.

    An extent is the part of the file that a mapping shows: (first byte, end), the end None if unknown. `segment_of` is
    the rule by which processes, cores, profiles, tables and logs get from a mapping and a byte of the file to a vaddr.

    >>> translation = Translation([Segment.of_code(0x1234, 0x400000, 0x2000)])
    >>> [hex(translation.mapped_vaddr_of(offset)) for offset in (0x1000, 0x1234)]
    ['0x3ffdcc', '0x400000']
    >>> print(translation.vaddr_of(0x1000))
    None
    """

    __slots__ = ("segments",)

    def __init__(self, segments: Iterable[Segment]) -> None:
        """Use all loaded segments, executable ones first: of two with the same byte, code is preferred."""
        loaded = (segment for segment in segments if segment.type == constants.PT_LOAD)
        self.segments = tuple(sorted(loaded, key=lambda segment: not segment.executable))

    @classmethod
    def of_code(cls, segments: Iterable[Segment]) -> Translation:
        """Return a translation by executable segments alone, in order of file offset."""
        code = (segment for segment in segments if segment.executable)
        return cls(sorted(code, key=lambda segment: (segment.file_offset, segment.vaddr)))

    def __repr__(self) -> str:
        shown = ", ".join(
            f"{segment.file_offset:#x} -> {segment.vaddr:#x} ({segment.file_size} bytes)" for segment in self.segments
        )
        return f"<Translation {shown or 'of nothing'}>"

    def vaddr_of(self, file_offset: int) -> int | None:
        """Return the vaddr at which a byte of the file is loaded; None if no segment has it."""
        for segment in self.segments:
            if segment.file_offset <= file_offset < segment.file_offset + segment.file_size:
                return file_offset - segment.file_offset + segment.vaddr
        return None

    def file_offset_of(self, vaddr: int) -> int | None:
        """Return the file offset of the byte at a vaddr; None if no segment loads it from the file."""
        for segment in self.segments:
            if segment.vaddr <= vaddr < segment.vaddr + segment.file_size:
                return vaddr - segment.vaddr + segment.file_offset
        return None

    def mapped_vaddr_of(self, file_offset: int, extent: Extent | None = None) -> int | None:
        """Return the vaddr (modulo 2^64) that a byte of the file is mapped at, by `segment_of`."""
        segment = self.segment_of(file_offset, extent)
        return None if segment is None else segment.vaddr_of(file_offset)

    def mapped_vaddrs_of(self, file_offsets: Iterable[int], extent: Extent | None = None) -> Iterator[int | None]:
        """Yield `mapped_vaddr_of` of each byte of the file, with one `segment_of` for each stretch."""
        bounds = sorted({bound for segment in self.segments for bound in segment.bounds})
        by_stretch: dict[int, Segment | None] = {}
        for file_offset in file_offsets:
            stretch = bisect_right(bounds, file_offset)
            if stretch not in by_stretch:
                by_stretch[stretch] = self.segment_of(file_offset, extent)
            segment = by_stretch[stretch]
            yield None if segment is None else segment.vaddr_of(file_offset)

    def segment_of(self, file_offset: int, extent: Extent | None = None) -> Segment | None:
        """Return the segment that a byte of the file is mapped for; None if no segment's pages have it.

        `extent` is the part of the file that the byte's mapping shows. Only a segment whose pages contain the whole
        mapping can have caused it. Without one (profiles join mappings), or if the end is unknown, the
        pages must contain the mapping from its start to the byte; failing that, the byte. Without an extent a byte past
        p_filesz on the segment's last page is in no segment.

        Of several segments, the first match in this order is used: exactly the mapping's pages; the same first page
        (mprotect splits mappings); contains the byte; has the largest part of the mapping.
        """
        start, end = extent or (None, None)
        limit = file_offset + 1
        segments: Sequence[Segment] = self.made(start, end) if start is not None and end is not None else ()
        if not segments and start is not None:
            segments = self.made(start, limit)
        if not segments:
            segments = [segment for segment in self.made(file_offset, limit) if file_offset < segment.file_end]

        def likeness(segment: Segment) -> tuple[bool, bool, bool, int]:
            file_end = segment.file_end
            first, last = segment.file_offset & -SMALLEST_PAGE, file_end + (-file_end % SMALLEST_PAGE)
            holds = segment.file_offset <= file_offset < file_end
            shared = min(file_end, end or limit) - max(segment.file_offset, file_offset if start is None else start)
            return first == start and last == end, first == start, holds, shared

        return max(segments, key=likeness) if len(segments) > 1 else segments[0] if segments else None

    def made(self, start: int, end: int) -> list[Segment]:
        """Return the segments whose pages hold bytes [start, end) of the file, and so can have made that mapping."""
        # The machine's page is not known here: the smallest one separates most segments, else the segment's own counts.
        in_file = [segment for segment in self.segments if segment.file_size]
        return [segment for segment in in_file if segment.covers(start, end, SMALLEST_PAGE)] or [
            segment for segment in in_file if segment.covers(start, end, segment.page)
        ]

    def holds(self, vaddr: int) -> bool:
        """Return True if a segment has the vaddr in memory, in the file or not."""
        return any(segment.vaddr <= vaddr < segment.vaddr + segment.memory_size for segment in self.segments)

    @property
    def has_nobits(self) -> bool:
        """True if the file offset of some segment is unknown, as in debug files."""
        return any(segment.is_nobits for segment in self.segments)

    def with_file_ranges(self, extent: tuple[int, int]) -> Translation:
        """Return a translation in which segments without bytes in the file take the offsets of mappings.

        Only segments (`Segment.is_nobits`) with exactly a mapping's pages are changed.
        """
        start, end = extent

        def with_file_range(segment: Segment) -> Segment:
            head = segment.vaddr % SMALLEST_PAGE
            if not segment.is_nobits or end - start != head + segment.memory_size + SMALLEST_PAGE - 1 & -SMALLEST_PAGE:
                return segment
            size = segment.memory_size
            return Segment(segment.type, segment.flags, start + head, segment.vaddr, size, size, segment.align)

        return Translation(map(with_file_range, self.segments)) if self.has_nobits else self


def image_base(segments: Iterable[Segment], *, only_code: bool = False) -> int:
    """Return the start of the image: the lowest loaded vaddr, rounded down to its page.

    `only_code`: the other segments are unknown. Linkers put code at the same distance from the start of the image as
    from the start of the file; LLD adds a page for each segment before it. The first section of a PE file is a page
    after the start of the image, and nearer to the start of the file.

    >>> hex(image_base([Segment.of_code(0x1c40, 0x203c40, 0x800)], only_code=True))
    '0x200000'
    >>> hex(image_base([Segment.of_code(0x400, 0x140001000, 0x2000)], only_code=True))
    '0x140000000'
    """
    first = min((each for each in segments if each.is_loaded), key=lambda segment: segment.vaddr, default=None)
    if first is None or not only_code:
        return 0 if first is None else first.vaddr & -first.page
    distance = max(first.vaddr - first.file_offset, 0) & -SMALLEST_PAGE
    return distance - distance % LLD_ADDS if distance % BASES < LLD_ADDS else distance
