"""The files that a process has mapped, and its vDSO: of a live process, a core file or a snapshot.

For a live process these are the files that it runs, even if they were deleted or are in a container. For a core file
and a snapshot they are files of this machine with the build-id that was mapped.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING

from whence._base.records import Record
from whence.procmap.mapping import Kind, Mapping
from whence.procmap.vdso import read_vdso
from whence.symbolize import Core, Process, Snapshot

if TYPE_CHECKING:
    from whence.symbolize.process import ProcessView


class ProcessFile(Record, frozen=True):
    """A file of a process: its path on this machine or its content, and the expected build-id ("" for any).

    `missing` is the reason why the file is not available, or "".
    """

    origin: str
    path: str = ""
    content: bytes = b""
    build_id: str = ""
    missing: str = ""


def of_process(pid: int) -> Iterator[ProcessFile]:
    """Yield the mapped files of a live process. Raises WhenceError, OSError."""
    with Process(pid) as process:
        for mapping in _distinct(process):
            origin = f"process {pid}: {mapping.path}"
            try:
                if mapping.kind is Kind.VDSO:
                    yield ProcessFile(origin, content=read_vdso(mapping))
                    continue
                path = mapping.openable_path()
                yield ProcessFile(origin, path, missing="" if path else "the mapped file is not accessible")
            except OSError as error:
                yield ProcessFile(origin, missing=error.strerror or str(error))


def of_core(path: str | os.PathLike[str]) -> Iterator[ProcessFile]:
    """Yield the mapped files of a core file. Raises WhenceError, OSError."""
    with Core(path) as core:
        yield from _local(core, os.fspath(path))


def of_snapshot(path: str | os.PathLike[str]) -> Iterator[ProcessFile]:
    """Yield the mapped files of a snapshot. Raises WhenceError, OSError."""
    with Snapshot(path) as snapshot:
        yield from _local(snapshot, os.fspath(path))


def _local(process: Snapshot, name: str) -> Iterator[ProcessFile]:
    for mapping in _distinct(process):
        origin, build_id = f"{name}: {mapping.path}", process.build_id(mapping)
        if mapping.kind is Kind.VDSO:
            image = process.vdso_image(mapping)
            missing = "" if image else "the bytes of the vDSO were not saved"
            yield ProcessFile(origin, content=image, build_id=build_id, missing=missing)
        elif not build_id:
            yield ProcessFile(origin, missing="the build-id of the mapped file is unknown")
        else:
            yield ProcessFile(origin, mapping.path, build_id=build_id)


def _distinct(process: ProcessView) -> Iterable[Mapping]:
    """Return a mapping for each file, and for the vDSO."""
    distinct: dict[tuple[str, Kind, str], Mapping] = {}
    for mapping in process.mappings():
        if mapping.kind.has_file or mapping.kind is Kind.VDSO:
            distinct.setdefault((mapping.path, mapping.kind, process.build_id(mapping)), mapping)
    return distinct.values()
