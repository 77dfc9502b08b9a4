"""Memory of a process: what a dump has of it and, for the rest, the files that were mapped.

Dumps omit what is in files: code and read-only data. Such bytes are read only from a file with the build-id of the
mapped one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from whence.dumps.process import FileEntry, MemoryRange

PAGE = 4096
PAGES_LIMIT = 4096  # pages that PagedMemory keeps


class Unreadable(LookupError):
    """Memory that can be read neither from a file nor where `source` says."""

    def __init__(self, address: int, source: str = "in the dump") -> None:
        self.address = address
        super().__init__(f"the memory at {address:#x} is not {source}")


class Memory(Protocol):
    """Bytes of a process by runtime address."""

    def read(self, address: int, size: int) -> bytes:
        """Return all `size` bytes at an address. Raises Unreadable."""
        ...

    def region(self, address: int) -> tuple[int, int] | None:
        """Return [start, end) of the readable range that contains an address, None if none does."""
        ...


class DumpMemory:
    """Memory that a dump has, then that of the mapped files.

    `read_file(entry, offset, size)` returns bytes of a mapped part of a file, or None.
    """

    def __init__(
        self,
        ranges: Sequence[MemoryRange],
        mapped: Sequence[FileEntry],
        read_file: Callable[[FileEntry, int, int], bytes | None],
    ) -> None:
        """Prepare to read. `ranges` are in order of address and do not overlap."""
        self._ranges = ranges
        self._starts = [piece.start for piece in ranges]
        self._mapped = sorted(mapped)
        self._mapped_starts = [entry.start for entry in self._mapped]
        self._read_file = read_file

    def read(self, address: int, size: int) -> bytes:
        content, index = b"", bisect_right(self._starts, address) - 1
        while 0 <= index < len(self._ranges) and len(content) < size:  # ranges may touch
            begin = address + len(content) - self._starts[index]
            part = self._ranges[index].data[begin : begin + size - len(content)] if begin >= 0 else b""
            if not len(part):
                break
            content, index = content + part, index + 1
        return content if len(content) == size else self._of_file(address, size)

    def region(self, address: int) -> tuple[int, int] | None:
        index = bisect_right(self._starts, address) - 1
        if index >= 0 and address < self._ranges[index].end:
            return self._ranges[index].start, self._ranges[index].end
        return None

    def _of_file(self, address: int, size: int) -> bytes:
        index = bisect_right(self._mapped_starts, address) - 1
        if index >= 0 and address + size <= self._mapped[index].end:
            entry = self._mapped[index]
            content = self._read_file(entry, address - entry.start, size)
            if content is not None:
                return content
        raise Unreadable(address)


class PagedMemory:
    """Memory that is read by pages; each one is read once, until `clear`."""

    def __init__(self, read: Callable[[int, int], bytes]) -> None:
        """Prepare to read. `read` returns memory; raises Unreadable."""
        self._read = read
        self._pages: dict[int, bytes] = {}

    def clear(self) -> None:
        """Drop the pages that were read."""
        self._pages.clear()

    def read(self, address: int, size: int) -> bytes:
        """Return all `size` bytes at an address. Raises Unreadable."""
        offset = address % PAGE
        if offset + size > PAGE:
            return self._read(address, size)
        page = self._pages.get(address - offset)
        if page is None:
            if len(self._pages) >= PAGES_LIMIT:
                self._pages.clear()
            page = self._pages[address - offset] = self._read(address - offset, PAGE)
        return page[offset : offset + size]


class RecordedMemory:
    """Memory that records what is read.

    Attributes:
        reads: [start, end) of each read, in their order.
    """

    def __init__(self, memory: Memory) -> None:
        self._memory = memory
        self.reads: list[tuple[int, int]] = []

    def read(self, address: int, size: int) -> bytes:
        content = self._memory.read(address, size)
        self.reads.append((address, address + size))
        return content

    def region(self, address: int) -> tuple[int, int] | None:
        return self._memory.region(address)
