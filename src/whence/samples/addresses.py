"""Translate the addresses of a profile to vaddrs of the mapped file.

Profiles have two kinds of addresses, distinguished by the bounds of the mapping:

    runtime      0 < start <= address < end (an end of 0 is unknown): the file offset is address - start + the
                 mapping's offset; the segment that loads this byte of the file gives the vaddr
    normalized   start is 0 (no process maps there), or the address is outside the mapping: it is already a vaddr, as
                 Parca's agent and OpenTelemetry's eBPF profiler write it

A debug file made by objcopy --only-keep-debug has the vaddrs and sizes of segments, but not their file offsets. They
follow from a mapping that has the size of a segment; any other mapping needs the segments of the file itself.

If two executable segments share a page of the file, the mapping decides (`elf.segments.Translation.segment_of`). Its
end is ignored if no segment ends there, as profiles join mappings.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import compress

from whence.kernels import rows
from whence.lidia.chains import u64_array
from whence.objects.elf.kernels.constants import PT_LOAD
from whence.objects.elf.segments import SMALLEST_PAGE as PAGE
from whence.objects.elf.segments import Segment, Translation
from whence.samples.model import Mapping

MASK = (1 << 64) - 1
NOWHERE = MASK  # never a vaddr of code


def is_runtime(mapping: Mapping, address: int) -> bool:
    """Return True if an address is a runtime address, not a vaddr."""
    return 0 < mapping.start <= address < (mapping.end or 1 << 64)


def extent(mapping: Mapping) -> tuple[int, int]:
    """Return the mapped range of the file: offsets of start and end."""
    return mapping.file_offset, mapping.file_offset + mapping.end - mapping.start


def can_translate(segments: Iterable[Segment], mapping: Mapping) -> bool:
    """Return True if runtime addresses of a mapping can be translated with these segments."""
    return not mapping.start or not Translation.of_code(segments).with_file_ranges(extent(mapping)).has_nobits


def vaddrs(segments: Sequence[Segment] | None, mapping: Mapping, addresses: array[int]) -> array[int]:
    """Return the vaddr of each address; NOWHERE if it is in no executable segment.

    Without segments (an archive without them), runtime addresses are vaddrs below 4 GiB: such a file was not relocated.
    """
    if segments is None:
        below = mapping.start < 1 << 32
        return array("Q", [address if below or not is_runtime(mapping, address) else NOWHERE for address in addresses])
    code = Translation.of_code(segments)
    mapped = code.with_file_ranges(extent(mapping))
    to_file = mapping.file_offset - mapping.start
    if addresses and is_runtime(mapping, min(addresses)) and is_runtime(mapping, max(addresses)):
        segment = _only_segment(mapped, mapping, min(addresses) + to_file, max(addresses) + to_file)
        if segment is not None:
            return u64_array(rows.moved(addresses, to_file + segment.vaddr - segment.file_offset & MASK))
    runtime = [is_runtime(mapping, address) for address in addresses]
    moved = mapped.mapped_vaddrs_of(
        (address + to_file for address in compress(addresses, runtime)), _known_extent(mapping)
    )
    out = array("Q")
    for address, is_moved in zip(addresses, runtime, strict=True):
        vaddr = next(moved) if is_moved else _in_code(segments, code, address)
        out.append(NOWHERE if vaddr is None else vaddr)
    return out


def _known_extent(mapping: Mapping) -> tuple[int, int | None]:
    start, end = extent(mapping)
    return start, end if mapping.end else None


def _only_segment(mapped: Translation, mapping: Mapping, lowest: int, highest: int) -> Segment | None:
    """Return the segment of all file offsets in [lowest, highest]; None if it is not clear."""
    start, end = _known_extent(mapping)
    segments = mapped.made(start, end) if end is not None else []
    if not segments and len(mapped.segments) == 1:
        ends = [mapped.segment_of(offset, (start, end)) for offset in (lowest, highest)]
        segments = list(mapped.segments) if all(ends) else []
    return segments[0] if len(segments) == 1 else None


def _in_code(segments: Sequence[Segment], code: Translation, address: int) -> int:
    """Return the vaddr of an address that is a vaddr, or relative to the first page of the image as in Firefox."""
    if code.holds(address):
        return address
    first = min((segment.vaddr for segment in segments if segment.type == PT_LOAD), default=0) & -PAGE
    return address + first if 0 <= address < first and code.holds(address + first) else NOWHERE
