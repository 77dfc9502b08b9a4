"""Write events one by one, in binary form (Writer) or text form (TextWriter)."""

from __future__ import annotations

import os
from contextlib import ExitStack
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Self

from whence._base.errors import TraceError
from whence._base.files import atomic_write
from whence.gotrace.convert import TextBlocks
from whence.gotrace.feed import BLOCK, Feed
from whence.gotrace.specs import Version, usable

if TYPE_CHECKING:
    from whence.gotrace.kernels.event import Event


class Writer:
    """Writes events in binary form.

    Up to a MiB is buffered until `close` or the end of a `with` block. A path gets its file then; if the block is left
    by an error, no file is written. Numbers take as few bytes as they need, except in events that have padding.

    Args:
        out: a path or a binary file.
        version: the version of the trace.
    """

    def __init__(self, out: str | os.PathLike[str] | BinaryIO, version: Version) -> None:
        self.version = usable(version)
        self._stack = ExitStack()
        self._owned = isinstance(out, (str, os.PathLike))
        self._out = self._stack.enter_context(atomic_write(out)) if isinstance(out, (str, os.PathLike)) else out
        self._pending = bytearray()
        self._out.write(self._header())

    def _header(self) -> bytes:
        return self.version.header

    def write_event(self, event: Event) -> None:
        """Write an event, which must have the version of this writer."""
        if event.version != self.version:
            raise TraceError("", None, f"an event of {event.version.label} in a trace of {self.version.label}")
        self._pending += event.encode()
        if len(self._pending) >= BLOCK:
            self.flush()

    def flush(self) -> None:
        """Write all buffered events to the file."""
        pending, self._pending = self._pending, bytearray()
        self._put(pending)

    def _put(self, wire: bytearray) -> None:
        self._out.write(wire)

    def close(self) -> None:
        """Flush, and finish the file if this writer opened it."""
        with self._stack:
            self.flush()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._owned:
            self._stack.__exit__(kind, error, trace)
        else:
            self.close()


class TextWriter(Writer):
    """Writes events in text form; otherwise like Writer.

    Args:
        out: a path or a binary file.
        version: the version of the trace.
        keep_padding: write the padding of numbers as leading zeros, see wire_to_text.
    """

    def __init__(self, out: str | os.PathLike[str] | BinaryIO, version: Version, *, keep_padding: bool = False) -> None:
        self._keep_padding = keep_padding
        super().__init__(out, version)

    def _header(self) -> bytes:
        return self.version.text_header

    def _put(self, wire: bytearray) -> None:
        with Feed(wire) as feed:
            for block in TextBlocks(feed, self.version, self._keep_padding):
                self._out.write(block)
