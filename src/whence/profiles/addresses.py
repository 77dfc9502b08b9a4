"""From a location's address to a vaddr of the file its mapping shows.

Profiles hold two kinds of addresses and do not say which; the mapping's bounds decide:

    runtime      0 < start <= address < end (an end of 0 is unknown): the file offset is address - start + the
                 mapping's own; the segment that loads this byte of the file says the vaddr
    normalized   start is 0 (no process maps there), or the address is outside its bounds: it is a vaddr already, as
                 Parca's agent and OpenTelemetry's eBPF profiler write it

A debug file that objcopy --only-keep-debug made keeps vaddrs and sizes of segments, not where they lie in the file. Its
code is placed by a mapping of just the size of the segment; any other mapping needs the segments of the file itself.

Two executable segments may share a page of the file. Then the mapping's own file offset decides: the segment whose
first page is the mapping's first page is the mapped one.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence

from whence.elf.kernels.constants import PT_LOAD
from whence.elf.segments import SMALLEST_PAGE as PAGE
from whence.elf.segments import Segment, Translation
from whence.kernels import rows
from whence.lidia.chains import longs
from whence.profiles.model import Mapping

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
    code = Translation.of_code(segments or ())
    mapped = code.with_file_ranges(extent(mapping))
    if segments is not None and addresses:
        moved = _moved_alike(mapped, mapping, min(addresses), max(addresses))
        if moved is not None:
            return longs(rows.moved(addresses, moved & MASK))
    out = array("Q", bytes(8 * len(addresses)))
    known: tuple[int, int, int] | None = None  # file offsets [low, high) and what to add to them
    for index, address in enumerate(addresses):
        if not is_runtime(mapping, address):
            out[index] = address if segments is None else _in_code(segments, code, address)
            continue
        file_offset = address - mapping.start + mapping.file_offset
        if segments is None:
            out[index] = address if mapping.start < 1 << 32 else NOWHERE
            continue
        if known is None or not known[0] <= file_offset < known[1]:
            known = _span(mapped, mapping, file_offset)
            if known is None:
                out[index] = NOWHERE
                continue
            if not known[0] <= file_offset < known[1]:
                out[index] = file_offset + known[2] & MASK
                known = None
                continue
        out[index] = file_offset + known[2] & MASK
    return out


def _in_code(segments: Sequence[Segment], code: Translation, address: int) -> int:
    """A vaddr of the code, given as it is or counted from the image's first page, as Firefox's profiles have it."""
    if code.holds(address):
        return address
    first = min((one.vaddr for one in segments if one.type == PT_LOAD), default=0) & -PAGE
    return address + first if 0 <= address < first and code.holds(address + first) else NOWHERE


def _span(mapped: Translation, mapping: Mapping, file_offset: int) -> tuple[int, int, int] | None:
    """The file offsets [low, high) of the segment a byte was mapped for, and what to add to them for vaddrs."""
    segment = mapped.segment_holding(file_offset, mapping.file_offset)
    if segment is None:
        return None
    shared = sum(not one.is_nobits for one in mapped.segments) > 1
    low = segment.file_offset if shared else segment.file_offset & -PAGE
    return low, segment.file_end, segment.vaddr - segment.file_offset


def _moved_alike(mapped: Translation, mapping: Mapping, lowest: int, highest: int) -> int | None:
    """What makes vaddrs of all addresses in [lowest, highest] where they are of one segment, as nearly always."""
    if not (is_runtime(mapping, lowest) and is_runtime(mapping, highest)):
        return None
    to_file = mapping.file_offset - mapping.start
    span = _span(mapped, mapping, lowest + to_file)
    if span is None or lowest + to_file < span[0] or highest + to_file >= span[1]:
        return None
    return to_file + span[2]
