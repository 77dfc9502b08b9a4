"""Memory of a process: what a core file has of it and, for the rest, the files that were mapped.

The kernel omits from a core what is in files: code and read-only data. Such bytes are read only from a file with the
build-id of the mapped one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from whence.objects.interface import ObjectFile
    from whence.procmap.core import FileEntry


class Unreadable(LookupError):
    """Memory that can be read neither from a file nor where `source` says."""

    def __init__(self, address: int, source: str = "in the core") -> None:
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


class _CoreSegment(NamedTuple):
    """A PT_LOAD segment [start, end), of which [start, stored_end) is in the core."""

    start: int
    stored_end: int
    end: int
    file_offset: int


class CoreMemory:
    """Memory in a core's segments; `file_bytes` returns all bytes of a mapped file, or None."""

    def __init__(
        self, elf: ObjectFile, mapped: Sequence[FileEntry], file_bytes: Callable[[FileEntry], memoryview | None]
    ) -> None:
        self._data = elf.data
        segments = []
        for segment in elf.segments:
            if segment.is_loaded and segment.memory_size:
                size = max(0, min(segment.file_size, segment.memory_size, elf.size - segment.file_offset))
                segments.append(_CoreSegment(segment.vaddr, segment.vaddr + size, segment.end, segment.file_offset))
        self._segments = sorted(segments)
        self._starts = [segment.start for segment in self._segments]
        self._mapped = sorted(mapped)
        self._mapped_starts = [entry.start for entry in self._mapped]
        self._file_bytes = file_bytes

    def segments(self) -> Iterator[tuple[int, memoryview]]:
        """Yield the memory that the core has, by address; the first of overlapping segments wins."""
        end = 0
        for start, stored_end, _, offset in self._segments:
            if start >= end:
                yield start, self._data[offset : offset + stored_end - start]
                end = stored_end

    def read(self, address: int, size: int) -> bytes:
        index = bisect_right(self._starts, address) - 1
        if index >= 0:
            start, stored_end, _, offset = self._segments[index]
            if address + size <= stored_end:
                begin = offset + address - start
                return bytes(self._data[begin : begin + size])
        return self._read_file(address, size)

    def region(self, address: int) -> tuple[int, int] | None:
        index = bisect_right(self._starts, address) - 1
        if index >= 0 and address < self._segments[index].stored_end:
            return self._segments[index].start, self._segments[index].stored_end
        return None

    def _read_file(self, address: int, size: int) -> bytes:
        index = bisect_right(self._mapped_starts, address) - 1
        if index >= 0 and address + size <= self._mapped[index].end:
            entry = self._mapped[index]
            data = self._file_bytes(entry)
            begin = entry.offset + address - entry.start
            if data is not None and begin + size <= len(data):
                return bytes(data[begin : begin + size])
        raise Unreadable(address)
