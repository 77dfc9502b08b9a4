"""Where the bytes of a perf.data come from: memory, a mapped file, or one that grows while records are unpacked."""

from __future__ import annotations

import os
from typing import BinaryIO, Protocol
from weakref import finalize

from whence._base.errors import ProfileError
from whence._base.files import read_at, write_all
from whence._base.mapped import REWRITTEN, MappedFile


class ByteSource(Protocol):
    """Bytes by offset. They can be read after the file was closed, too."""

    @property
    def size(self) -> int: ...

    def read(self, offset: int, size: int) -> bytes | memoryview:
        """So many bytes, fewer at the end."""
        ...

    def view(self) -> memoryview:
        """All of them."""
        ...

    def forget(self, start: int, stop: int) -> None:
        """These bytes were read: they need not stay in memory. A hint."""
        ...

    def check(self) -> None:
        """Raise ProfileError when what was read was not there any more."""
        ...


class BytesSource:
    """Bytes in memory."""

    def __init__(self, data: bytes | memoryview) -> None:
        self._data = memoryview(data)

    @property
    def size(self) -> int:
        return len(self._data)

    def read(self, offset: int, size: int) -> memoryview:
        return self._data[offset : offset + size]

    def view(self) -> memoryview:
        return self._data

    def forget(self, start: int, stop: int) -> None:
        """They are somebody else's."""

    def check(self) -> None:
        """They stay."""


class FileSource(BytesSource):
    """An open regular file from byte `begin` on, as long as it is now: perf may still write to it."""

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


class SpoolSource:
    """A temporary file that grows, until somebody looks at all of it."""

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.size = 0
        self._all: FileSource | None = None
        finalize(self, file.close)

    def append(self, data: bytes) -> int:
        """Put bytes at its end; returns where they are."""
        at = self.size
        self.size += len(data)
        write_all(self._file.fileno(), data)
        return at

    def read(self, offset: int, size: int) -> bytes:
        return read_at(self._file.fileno(), size, offset)

    def view(self) -> memoryview:
        self._all = self._all or FileSource(self._file)
        return self._all.view()

    def forget(self, start: int, stop: int) -> None:
        if self._all is not None:
            self._all.forget(start, stop)

    def check(self) -> None:
        """Nobody else has it."""


class MemorySpool:
    """Bytes in memory that grow until `view` is called, for a process that may not create files."""

    def __init__(self) -> None:
        self._data = bytearray()

    @property
    def size(self) -> int:
        return len(self._data)

    def append(self, data: bytes) -> int:
        """Append bytes and return their offset."""
        offset = len(self._data)
        self._data += data
        return offset

    def read(self, offset: int, size: int) -> bytes:
        return bytes(memoryview(self._data)[offset : offset + size])

    def view(self) -> memoryview:
        return memoryview(self._data).toreadonly()

    def forget(self, start: int, stop: int) -> None:
        """Memory has no other copy of the bytes: do nothing."""

    def check(self) -> None:
        """Memory doesn't change: do nothing."""
