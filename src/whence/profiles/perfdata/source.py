"""Where the bytes of a perf.data come from: memory or a file; read in pieces, so that little of it is in memory."""

from __future__ import annotations

import os
from typing import BinaryIO, Protocol
from weakref import finalize

from whence.files import read_at


class ByteSource(Protocol):
    """Bytes by offset."""

    @property
    def size(self) -> int: ...

    def read(self, offset: int, size: int) -> bytes | memoryview:
        """So many bytes, fewer at the end."""
        ...

    def keep(self) -> None:
        """Be read after the file was closed, too."""
        ...


class BytesSource:
    """Bytes in memory."""

    def __init__(self, data: bytes) -> None:
        self._data = memoryview(data)

    @property
    def size(self) -> int:
        return len(self._data)

    def read(self, offset: int, size: int) -> memoryview:
        return self._data[offset : offset + size]

    def keep(self) -> None:
        """It is kept as it is."""


class FileSource:
    """An open regular file from byte `begin` on; the caller closes it."""

    def __init__(self, file: BinaryIO, begin: int = 0) -> None:
        self._descriptor = file.fileno()
        self._begin = begin
        self.size = os.fstat(self._descriptor).st_size - begin

    def read(self, offset: int, size: int) -> bytes:
        return read_at(self._descriptor, size, self._begin + offset)

    def keep(self) -> None:
        self._descriptor = os.dup(self._descriptor)
        finalize(self, os.close, self._descriptor)


class SpoolSource:
    """A temporary file that grows."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = 0
        finalize(self, file.close)

    def append(self, data: bytes) -> int:
        """Put bytes at its end; returns where they are."""
        at = self.size
        self.size += len(data)
        view = memoryview(data)
        while view:
            view = view[os.write(self._file.fileno(), view) :]
        return at

    def read(self, offset: int, size: int) -> bytes:
        return read_at(self._file.fileno(), size, offset)

    def keep(self) -> None:
        """It is there as long as this object."""
