"""Events written one by one, in the wire form (Writer) or the text form (TextWriter)."""

from __future__ import annotations

import os
from contextlib import AbstractContextManager
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
    """Writes the wire form to a path or a binary file. Close it (or leave its `with`): it holds back up to a MiB, and a
    path gets its file then, or none when the `with` is left by an error.

    Numbers take as few bytes as they need, except where an event carries padding (Reader's keep_padding).
    """

    def __init__(self, out: str | os.PathLike[str] | BinaryIO, version: Version) -> None:
        self.version = usable(version)
        self._owned: AbstractContextManager[BinaryIO] | None = None
        if isinstance(out, (str, os.PathLike)):
            self._owned = atomic_write(out)
            self._out = self._owned.__enter__()
        else:
            self._out = out
        self._pending = bytearray()
        self._out.write(self._header())

    def _header(self) -> bytes:
        return self.version.header

    def write_event(self, event: Event) -> None:
        """Write one event, which must be of this writer's version."""
        if event.version != self.version:
            raise TraceError("event", None, f"the event is of {self.version.label}", event.version.label)
        self._pending += event.encode()
        if len(self._pending) >= BLOCK:
            self.flush()

    def flush(self) -> None:
        """Hand everything written so far to the file."""
        pending, self._pending = self._pending, bytearray()
        self._put(pending)

    def _put(self, wire: bytearray) -> None:
        self._out.write(wire)

    def close(self) -> None:
        """Flush, and put the file in its place if this opened it."""
        owned, self._owned = self._owned, None
        if owned is None:
            self.flush()
            return
        try:
            self.flush()
        except BaseException as error:
            owned.__exit__(type(error), error, error.__traceback__)
            raise
        owned.__exit__(None, None, None)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is not None and self._owned is not None:
            owned, self._owned = self._owned, None
            owned.__exit__(kind, error, trace)
        else:
            self.close()


class TextWriter(Writer):
    """Writes the text form to a path or a binary file. See Writer; `keep_padding` as in wire_to_text."""

    def __init__(self, out: str | os.PathLike[str] | BinaryIO, version: Version, *, keep_padding: bool = False) -> None:
        self._keep_padding = keep_padding
        super().__init__(out, version)

    def _header(self) -> bytes:
        return self.version.text_header

    def _put(self, wire: bytearray) -> None:
        with Feed(wire) as feed:
            for block in TextBlocks(feed, self.version, self._keep_padding):
                self._out.write(block)
