"""Ranges of code, by segments and sections.

Flags are believed if they say "code". If they don't, bare-metal toolchains have their own ways: executable sections in
a segment that is only readable and writable, code in a section without SHF_EXECINSTR. The kernel maps by PF_X alone
(whence.procmap), so these are for names only.
"""

from __future__ import annotations

from bisect import bisect_left

from whence.objects.elf.sections import Section
from whence.objects.elf.segments import Segment

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Sequence

Range = tuple[int, int]  # [start, end) in vaddrs


def code_segments(sections: Sequence[Section], segments: Sequence[Segment]) -> list[Segment]:
    """Return the PT_LOAD segments that are executable or have an executable section in them."""
    starts = sorted(section.vaddr for section in sections if section.executable and section.allocated and section.size)

    def has_section(segment: Segment) -> bool:
        return bisect_left(starts, segment.vaddr) < bisect_left(starts, segment.end)

    return [segment for segment in segments if segment.is_loaded and (segment.executable or has_section(segment))]


def code_ranges(sections: Sequence[Section], segments: Sequence[Segment]) -> list[Range]:
    """Return executable sections, or else segments with code, in the order of their table, without empty ones."""
    ranges = [
        (section.vaddr, section.vaddr + section.size)
        for section in sections
        if section.executable and section.allocated and section.size
    ]
    return ranges or [
        (segment.vaddr, segment.end) for segment in code_segments(sections, segments) if segment.memory_size
    ]


def loaded_ranges(sections: Sequence[Section], segments: Sequence[Segment]) -> list[Range]:
    """Return everything loaded, by sections or else segments, except ranges that are empty or start at 0."""
    ranges = [
        (section.vaddr, section.vaddr + section.size) for section in sections if section.allocated and section.size
    ]
    if not ranges:
        ranges = [(segment.vaddr, segment.end) for segment in segments if segment.is_loaded and segment.memory_size]
    return [bounds for bounds in ranges if bounds[0]]
