"""Read the bytes of a path, a file, a pipe or a buffer in windows.

A window grows only if an event or a line does not fit in it, and never by more than has been read.
"""

from __future__ import annotations

import io
import os
from types import TracebackType
from typing import TYPE_CHECKING, BinaryIO, Protocol, TypeAlias, cast

from whence._base.errors import TraceError, WhenceError
from whence._base.files import open_input

if TYPE_CHECKING:
    from typing_extensions import Buffer

    class BytesReader(Protocol):
        def read(self, size: int, /) -> bytes: ...

    Source: TypeAlias = str | os.PathLike[str] | BinaryIO | io.TextIOBase | BytesReader | Buffer

BLOCK = 1 << 20


class Feed:
    """The bytes of a source, a window at a time: data[start:stop].

    `base` is the offset in the source of data[0].
    """

    def __init__(self, source: Source, block: int = BLOCK) -> None:
        self.name = ""
        self._file: BinaryIO | io.TextIOBase | None = None
        self._owned = False
        self.base = 0
        self.start = self.stop = 0
        self.ended = False
        self.data: bytearray | memoryview = bytearray(0)
        if isinstance(source, (str, os.PathLike)):
            self.name = os.fspath(source)
            self._file = open_input(source, TraceError, buffering=0)
            self._owned = True
        elif hasattr(source, "read"):
            self._file = cast(BinaryIO, source)
            self.name = str(getattr(source, "name", ""))
        else:
            view = memoryview(source)
            self.data = view if view.format == "B" and view.contiguous else memoryview(view.tobytes())
            self.stop = len(self.data)
            self.ended = True
        if self._file is not None:
            self.data = bytearray(block)

    @classmethod
    def of(cls, source: Source | Feed) -> Feed:
        """Return `source` itself if it is a Feed, else a new Feed of it."""
        return source if isinstance(source, Feed) else cls(source)

    def window(self) -> memoryview:
        """Return the bytes that were read and not yet used."""
        return memoryview(self.data)[self.start : self.stop]

    def use(self, position: int) -> None:
        """Mark everything before `position`, an index into `data`, as used."""
        self.start = position

    def more(self) -> bool:
        """Read more bytes after the unused ones; return False at the end of the source."""
        if self.ended or self._file is None:
            return False
        unused = self.stop - self.start
        if unused == len(self.data):
            self._move(bytearray(2 * unused))
        elif self.start:
            self._move(self.data)
        size = self._read(memoryview(self.data)[self.stop :])
        self.stop += size
        if size == 0:
            self.ended = True
            self.close()
        return size > 0

    def _move(self, to: bytearray | memoryview) -> None:
        unused = self.stop - self.start
        to[:unused] = bytes(memoryview(self.data)[self.start : self.stop])
        self.base += self.start
        self.data, self.start, self.stop = to, 0, unused

    def _read(self, buffer: memoryview) -> int:
        file = self._file
        if isinstance(file, io.TextIOBase):
            text = file.read(max(1, len(buffer) // 4)).encode("utf-8", "surrogateescape")
            buffer[: len(text)] = text
            return len(text)
        assert file is not None
        if hasattr(file, "readinto"):
            return cast(io.RawIOBase, file).readinto(buffer) or 0
        data = file.read(len(buffer))
        buffer[: len(data)] = data
        return len(data)

    def offset(self, position: int) -> int:
        """Return the offset in the source of an index into `data`."""
        return self.base + position

    def close(self) -> None:
        """Close the file if this feed opened it."""
        if self._owned and self._file is not None:
            self._file.close()

    def __enter__(self) -> Feed:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
        if isinstance(error, WhenceError):
            error.in_file(self.name)
