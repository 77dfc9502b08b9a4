"""Memory of a process: what a core file kept of it and, where it left bytes out, the files that were mapped.

The kernel leaves out what is in files anyway: code and read-only data. Such bytes count only from a file that has the
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
    """Memory that is not there: neither in `place` nor in a file."""

    def __init__(self, address: int, place: str = "in the core") -> None:
        self.address = address
        super().__init__(f"the memory at {address:#x} is not {place}")


class Memory(Protocol):
    """Bytes of a process by runtime address."""

    def read(self, address: int, size: int) -> bytes:
        """All `size` bytes. Raises Unreadable."""
        ...

    def region(self, address: int) -> tuple[int, int] | None:
        """[start, end) of the readable range that holds an address: the bounds of a stack; None where there is none."""
        ...


class _Held(NamedTuple):
    """A PT_LOAD segment: bytes [start, held) are in the core, up to `end` they are not."""

    start: int
    held: int
    end: int
    file_offset: int


class CoreMemory:
    """Memory by a core's segments; `file_bytes` gives the whole bytes of a mapped file, or None."""

    def __init__(
        self, elf: ObjectFile, mapped: Sequence[FileEntry], file_bytes: Callable[[FileEntry], memoryview | None]
    ) -> None:
        self._data = elf.data
        held = []
        for segment in elf.segments:
            if segment.is_loaded and segment.memory_size:
                size = max(0, min(segment.file_size, segment.memory_size, elf.size - segment.file_offset))
                held.append(_Held(segment.vaddr, segment.vaddr + size, segment.end, segment.file_offset))
        self._held = sorted(held)
        self._starts = [one.start for one in self._held]
        self._mapped = sorted(mapped)
        self._mapped_starts = [one.start for one in self._mapped]
        self._file_bytes = file_bytes

    def segments(self) -> Iterator[tuple[int, memoryview]]:
        """The bytes that the core has, by address; of two that overlap the first."""
        end = 0
        for start, held, _, offset in self._held:
            if start >= end:
                yield start, self._data[offset : offset + held - start]
                end = held

    def read(self, address: int, size: int) -> bytes:
        index = bisect_right(self._starts, address) - 1
        if index >= 0:
            start, held, _, offset = self._held[index]
            if address + size <= held:
                begin = offset + address - start
                return bytes(self._data[begin : begin + size])
        return self._read_file(address, size)

    def region(self, address: int) -> tuple[int, int] | None:
        index = bisect_right(self._starts, address) - 1
        if index >= 0 and address < self._held[index].held:
            return self._held[index].start, self._held[index].held
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
