"""The segment table: what the loader maps, and so how file offsets and vaddrs correspond."""

from __future__ import annotations

from collections.abc import Iterable

from whence.elf import layout
from whence.elf.header import Header, entries
from whence.elf.kernels import constants
from whence.records import Record


class Segment(Record, frozen=True):
    """One program header. Bytes [file_offset, file_offset + file_size) are at vaddr; up to memory_size come zeros."""

    type: int
    flags: int
    file_offset: int
    vaddr: int
    file_size: int
    memory_size: int
    align: int

    @property
    def executable(self) -> bool:
        return bool(self.flags & constants.PF_X)


def read_segments(data: memoryview, header: Header) -> tuple[Segment, ...]:
    rows = entries(data, header, header.segments, layout.SEGMENT[header.bits], "segment table")
    if header.bits == 64:
        return tuple(
            Segment(type_, flags, offset, vaddr, file_size, memory_size, align)
            for type_, flags, offset, vaddr, _, file_size, memory_size, align in rows
        )
    return tuple(
        Segment(type_, flags, offset, vaddr, file_size, memory_size, align)
        for type_, offset, vaddr, _, file_size, memory_size, flags, align in rows
    )


def loaded(segments: Iterable[Segment]) -> list[Segment]:
    """The PT_LOAD segments, executable ones first: where two claim a byte of the file, the code's mapping answers."""
    return sorted((s for s in segments if s.type == constants.PT_LOAD), key=lambda s: not s.executable)


def vaddr_of(segments: Iterable[Segment], file_offset: int) -> int | None:
    """The vaddr a byte of the file is loaded at; None when no segment loads it. `segments` as `loaded` gives them."""
    for segment in segments:
        if segment.file_offset <= file_offset < segment.file_offset + segment.file_size:
            return file_offset - segment.file_offset + segment.vaddr
    return None


def file_offset_of(segments: Iterable[Segment], vaddr: int) -> int | None:
    """Where a vaddr's byte lies in the file; None when no segment loads it from the file."""
    for segment in segments:
        if segment.vaddr <= vaddr < segment.vaddr + segment.file_size:
            return vaddr - segment.vaddr + segment.file_offset
    return None
