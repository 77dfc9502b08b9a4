"""The bytes of a perf.data: in memory, in a mapped file, or in a temporary file that grows during decompression."""

from __future__ import annotations

import os
from typing import BinaryIO
from weakref import finalize

from whence._base.errors import ProfileError
from whence._base.files import read_at, write_all
from whence._base.mapped import REWRITTEN, MappedFile


class ByteSource:
    """Bytes in memory, by offset."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)

    @property
    def size(self) -> int:
        return len(self._data)

    def read(self, offset: int, size: int) -> bytes | memoryview:
        """Return `size` bytes, fewer at the end."""
        return self._data[offset : offset + size]

    def view(self) -> memoryview:
        """Return all bytes."""
        return self._data

    def forget(self, start: int, stop: int) -> None:
        """Hint that the bytes [start, stop) need not stay in memory."""

    def check(self) -> None:
        """Raise ProfileError if the bytes changed while they were read."""


class RecordingFile(ByteSource):
    """An open regular file from byte `begin` to its present end; perf may still append to it.

    The bytes stay readable after the file is closed.
    """

    def __init__(self, file: BinaryIO, begin: int = 0) -> None:
        self._begin = begin
        self._mapped = None
        super().__init__(b"")
        if os.fstat(file.fileno()).st_size > begin:
            self._mapped = MappedFile(file.fileno(), file.name if isinstance(file.name, str) else "", ProfileError)
            super().__init__(self._mapped.view[begin:])

    def forget(self, start: int, stop: int) -> None:
        if self._mapped is not None:
            self._mapped.forget(self._begin + start, self._begin + stop)

    def check(self) -> None:
        if self._mapped is not None and self._mapped.fault() != REWRITTEN:
            self._mapped.check()


class FileSpool(ByteSource):
    """A temporary file that grows until `view` is called."""

    def __init__(self, file: BinaryIO) -> None:
        super().__init__(b"")
        self._file = file
        self._size = 0
        self._mapped: RecordingFile | None = None
        finalize(self, file.close)

    @property
    def size(self) -> int:
        return self._size

    def append(self, data: bytes) -> int:
        """Append bytes and return their offset."""
        offset = self._size
        self._size += len(data)
        write_all(self._file.fileno(), data)
        return offset

    def read(self, offset: int, size: int) -> bytes:
        return read_at(self._file.fileno(), size, offset)

    def view(self) -> memoryview:
        self._mapped = self._mapped or RecordingFile(self._file)
        return self._mapped.view()

    def forget(self, start: int, stop: int) -> None:
        if self._mapped is not None:
            self._mapped.forget(start, stop)


class MemorySpool(ByteSource):
    """Bytes in memory that grow until `view` is called, for a process that may not create files."""

    def __init__(self) -> None:
        super().__init__(b"")
        self._buffer = bytearray()

    @property
    def size(self) -> int:
        return len(self._buffer)

    def append(self, data: bytes) -> int:
        """Append bytes and return their offset."""
        offset = len(self._buffer)
        self._buffer += data
        return offset

    def read(self, offset: int, size: int) -> bytes:
        return bytes(memoryview(self._buffer)[offset : offset + size])

    def view(self) -> memoryview:
        return memoryview(self._buffer).toreadonly()
