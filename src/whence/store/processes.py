"""The files that a process has mapped, its vDSO among them: of a live one, of one that left a core file or a snapshot.

Of a live process the very files that it runs are taken, also when they were removed or lie in a container. For a core
file and a snapshot the files of this machine are taken whose build-id is the one that was mapped.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from whence._base.errors import WhenceError
from whence._base.records import Record
from whence.objects.elf import ElfFile
from whence.procmap.mapping import Kind, Mapping
from whence.procmap.vdso import read_vdso
from whence.symbolize import Core, Process, Snapshot

if TYPE_CHECKING:
    from whence.symbolize.process import ProcessView


class MappedFile(Record, frozen=True):
    """A file of a process: its path on this machine, or its bytes; its build-id where one was given; or why it can't be
    had."""

    origin: str
    path: str = ""
    content: bytes = b""
    build_id: str = ""
    missing: str = ""


def of_process(pid: int) -> Iterator[MappedFile]:
    """Raises OSError, WhenceError when the process can't be looked at."""
    with Process(pid) as process:
        for mapping in _distinct(process):
            origin = f"process {pid}: {mapping.path}"
            try:
                if mapping.kind is Kind.VDSO:
                    yield MappedFile(origin, content=read_vdso(mapping))
                    continue
                path = mapping.openable_path()
                yield MappedFile(origin, path, missing="" if path else "no way leads to the mapped file")
            except OSError as error:
                yield MappedFile(origin, missing=error.strerror or str(error))


def of_core(path: str | os.PathLike[str]) -> Iterator[MappedFile]:
    """Raises OSError, WhenceError for what is no core file."""
    with Core(path) as core, ElfFile.open(path) as memory:
        yield from _local(core, os.fspath(path), memory)


def of_snapshot(path: str | os.PathLike[str]) -> Iterator[MappedFile]:
    """Raises OSError, WhenceError for what is no snapshot."""
    with Snapshot(path) as snapshot:
        yield from _local(snapshot, os.fspath(path), None)


def _local(process: ProcessView, name: str, memory: ElfFile | None) -> Iterator[MappedFile]:
    for mapping in _distinct(process):
        origin, build_id = f"{name}: {mapping.path}", process.build_id(mapping)
        if mapping.kind is Kind.VDSO:
            try:
                if memory is None:
                    yield MappedFile(origin, missing="a snapshot has no memory to read it from")
                else:
                    yield MappedFile(origin, content=memory.read_vaddr(mapping.start, mapping.size), build_id=build_id)
            except WhenceError as error:
                yield MappedFile(origin, missing=error.message)
        elif not build_id:
            yield MappedFile(origin, missing="no build-id was given, so nothing says which file it was")
        else:
            yield MappedFile(origin, mapping.path, build_id=build_id)


def _distinct(process: ProcessView) -> Iterable[Mapping]:
    """A mapping for each file, and for the vDSO."""
    found: dict[tuple[str, Kind, str], Mapping] = {}
    for mapping in process.mappings():
        if mapping.kind.has_file or mapping.kind is Kind.VDSO:
            found.setdefault((mapping.path, mapping.kind, process.build_id(mapping)), mapping)
    return found.values()
