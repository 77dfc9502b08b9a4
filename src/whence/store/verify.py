"""Everything in a store, read again: hashes, build-ids, archives, and what meta.json says of them."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from whence import lidia
from whence._base.errors import WhenceError, without_file
from whence._base.records import Record
from whence.objects.elf import ElfFile
from whence.store import meta
from whence.store.leases import Busy
from whence.store.names import ARCHIVE, FILES, KINDS, file_key, folder_key, is_id, meta_key
from whence.store.quality import check_complete, hash_of

if TYPE_CHECKING:
    from pathlib import Path

    from whence.store.meta import Meta
    from whence.store.store import Store


class StoreProblem(Record, frozen=True):
    """What is wrong with a file of a build-id; `kind` is "" where it is with all of them."""

    build_id: str
    kind: str
    fault: str

    def as_json(self) -> dict[str, str]:
        return {"build_id": self.build_id, "kind": self.kind, "fault": self.fault}


def verify(store: Store, report: Callable[[str], None] = lambda build_id: None) -> Iterator[StoreProblem]:
    """Every problem of a store. `report` is called with each build-id before it is read. Raises OSError.

    What a killed writer began is ended first, where the store can be written to, and archives are made again for which
    dwz's shared file has come: that is no problem.
    """
    for build_id in store.objects.folders(FILES):
        if is_id(build_id):
            report(build_id)
            yield from problems_of(store, build_id)


def problems_of(store: Store, build_id: str) -> Iterator[StoreProblem]:
    """Those of one build-id."""
    if not store.objects.read_only:
        try:
            if store.is_left(build_id) or store.is_due(build_id):
                store.finish(build_id, wait=0)
        except Busy:
            return  # it is being changed just now
    if not any(True for _ in store.objects.list(folder_key(build_id))):
        return  # it was being removed
    found = store.objects.read(meta_key(build_id), meta.LONGEST)
    known = meta.read(found[0], build_id) if found is not None else None
    if known is None:
        yield StoreProblem(build_id, "", "meta.json is missing or can't be read")
    for kind in KINDS:
        yield from _of_kind(store, build_id, kind, known)


def _of_kind(store: Store, build_id: str, kind: str, known: Meta | None) -> Iterator[StoreProblem]:
    held = known.files.get(kind) if known is not None else None
    try:
        with store.file(build_id, kind) as path:
            if path is None:
                if held is not None:
                    yield StoreProblem(build_id, kind, f"{file_key(build_id, kind)} is missing")
                return
            if known is not None and held is None:
                yield StoreProblem(build_id, kind, "meta.json does not name it")
            if held is not None and held.sha256:
                with open(path, "rb") as file:
                    digest = hash_of(file)
                if digest != held.sha256:
                    yield StoreProblem(build_id, kind, f"its SHA-256 is {digest}, not {held.sha256}")
                    return
            by_hash = known is not None and known.by_hash
            yield from (
                StoreProblem(build_id, kind, fault) for fault in faults_of(path, build_id, kind, by_hash=by_hash)
            )
    except WhenceError as error:  # the compressed archive is damaged
        yield StoreProblem(build_id, kind, without_file(error))
    except OSError as error:
        yield StoreProblem(build_id, kind, error.strerror or str(error))


def faults_of(path: str | os.PathLike[str] | Path, build_id: str, kind: str, *, by_hash: bool) -> Iterator[str]:
    """What is wrong with a file itself."""
    try:
        if kind == ARCHIVE:
            with lidia.open(path) as table:
                yield from table.verify()
                carried = table.about.build_id
        else:
            with ElfFile.open(path) as elf:
                check_complete(elf)
                carried = elf.build_id
        if carried != ("" if by_hash else build_id):
            yield f"its build-id is {carried or 'missing'}"
    except WhenceError as error:
        yield without_file(error)
