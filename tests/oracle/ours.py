"""What whence says, found in the ranges table itself: a second reader beside the archive's, slow and plain."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import whence
from tests.oracle.witnesses import Call, Chain, normal
from whence._base.model import Frames
from whence.locate.debug_files import DebugFiles
from whence.objects.opening import open_object
from whence.producers import Producers
from whence.ranges import Ranges


def chain(ranges: Ranges, address: int) -> Chain:
    """The chain of an address, by walking back from the last range that begins at or before it."""
    offset = bisect_right(ranges.vaddr, address) - 1
    holding = []
    while offset >= 0:
        if address < ranges.vaddr[offset] + ranges.length[offset]:
            holding.append(offset)
        if ranges.depth[offset] == 0:
            break
        offset -= 1
    text = ranges.strings.text
    calls, inner = [], -1
    for offset in holding:
        if inner < 0:
            file, line = ranges.file[offset], line_of(ranges, offset, address)
        else:
            file, line = ranges.call_file[inner], ranges.call_line[inner]
        calls.append(Call(text(ranges.function[offset]), normal(text(file)), line))
        inner = offset
    return tuple(calls)


def line_of(ranges: Ranges, at: int, address: int) -> int:
    first = ranges.line_index[at]
    last = first + ranges.line_count[at]
    row = bisect_right(ranges.line_offset, address - ranges.vaddr[at], first, last) - 1
    return ranges.line_number[row] if row >= first else 0


def answers(path: str, addresses: Sequence[int]) -> list[Chain]:
    with open_object(path) as file, Producers(file, complete=DebugFiles().complete) as producers:
        ranges = producers.ranges()
        return [chain(ranges, address) for address in addresses]


def frames(path: str, addresses: Sequence[int]) -> list[Frames]:
    """The frames as people get them."""
    with whence.open(path) as binary:
        return list(binary.lookup_many(addresses))


def from_archive(path: str, addresses: Sequence[int]) -> list[Chain]:
    """The same through the door people use: whence.open, an archive in memory, its compiled reader."""
    with whence.open(path) as binary:
        return [
            tuple(Call(frame.function, normal(frame.file), frame.line) for frame in frames)
            for frames in binary.lookup_many(addresses)
        ]
