"""Convert whole traces between binary and text form, block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, BinaryIO

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


class TextBlocks:
    """The events of a feed in binary form, as blocks of text; each block is valid until the next one is read."""

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
    """The events of a feed in text form, as blocks of binary; each block is valid until the next one is read."""

    def __init__(self, feed: Feed, version: Version, line: int, keep_padding: bool = False) -> None:
        self.feed, self.version, self.keep_padding = feed, version, keep_padding
        self.line = line  # number of the first line in the feed's window
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


def wire_to_text(source: Source | Feed, out: BinaryIO, *, keep_padding: bool = False) -> int:
    """Write the text form of a binary trace and return the number of events.

    Events before a fault are written before TraceError is raised. Memory: a few MiB, or the largest event.

    Args:
        source: a path, a binary file or pipe, or bytes.
        out: a binary file.
        keep_padding: write each byte of a number beyond the needed ones as a leading zero, and each such byte of a data
            length as a space before the quoted data. Go reads the same events from it, and `text_to_wire` with
            `keep_padding` restores the bytes.
    """
    with Feed.of(source) as feed:
        version = usable(read_wire_header(feed))
        out.write(memoryview(version.text_header))
        blocks = TextBlocks(feed, version, keep_padding)
        for block in blocks:
            out.write(block)
        return blocks.events


def text_to_wire(source: Source | Feed, out: BinaryIO, *, keep_padding: bool = False) -> int:
    """Write the binary form of a text trace and return the number of events.

    Args:
        source: a path, a file or pipe (binary or text), or bytes.
        out: a binary file.
        keep_padding: encode leading zeros and spaces before data as padding, as `wire_to_text` writes them.
    """
    with Feed.of(source) as feed:
        version, line = read_text_header(feed)
        out.write(memoryview(usable(version).header))
        blocks = WireBlocks(feed, version, line, keep_padding)
        for block in blocks:
            out.write(block)
        return blocks.events


def to_text(source: Source, out: BinaryIO, *, keep_padding: bool = False) -> int:
    """Write the text form of a trace in either form and return the number of events.

    A text trace is normalized: comments and other spacing are dropped. See wire_to_text for the arguments.
    """
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


def to_wire(source: Source, out: BinaryIO, *, keep_padding: bool = False) -> int:
    """Write the binary form of a trace in either form and return the number of events.

    Numbers take as few bytes as they need, unless `keep_padding` is set. See wire_to_text for the arguments.
    """
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
    """The binary form of a trace in either form, as a readable file that holds one block in memory."""

    def __init__(self, source: Source, *, keep_padding: bool = False) -> None:
        self._feed = Feed(source)
        self._parts = self._convert(keep_padding)
        self._unread = memoryview(b"")

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
        """Return at most `size` bytes; b"" at the end."""
        while not self._unread:
            with naming(self._feed.name):
                part = next(self._parts, None)
            if part is None:
                self._feed.close()
                return b""
            self._unread = part
        data, self._unread = bytes(self._unread[:size]), self._unread[size:]
        return data
