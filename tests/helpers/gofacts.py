"""What tests ask of a table of ranges: the chain of frames at a vaddr, by the shortest road there is."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable

from whence.ranges import Ranges

Chain = list[tuple[str, str, int]]


def chains(ranges: Ranges) -> Callable[[int], Chain]:
    """A lookup over ranges in (vaddr, depth) order: (function, file, line), innermost first; [] when nothing is
    there."""
    text = ranges.strings.text
    tops = [index for index, depth in enumerate(ranges.depth) if depth == 0]
    starts = [ranges.vaddr[index] for index in tops]

    def chain(vaddr: int) -> Chain:
        offset = bisect_right(starts, vaddr) - 1
        if offset < 0:
            return []
        until = tops[offset + 1] if offset + 1 < len(tops) else len(ranges)
        frames: Chain = []
        site: tuple[int, int] | None = None
        covering = [
            i for i in range(tops[offset], until) if ranges.vaddr[i] <= vaddr < ranges.vaddr[i] + ranges.length[i]
        ]
        for index in reversed(covering):
            file, line = site or (ranges.file[index], line_at(ranges, index, vaddr))
            frames.append((text(ranges.function[index]), text(file), line))
            site = ranges.call_file[index], ranges.call_line[index]
        return frames

    return chain


def line_at(ranges: Ranges, index: int, vaddr: int) -> int:
    line = 0
    first = ranges.line_index[index]
    for row in range(first, first + ranges.line_count[index]):
        if ranges.vaddr[index] + ranges.line_offset[row] > vaddr:
            break
        line = ranges.line_number[row]
    return line
