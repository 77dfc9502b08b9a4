"""From a location's address to a vaddr of the file its mapping shows.

Profiles hold two kinds of addresses and do not say which; the mapping's limits tell them apart:

    runtime      0 < start <= address < limit (a limit of 0 is not told): the file offset is address - start + the
                 mapping's own; the segment that loads this byte of the file gives the vaddr
    normalized   start is 0 (no process maps there), or the address is outside the limits: it is a vaddr already, as
                 Parca's agent and OpenTelemetry's eBPF profiler write it

A debug file that objcopy --only-keep-debug made keeps vaddrs and sizes of segments, not where they lie in the file. Its
code is placed by a mapping of just the size of the segment; any other mapping needs the segments of the file itself.

Two executable segments may share a page of the file. Then the mapping's own file offset decides: the segment whose
first page is the mapping's first page is the mapped one.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from whence.elf.segments import Segment
from whence.locate.segments import is_nobits
from whence.profiles.model import Mapping

PAGE = 0x1000
PT_LOAD = 1
MASK = (1 << 64) - 1
NOWHERE = MASK  # no file has code in its last byte


def is_runtime(mapping: Mapping, address: int) -> bool:
    """Whether an address is one of the process, not of the file."""
    return 0 < mapping.start <= address < (mapping.limit or 1 << 64)


def with_file_range(segment: Segment, mapping: Mapping) -> Segment:
    """An executable PT_LOAD without bytes in the file (a debug file's), its file offset taken from `mapping` if that
    has exactly its pages. Other segments are returned unchanged."""
    head = segment.vaddr % PAGE
    if not is_nobits(segment) or mapping.limit - mapping.start != head + segment.memory_size + PAGE - 1 & -PAGE:
        return segment
    size = segment.memory_size
    return Segment(segment.type, segment.flags, mapping.file_offset + head, segment.vaddr, size, size, segment.align)


def can_translate(segments: Iterable[Segment], mapping: Mapping) -> bool:
    """Whether runtime addresses of a mapping can be placed by these segments."""
    return not mapping.start or not any(is_nobits(with_file_range(one, mapping)) for one in segments)


def mapped_segment(segments: Iterable[Segment], mapping: Mapping, file_offset: int) -> Segment | None:
    """The segment a byte of the file was mapped for."""
    holding = [
        segment
        for segment in segments
        if segment.type == PT_LOAD
        and segment.executable
        and segment.file_offset & -PAGE <= file_offset < segment.file_offset + max(segment.file_size, 1)
    ]
    if len(holding) > 1:
        exact = [segment for segment in holding if segment.file_offset & -PAGE == mapping.file_offset & -PAGE]
        inside = [segment for segment in exact or holding if segment.file_offset <= file_offset]
        holding = inside or exact or holding
    return holding[0] if holding else None


def holds(segments: Iterable[Segment], vaddr: int) -> bool:
    """Whether code of the file is loaded at a vaddr."""
    return any(
        segment.type == PT_LOAD and segment.executable and segment.vaddr <= vaddr < segment.vaddr + segment.memory_size
        for segment in segments
    )


def vaddrs(segments: Sequence[Segment] | None, mapping: Mapping, addresses: array[int]) -> array[int]:
    """The vaddr of each address; NOWHERE for one that no executable segment of the file holds.

    Without segments (an archive that does not say them) only a file mapped below 4 GiB can be placed: it was not moved.
    """
    out = array("Q", bytes(8 * len(addresses)))
    loaded = [one for one in (with_file_range(one, mapping) for one in segments or ()) if not is_nobits(one)]
    known: tuple[int, int, int] | None = None  # file offsets [low, high) and what to add to them
    for index, address in enumerate(addresses):
        if not is_runtime(mapping, address):
            out[index] = address if segments is None or holds(segments, address) else NOWHERE
            continue
        file_offset = address - mapping.start + mapping.file_offset
        if segments is None:
            out[index] = address if mapping.start < 1 << 32 else NOWHERE
            continue
        if known is None or not known[0] <= file_offset < known[1]:
            segment = mapped_segment(loaded, mapping, file_offset)
            if segment is None:
                out[index] = NOWHERE
                continue
            shared = sum(one.type == PT_LOAD and one.executable for one in loaded) > 1
            low = segment.file_offset if shared else segment.file_offset & -PAGE
            known = low, segment.file_offset + segment.file_size, segment.vaddr - segment.file_offset
            if not known[0] <= file_offset < known[1]:
                out[index] = file_offset + known[2] & MASK
                known = None
                continue
        out[index] = file_offset + known[2] & MASK
    return out
