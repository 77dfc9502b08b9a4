"""Verification of a store: hashes, build-ids, archives, and their descriptions in meta.json."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from whence import lidia
from whence._base.errors import WhenceError, without_file
from whence._base.records import Record
from whence.objects.opening import open_object
from whence.store import meta
from whence.store.leases import Busy
from whence.store.names import ARCHIVE, FILES, KINDS, SYMBOLS, file_key, folder_key, is_id, meta_key
from whence.store.quality import check_complete, hash_of

if TYPE_CHECKING:
    from pathlib import Path

    from whence.store.meta import Meta
    from whence.store.store import Store


class StoreProblem(Record, frozen=True):
    """A problem of a file of a build-id; `kind` is "" for a problem of all its files."""

    build_id: str
    kind: str
    fault: str

    def as_json(self) -> dict[str, str]:
        """Return the problem as JSON."""
        return {"build_id": self.build_id, "kind": self.kind, "fault": self.fault}


def verify(store: Store, report: Callable[[str], None] = lambda build_id: None) -> Iterator[StoreProblem]:
    """Yield the problems of a store. `report` is called with each build-id before it is read. Raises OSError.

    If the store is writable, the work of killed writers is completed first, and archives are made again if dwz's shared
    file was added; these are not problems.
    """
    for build_id in store.objects.folders(FILES):
        if is_id(build_id):
            report(build_id)
            yield from problems_of(store, build_id)


def problems_of(store: Store, build_id: str) -> Iterator[StoreProblem]:
    """Yield the problems of one build-id. Raises OSError."""
    if not store.objects.read_only:
        try:
            if store.is_left(build_id) or store.is_due(build_id):
                store.finish(build_id, wait=0)
        except Busy:
            return  # another writer is changing it
    if not any(True for _ in store.objects.list(folder_key(build_id))):
        return  # it was removed
    content = store.objects.read(meta_key(build_id), meta.LONGEST)
    described = meta.read(content[0], build_id) if content is not None else None
    if described is None:
        yield StoreProblem(build_id, "", "meta.json is missing or malformed")
    for kind in KINDS:
        yield from _of_kind(store, build_id, kind, described)


def _of_kind(store: Store, build_id: str, kind: str, described: Meta | None) -> Iterator[StoreProblem]:
    entry = described.files.get(kind) if described is not None else None
    try:
        with store.file(build_id, kind) as path:
            if path is None:
                if entry is not None:
                    yield StoreProblem(build_id, kind, f"{file_key(build_id, kind)} is missing")
                return
            if described is not None and entry is None:
                yield StoreProblem(build_id, kind, "meta.json does not name the file")
            if entry is not None and entry.sha256:
                with open(path, "rb") as file:
                    digest = hash_of(file)
                if digest != entry.sha256:
                    yield StoreProblem(build_id, kind, f"the SHA-256 is {digest}, expected {entry.sha256}")
                    return
            by_hash = described is not None and described.by_hash
            yield from (
                StoreProblem(build_id, kind, fault) for fault in faults_of(path, build_id, kind, by_hash=by_hash)
            )
    except WhenceError as error:  # the compressed archive is damaged
        yield StoreProblem(build_id, kind, without_file(error))
    except OSError as error:
        yield StoreProblem(build_id, kind, error.strerror or str(error))


def faults_of(path: str | os.PathLike[str] | Path, build_id: str, kind: str, *, by_hash: bool) -> Iterator[str]:
    """Yield the problems of a file, regardless of its description."""
    try:
        if kind == ARCHIVE:
            with lidia.open(path) as table:
                yield from table.verify()
                carried = table.about.build_id
        else:
            with open_object(path) as elf:
                if kind in SYMBOLS:
                    return
                check_complete(elf)
                carried = elf.build_id
        if carried != ("" if by_hash else build_id):
            yield f"the build-id is {carried or 'missing'}, expected {'none' if by_hash else build_id}"
    except WhenceError as error:
        yield without_file(error)
