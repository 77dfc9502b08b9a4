"""Wire to text and text to wire, whole traces, in compiled code: the bytes stream through, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Protocol

from whence._base.errors import naming
from whence.gotrace.faults import cut_short, text_fault, wire_fault
from whence.gotrace.feed import BLOCK, Feed
from whence.gotrace.header import read_text_header, read_wire_header, recognize
from whence.gotrace.kernels import text as text_kernel
from whence.gotrace.kernels.constants import CUT, FINE, FULL
from whence.gotrace.quoting import changes
from whence.gotrace.specs import Version, layout, usable

if TYPE_CHECKING:
    from whence.gotrace.feed import Source


class Sink(Protocol):
    """What can be written to."""

    def write(self, data: memoryview, /) -> object: ...


class TextBlocks:
    """Wire bytes of a feed as blocks of text. Each block is good until the next is asked for."""

    def __init__(self, feed: Feed, version: Version, keep_padding: bool = False) -> None:
        self.feed, self.version, self.keep_padding = feed, version, keep_padding
        self.events = 0
        self._layout = layout(usable(version))
        self._out = bytearray(4 * BLOCK)

    def __iter__(self) -> Iterator[memoryview]:
        feed = self.feed
        while True:
            offset, size, events, fault, position = text_kernel.from_wire(
                feed.data, feed.start, feed.stop, self._layout, changes(), self._out, self.keep_padding
            )
            feed.use(offset)
            self.events += events
            if size:
                yield memoryview(self._out)[:size]
            if fault == FULL:
                if not events:
                    self._out = bytearray(2 * len(self._out))
            elif fault not in (FINE, CUT):
                raise wire_fault(fault, feed.offset(position), self.version, feed.data[offset])
            elif not feed.more():
                if fault == CUT:
                    raise cut_short(feed.offset(feed.stop), "an event")
                return


class WireBlocks:
    """Text of a feed as blocks of wire bytes. Each block is good until the next is asked for."""

    def __init__(self, feed: Feed, version: Version, line: int, keep_padding: bool = False) -> None:
        self.feed, self.version, self.keep_padding = feed, version, keep_padding
        self.line = line  # of the first line in the feed's window
        self.events = 0
        self._layout = layout(usable(version))
        self._out = bytearray(BLOCK)

    def __iter__(self) -> Iterator[memoryview]:
        feed = self.feed
        while True:
            start = feed.start
            offset, size, events, line_count, fault, position, kind, argument = text_kernel.to_wire(
                feed.data, start, feed.stop, feed.ended, self._layout, self._out, self.keep_padding
            )
            feed.use(offset)
            self.events += events
            self.line += line_count
            if size:
                yield memoryview(self._out)[:size]
            if fault == FULL:
                if not events:
                    self._out = bytearray(2 * len(self._out))
            elif fault not in (FINE, CUT):
                text = memoryview(feed.data)[offset : feed.stop]
                raise text_fault(
                    fault, text, position - offset, feed.offset(offset), self.line, self.version, kind, argument
                )
            elif not feed.more():
                if fault == FINE:
                    return
                if feed.start == offset and start == offset and not events:
                    text = memoryview(feed.data)[feed.start : feed.stop]
                    raise text_fault(CUT, text, len(text), feed.offset(feed.start), self.line, self.version)


def wire_to_text(source: Source | Feed, out: Sink, *, keep_padding: bool = False) -> int:
    """Write a wire trace's text form. Returns the number of events.

    With `keep_padding`, each byte that a number takes on the wire beyond what it needs becomes a leading zero, and each
    such byte of a data length a space before the quoted data: Go reads the same from it; `text_to_wire` restores it.
    Events before a fault are written before TraceError is raised. Memory: a few MiB, or the largest event.
    """
    with Feed.of(source) as feed:
        version = usable(read_wire_header(feed))
        out.write(memoryview(version.text_header))
        blocks = TextBlocks(feed, version, keep_padding)
        for block in blocks:
            out.write(block)
        return blocks.events


def text_to_wire(source: Source | Feed, out: Sink, *, keep_padding: bool = False) -> int:
    """Write a text trace's wire form. Returns the number of events. See wire_to_text for `keep_padding`."""
    with Feed.of(source) as feed:
        version, line = read_text_header(feed)
        out.write(memoryview(usable(version).header))
        blocks = WireBlocks(feed, version, line, keep_padding)
        for block in blocks:
            out.write(block)
        return blocks.events


def to_text(source: Source, out: Sink, *, keep_padding: bool = False) -> int:
    """The text form of a trace in either form: text comes out as this room writes it. Returns the number of events."""
    with Feed(source) as feed:
        if recognize(feed) == "wire":
            return wire_to_text(feed, out, keep_padding=keep_padding)
        version, line = read_text_header(feed)
        out.write(memoryview(usable(version).text_header))
        events = WireBlocks(feed, version, line, keep_padding)
        for wire in events:
            for text in TextBlocks(Feed(wire), version, keep_padding):
                out.write(text)
        return events.events


def to_wire(source: Source, out: Sink, *, keep_padding: bool = False) -> int:
    """The wire form of a trace in either form: numbers in as few bytes as they need, unless their padding is kept."""
    with Feed(source) as feed:
        if recognize(feed) == "text":
            return text_to_wire(feed, out, keep_padding=keep_padding)
        version = usable(read_wire_header(feed))
        out.write(memoryview(version.header))
        events = TextBlocks(feed, version, keep_padding)
        for text in events:
            for wire in WireBlocks(Feed(text), version, 1, keep_padding):
                out.write(wire)
        return events.events


class WireFile:
    """The wire form of a trace in either form, as a file that is read: nothing is held but a block."""

    def __init__(self, source: Source, *, keep_padding: bool = False) -> None:
        self._feed = Feed(source)
        self._parts = self._convert(keep_padding)
        self._left = memoryview(b"")

    def _convert(self, keep_padding: bool) -> Iterator[memoryview]:
        feed = self._feed
        if recognize(feed) == "text":
            version, line = read_text_header(feed)
            yield memoryview(usable(version).header)
            yield from WireBlocks(feed, version, line, keep_padding)
            return
        while feed.start < feed.stop or feed.more():
            view = feed.window()
            yield view
            feed.use(feed.stop)

    def read(self, size: int) -> bytes:
        """At most `size` bytes; none at the end."""
        while not self._left:
            with naming(self._feed.name):
                part = next(self._parts, None)
            if part is None:
                self._feed.close()
                return b""
            self._left = part
        data, self._left = bytes(self._left[:size]), self._left[size:]
        return data
