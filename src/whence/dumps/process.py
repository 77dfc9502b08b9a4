"""What a core or a minidump has of a process: mappings, memory, threads and mapped files."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from errno import EACCES
from typing import TYPE_CHECKING, NamedTuple

from whence._base import rooted
from whence._base.records import Record

if TYPE_CHECKING:
    from whence._base.window import ByteOrder
    from whence.dumps.signals import Signal
    from whence.procmap.snapshot import SnapshotMappings


class CoreThread(NamedTuple):
    """A thread: the signal it received (0 for none), its pc and stack pointer (None if registers are unknown)."""

    tid: int
    signal: int
    pc: int | None = None
    sp: int | None = None


class CoreMappings(Record, frozen=True):
    """The executable mappings of a process, and its threads, first the thread that ended it if that is known.

    `missing` is the number of bytes that a truncated file lacks. `arguments` is the start of the command line,
    `executable` the file with the entry point; "" if unknown.
    """

    snapshot: SnapshotMappings
    threads: tuple[CoreThread, ...]
    missing: int = 0
    arguments: str = ""
    executable: str = ""

    @property
    def unproved(self) -> tuple[str, ...]:
        """Paths of files that fit their mappings, but are not proved by the core to have been mapped."""
        return tuple(sorted({file.path for file in self.snapshot.file_of if file is not None and file.unproved}))


class FileEntry(NamedTuple):
    """A mapped part of a file: [start, end) is mapped from the file at `offset`."""

    start: int
    end: int
    offset: int
    name: str


class LocalPaths(Record, frozen=True):
    """Where files of the process are on this machine: below `sysroot`, if that is given.

    `allows` returns True for paths of this machine that may be read; without it all may be.
    """

    sysroot: str = ""
    allows: Callable[[str], bool] | None = None

    def of(self, path: str) -> str:
        """Return where a path of the process is on this machine. Raises OSError if it may not be read."""
        local = rooted.below(self.sysroot, path) if self.sysroot else path
        if self.allows is not None and not self.allows(local):
            raise PermissionError(EACCES, "the file is not below an allowed folder", local)
        return local


ALL_PATHS = LocalPaths()


class AddressRegion(NamedTuple):
    """Addresses [start, end) that the process had mapped: bits READ, WRITE, EXECUTE (None: unknown), and the file."""

    start: int
    end: int
    permissions: int | None = None
    path: str = ""
    offset: int = 0


class MemoryRange(NamedTuple):
    """Memory of the process from `start`, as far as the dump has it."""

    start: int
    data: memoryview

    @property
    def end(self) -> int:
        return self.start + len(self.data)


class ThreadState(Record, frozen=True):
    """A thread when the dump was written: its signal or exception, and its registers by name.

    Without registers, `problem` says why; then `pc` and `sp` may still be known. `thread_pointer` is the address of
    thread-local storage, 0 if unknown. `wide` has the floating-point and vector registers, as in NT_FPREGSET.
    """

    tid: int
    signal: Signal | None
    registers: dict[str, int]
    pc: int | None = None
    sp: int | None = None
    thread_pointer: int = 0
    problem: str = ""
    name: str = ""
    wide: bytes = b""
    signal_code: int = 0  # si_code


ALL_BITS = (1 << 64) - 1


class ProcessDump(Record, frozen=True):
    """What stacks are unwound from. `machine` is ELF's number, `size` the bytes of the dump as stored.

    `address_mask` has the bits of a code address that are not of a signature, as far as the system decides that.
    """

    machine: int
    bits: int
    order: ByteOrder
    size: int
    snapshot: SnapshotMappings
    memory: Sequence[MemoryRange]
    files: Sequence[FileEntry]
    threads: Sequence[ThreadState]
    address_mask: int = ALL_BITS

    def read(self, address: int, size: int) -> bytes:
        """Return memory at an address, as far as one range has it."""
        index = bisect_right(self.memory, address, key=lambda piece: piece.start) - 1
        if index < 0:
            return b""
        begin = address - self.memory[index].start
        return bytes(self.memory[index].data[begin : begin + size])


def without_overlaps(ranges: Iterable[MemoryRange]) -> list[MemoryRange]:
    """Return the ranges in order of address; of bytes that several have, those of the range that starts first.

    >>> ranges = [MemoryRange(4, memoryview(b"efgh")), MemoryRange(0, memoryview(b"abcdXX"))]
    >>> [(piece.start, bytes(piece.data)) for piece in without_overlaps(ranges)]
    [(0, b'abcdXX'), (6, b'gh')]
    """
    pieces: list[MemoryRange] = []
    covered = 0
    for start, data in sorted(ranges, key=lambda piece: (piece.start, -len(piece.data))):
        begin = max(start, covered)
        if begin < start + len(data):
            pieces.append(MemoryRange(begin, data[begin - start :]))
            covered = start + len(data)
    return pieces
