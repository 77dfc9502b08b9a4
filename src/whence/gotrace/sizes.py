"""Correct batch sizes, which go stale when a text form is edited."""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

from whence.gotrace.faults import cut_short, wire_fault
from whence.gotrace.feed import Feed
from whence.gotrace.header import read_wire_header
from whence.gotrace.kernels import batches as batches_kernel
from whence.gotrace.kernels.constants import CUT, END_OF_GENERATION, EXPERIMENTAL_BATCH, FINE, FULL
from whence.gotrace.kernels.event import Event, padded
from whence.gotrace.specs import Version, layout, usable
from whence.gotrace.tables import events_in

if TYPE_CHECKING:
    from whence.gotrace.feed import Source


class Framed:
    """Cuts a binary trace before each batch header by walking its events: yields (offset, bytes).

    Bytes before the first header are a piece of their own. Memory: the largest batch.
    """

    def __init__(self, feed: Feed, version: Version) -> None:
        self.feed, self.version = feed, version
        self.events = 0

    def __iter__(self) -> Iterator[tuple[int, bytes]]:
        feed, events = self.feed, layout(self.version)
        starts = array("Q", bytes(8 * 512))
        piece, piece_offset = bytearray(), feed.offset(feed.start)
        while True:
            begin = feed.start
            offset, rows, count, fault, position = batches_kernel.frame(feed.data, begin, feed.stop, events, starts)
            self.events += count
            view = memoryview(feed.data)
            for start in starts[:rows]:
                piece += view[begin:start]
                if piece:
                    yield piece_offset, bytes(piece)
                piece, piece_offset, begin = bytearray(), feed.offset(start), start
            piece += view[begin:offset]
            feed.use(offset)
            if fault not in (FINE, CUT, FULL):
                raise wire_fault(fault, feed.offset(position), self.version, feed.data[position])
            if fault != FULL and not feed.more():
                if fault == CUT:
                    raise cut_short(feed.offset(feed.stop), "an event")
                break
        if piece:
            yield piece_offset, bytes(piece)


def header_of(piece: bytes, version: Version) -> Event:
    """Return the first event of a piece."""
    return next(events_in(memoryview(piece), 0, len(piece), 0, version, keep_padding=True))


def sized(header: Event, size: int) -> bytes:
    """Return a batch header with another size, the number padded to its previous length if it fits."""
    if header["size"] == size:
        return header.encode()
    was = len(padded(header["size"], header.padding[3] if header.padding else 0))
    extra = max(0, was - len(padded(size, 0)))
    return Event(header.version, "EventBatch", [*header.args[:3], size], None, bytes([0, 0, 0, extra])).encode()


def fix_sizes(source: Source, out: BinaryIO) -> int:
    """Write a binary trace with correct batch sizes and return the number of sizes that were wrong.

    Args:
        source: a path, a binary file or pipe, or bytes.
        out: a binary file.
    """
    wrong = 0
    with Feed(source) as feed:
        version = usable(read_wire_header(feed))
        out.write(memoryview(version.header))
        for _, piece in Framed(feed, version):
            header = header_of(piece, version)
            if header.type in (EXPERIMENTAL_BATCH, END_OF_GENERATION) or header.name != "EventBatch":
                out.write(memoryview(piece))
                continue
            body = memoryview(piece)[len(header.encode()) :]
            wrong += header["size"] != len(body)
            out.write(memoryview(sized(header, len(body))))
            out.write(body)
    return wrong
