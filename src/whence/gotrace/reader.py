"""Events read one by one, from the wire form (Reader) or the text form (TextReader)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from whence._base.closing import Closing
from whence._base.errors import naming
from whence.gotrace.convert import WireBlocks
from whence.gotrace.faults import cut_short, wire_fault
from whence.gotrace.feed import Feed
from whence.gotrace.header import read_text_header, read_wire_header
from whence.gotrace.kernels.event import Event, Stream
from whence.gotrace.specs import Version, layout, usable

if TYPE_CHECKING:
    from whence.gotrace.feed import Source


class _Events(Closing):
    """What both readers are: an iterator of events and a context manager, with a version."""

    version: Version
    _feed: Feed
    _stream: Stream

    def read_event(self) -> Event | None:
        """The next event, None at the end."""
        return next(self._stream, None)

    def __iter__(self) -> Iterator[Event]:
        return self._stream

    def __next__(self) -> Event:
        return next(self._stream)

    def close(self) -> None:
        """Close the file if this opened it."""
        self._feed.close()


class Reader(_Events):
    """Events of a wire trace: a path, a binary file or pipe, or bytes.

    `for event in reader` is the quick way; `read_event()` returns None at the end. With `keep_padding`, events carry
    the padding of their numbers, and a Writer writes the same bytes. Raises TraceError at the first thing wrong, after
    all whole events before it; Unsupported for versions before Go 1.22. Memory: a MiB, or the largest event.
    """

    def __init__(self, source: Source, *, keep_padding: bool = False) -> None:
        self._feed = Feed(source)
        try:
            with naming(self._feed.name):
                self.version = usable(read_wire_header(self._feed))
        except BaseException:
            self._feed.close()
            raise
        self._stream = Stream(self, self.version, layout(self.version), keep_padding)

    def window(self, used: int, cut: bool) -> tuple[bytearray | memoryview, int, int]:
        """For the stream: the next bytes."""
        feed = self._feed
        if used >= 0:
            feed.use(used)
        if (cut or feed.start >= feed.stop) and not feed.more() and cut:
            raise cut_short(feed.offset(feed.stop), "an event").in_file(feed.name)
        return feed.data, feed.start, feed.stop

    def fail(self, fault: int, position: int, kind: int) -> None:
        """For the stream: raise what is wrong."""
        raise wire_fault(fault, self._feed.offset(position), self.version, kind).in_file(self._feed.name)

    @property
    def offset(self) -> int:
        """Where in the file the next event starts."""
        return self._feed.offset(max(self._stream.position, self._feed.start))


class TextReader(_Events):
    """Events of a text trace: a path, a file or pipe (binary or text), or bytes. See Reader."""

    def __init__(self, source: Source, *, keep_padding: bool = False) -> None:
        self._feed = Feed(source)
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
        """For the stream: the next lines, as wire bytes."""
        with naming(self._feed.name):
            block = next(self._blocks, memoryview(b""))
        return block, 0, len(block)

    def fail(self, fault: int, position: int, kind: int) -> None:
        """For the stream: what the text kernel wrote is always whole events."""
        raise wire_fault(fault, position, self.version, kind)
