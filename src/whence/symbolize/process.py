"""Processes whose addresses are named: one protocol for live ones (live.py), snapshots and core files (core.py).

    Snapshot(path)    a file of `whence pid --save-snapshot` or `Process.snapshot`

A symbolizer accepts any object with `mappings` and `build_id`.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Protocol, runtime_checkable

from whence._base.closing import Closing
from whence._base.errors import MapsError, naming
from whence._base.files import atomic_write, open_input
from whence.objects.elf import ElfFile
from whence.procmap import snapshot as record
from whence.procmap.mapping import Mapping

if TYPE_CHECKING:
    from whence._base.window import ByteOrder


class ProcessView(Protocol):
    """A process whose addresses can be named: Process, Snapshot, Core."""

    def mappings(self) -> Sequence[Mapping]:
        """Return the executable mappings, in order of address. Raises OSError if they cannot be read."""
        ...

    def build_id(self, mapping: Mapping) -> str:
        """Return the build-id of the file of a mapping, in lowercase hex; "" if unknown."""
        ...


@runtime_checkable
class ReadableProcess(Protocol):
    """A process whose memory can be read: Process, Core."""

    @property
    def title(self) -> str:
        """Its description, for people."""
        ...

    def machine(self) -> tuple[int, int, ByteOrder]:
        """Return the number of its machine in ELF, its bits and its byte order. Raises OSError, WhenceError."""
        ...

    def read(self, address: int, size: int) -> bytes:
        """Return all `size` bytes at a runtime address. Raises OSError, WhenceError."""
        ...


class LiveMemory:
    """The memory of a live process, by its pid and its folder of /proc."""

    def __init__(self, pid: int, directory: str) -> None:
        self.title = f"process {pid}"
        self._directory = directory

    def __repr__(self) -> str:
        return f"<LiveMemory of {self.title}>"

    def machine(self) -> tuple[int, int, ByteOrder]:
        """Return the number of its machine in ELF, its bits and its byte order. Raises OSError, ElfError."""
        with ElfFile.open(f"{self._directory}/exe") as elf:
            return elf.machine, elf.bits, elf.order

    def read(self, address: int, size: int) -> bytes:
        """Return all `size` bytes at an address. Raises OSError, and MapsError if some are not mapped."""
        descriptor = os.open(f"{self._directory}/mem", os.O_RDONLY)
        try:
            content = os.pread(descriptor, size, address)
        except OSError as error:
            if error.errno not in (errno.EIO, errno.EFAULT):
                raise
            content = b""
        finally:
            os.close(descriptor)
        if len(content) < size:
            raise MapsError("", None, f"the memory at {address + len(content):#x} of {self.title} is not readable")
        return content


class LivePid:
    """A live process, by its pid."""

    pid: int

    def __repr__(self) -> str:
        return f"<whence.{type(self).__name__} {self.pid}>"


class Snapshot(Closing):
    """The executable mappings of a process at one moment, from a file that `save` wrote.

    `pid` and `command` are those of the process, `taken` is the time in seconds since 1970 (0: unknown). Raises
    OSError, MapsError.

    >>> import whence
    >>> whence.Snapshot("app.snapshot").mappings()  # doctest: +SKIP
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        with open_input(path, MapsError) as file, naming(os.fspath(path)):
            self.record = record.SnapshotMappings.from_json(file.read(record.SIZE_LIMIT + 1))
        self.path = os.fspath(path)

    @classmethod
    def of(cls, mappings: record.SnapshotMappings) -> Snapshot:
        """Return a snapshot in memory."""
        snapshot = object.__new__(Snapshot)
        snapshot.record, snapshot.path = mappings, ""
        return snapshot

    def __repr__(self) -> str:
        return (
            f"<whence.{type(self).__name__} of process {self.pid} ({self.command!r}): {len(self.mappings())} mappings>"
        )

    def close(self) -> None:
        """Do nothing: a snapshot holds no open files."""

    @property
    def pid(self) -> int:
        return self.record.pid

    @property
    def command(self) -> str:
        return self.record.command

    @property
    def taken(self) -> float:
        return self.record.taken

    def mappings(self) -> list[Mapping]:
        """Return the executable mappings with their build-ids, in order of address."""
        return self.record.mappings

    def build_id(self, mapping: Mapping) -> str:
        """Return the build-id of the mapped file; "" if it had none."""
        return mapping.build_id

    def vdso_image(self, mapping: Mapping) -> bytes:
        """Return the bytes of the process's vDSO; b"" if they were not saved."""
        return b""

    def file_of(self, index: int) -> record.SnapshotFile | None:
        """Return what is known of the file of the mapping with an index."""
        return self.record.file_of[index]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the snapshot as JSON. Raises OSError."""
        with atomic_write(path) as file:
            file.write((self.to_json() + "\n").encode())

    def to_json(self) -> str:
        """Return the JSON that `save` writes."""
        return self.record.to_json()
