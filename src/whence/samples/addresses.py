"""From a location's address to a vaddr of the file its mapping shows.

Profiles hold two kinds of addresses and do not say which; the mapping's bounds decide:

    runtime      0 < start <= address < end (an end of 0 is unknown): the file offset is address - start + the
                 mapping's own; the segment that loads this byte of the file says the vaddr
    normalized   start is 0 (no process maps there), or the address is outside its bounds: it is a vaddr already, as
                 Parca's agent and OpenTelemetry's eBPF profiler write it

A debug file that objcopy --only-keep-debug made keeps vaddrs and sizes of segments, not where they lie in the file. Its
code is placed by a mapping of just the size of the segment; any other mapping needs the segments of the file itself.

Two executable segments may share a page of the file: the mapping decides (`elf.segments.Translation.segment_of`), whose
end is ignored where no segment can have made it, as profiles join mappings.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from itertools import compress

from whence.kernels import rows
from whence.lidia.chains import longs
from whence.objects.elf.kernels.constants import PT_LOAD
from whence.objects.elf.segments import SMALLEST_PAGE as PAGE
from whence.objects.elf.segments import Segment, Translation
from whence.samples.model import Mapping

MASK = (1 << 64) - 1
NOWHERE = MASK  # no file has code in its last byte


def is_runtime(mapping: Mapping, address: int) -> bool:
    """Whether an address is one of the process, not of the file."""
    return 0 < mapping.start <= address < (mapping.end or 1 << 64)


def extent(mapping: Mapping) -> tuple[int, int]:
    """What a mapping shows of its file: the first byte and the one behind the last."""
    return mapping.file_offset, mapping.file_offset + mapping.end - mapping.start


def can_translate(segments: Iterable[Segment], mapping: Mapping) -> bool:
    """Whether runtime addresses of a mapping can be placed by these segments."""
    return not mapping.start or not Translation.of_code(segments).with_file_ranges(extent(mapping)).has_nobits


def vaddrs(segments: Sequence[Segment] | None, mapping: Mapping, addresses: array[int]) -> array[int]:
    """The vaddr of each address; NOWHERE for one that no executable segment of the file holds.

    Without segments (an archive that does not say them) only a file mapped below 4 GiB can be placed: it was not moved.
    """
    if segments is None:
        below = mapping.start < 1 << 32
        return array("Q", [one if below or not is_runtime(mapping, one) else NOWHERE for one in addresses])
    code = Translation.of_code(segments)
    mapped = code.with_file_ranges(extent(mapping))
    to_file = mapping.file_offset - mapping.start
    if addresses and is_runtime(mapping, min(addresses)) and is_runtime(mapping, max(addresses)):
        segment = _only_segment(mapped, mapping, min(addresses) + to_file, max(addresses) + to_file)
        if segment is not None:
            return longs(rows.moved(addresses, to_file + segment.vaddr - segment.file_offset & MASK))
    runtime = [is_runtime(mapping, address) for address in addresses]
    moved = mapped.mapped_vaddrs_of((one + to_file for one in compress(addresses, runtime)), _known_extent(mapping))
    out = array("Q")
    for address, is_moved in zip(addresses, runtime, strict=True):
        vaddr = next(moved) if is_moved else _in_code(segments, code, address)
        out.append(NOWHERE if vaddr is None else vaddr)
    return out


def _known_extent(mapping: Mapping) -> tuple[int, int | None]:
    start, end = extent(mapping)
    return start, end if mapping.end else None


def _only_segment(mapped: Translation, mapping: Mapping, lowest: int, highest: int) -> Segment | None:
    """The segment of every byte of the file in [lowest, highest], where no other can be, as nearly always."""
    start, end = _known_extent(mapping)
    made = mapped.made(start, end) if end is not None else []
    if not made and len(mapped.segments) == 1:
        ends = [mapped.segment_of(one, (start, end)) for one in (lowest, highest)]
        made = list(mapped.segments) if all(ends) else []
    return made[0] if len(made) == 1 else None


def _in_code(segments: Sequence[Segment], code: Translation, address: int) -> int:
    """A vaddr of the code, given as it is or counted from the image's first page, as Firefox's profiles have it."""
    if code.holds(address):
        return address
    first = min((one.vaddr for one in segments if one.type == PT_LOAD), default=0) & -PAGE
    return address + first if 0 <= address < first and code.holds(address + first) else NOWHERE
