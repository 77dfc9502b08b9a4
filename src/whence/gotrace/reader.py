"""Read events one by one, from binary form (Reader) or text form (TextReader)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from whence._base.closing import Closing
from whence._base.errors import naming
from whence.gotrace.convert import WireBlocks
from whence.gotrace.faults import cut_short, wire_fault
from whence.gotrace.feed import Feed
from whence.gotrace.header import read_text_header, read_wire_header, recognize
from whence.gotrace.kernels.event import Event, Stream
from whence.gotrace.specs import Version, layout, usable

if TYPE_CHECKING:
    from whence.gotrace.feed import Source


class _Events(Closing):
    """Base of both readers: an iterator of events and a context manager."""

    version: Version
    _feed: Feed
    _stream: Stream

    def __repr__(self) -> str:
        return f"<gotrace.{type(self).__name__} {self._feed.name or 'of bytes'}: Go 1.{int(self.version)}>"

    def read_event(self) -> Event | None:
        """Return the next event, None at the end."""
        return next(self._stream, None)

    def __iter__(self) -> Iterator[Event]:
        return self._stream

    def __next__(self) -> Event:
        return next(self._stream)

    def close(self) -> None:
        """Close the file if this reader opened it."""
        self._feed.close()


class Reader(_Events):
    """Reads the events of a binary trace.

    Iterating is faster than calling `read_event`. Memory: a MiB, or the largest event.

    Args:
        source: a path, a binary file or pipe, or bytes.
        keep_padding: keep the padding of numbers in events, so that a Writer writes the same bytes.

    Raises:
        TraceError: the trace is malformed; raised after all events before the fault.
        Unsupported: the trace is older than Go 1.22.
    """

    def __init__(self, source: Source | Feed, *, keep_padding: bool = False) -> None:
        self._feed = Feed.of(source)
        try:
            with naming(self._feed.name):
                self.version = usable(read_wire_header(self._feed))
        except BaseException:
            self._feed.close()
            raise
        self._stream = Stream(self, self.version, layout(self.version), keep_padding)

    def window(self, used: int, cut: bool) -> tuple[bytearray | memoryview, int, int]:
        """Return the next bytes, for the stream."""
        feed = self._feed
        if used >= 0:
            feed.use(used)
        if (cut or feed.start >= feed.stop) and not feed.more() and cut:
            raise cut_short(feed.offset(feed.stop), "an event").in_file(feed.name)
        return feed.data, feed.start, feed.stop

    def fail(self, fault: int, position: int, kind: int) -> None:
        """Raise the error for a fault that the stream found."""
        raise wire_fault(fault, self._feed.offset(position), self.version, kind).in_file(self._feed.name)

    @property
    def offset(self) -> int:
        """The offset in the file of the next event."""
        return self._feed.offset(max(self._stream.position, self._feed.start))


class TextReader(_Events):
    """Reads the events of a text trace.

    Args:
        source: a path, a file or pipe (binary or text), or bytes.
        keep_padding: keep leading zeros as the padding of numbers.

    Raises:
        TextError: a line is malformed; raised after all events before it.
        Unsupported: the trace is older than Go 1.22.
    """

    def __init__(self, source: Source | Feed, *, keep_padding: bool = False) -> None:
        self._feed = Feed.of(source)
        try:
            with naming(self._feed.name):
                self.version, line = read_text_header(self._feed)
                usable(self.version)
        except BaseException:
            self._feed.close()
            raise
        self._blocks = iter(WireBlocks(self._feed, self.version, line, keep_padding))
        self._stream = Stream(self, self.version, layout(self.version), keep_padding)

    def window(self, used: int, cut: bool) -> tuple[memoryview, int, int]:
        """Return the next lines in binary form, for the stream."""
        with naming(self._feed.name):
            block = next(self._blocks, memoryview(b""))
        return block, 0, len(block)

    def fail(self, fault: int, position: int, kind: int) -> None:
        """Raise the error for a fault that the stream found; not expected in what the text kernel writes."""
        raise wire_fault(fault, position, self.version, kind)


def open_trace(source: Source, *, keep_padding: bool = False) -> Reader | TextReader:
    """Open a trace in either form, recognized by its first bytes, to read its events one by one.

    `read` returns all events as columns; ColumnReader yields columns block by block.

    >>> with open_trace(b"Trace Go1.22\\nGoStart dt=3 g=7 g_seq=1\\n") as events:
    ...     print(next(events).name)
    GoStart

    Args:
        source: a path, a file or pipe, or bytes.
        keep_padding: keep the padding of numbers in events, so that a writer writes the same bytes.

    Raises:
        TraceError: the bytes are not a trace, or the trace is malformed.
        Unsupported: the trace is older than Go 1.22.
    """
    feed = Feed(source)
    try:
        with naming(feed.name):
            form = recognize(feed)
    except BaseException:
        feed.close()
        raise
    return (Reader if form == "wire" else TextReader)(feed, keep_padding=keep_padding)
