"""What `Store.add` does with one ELF file, in this process; workers.py does the same in others."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING

from whence._base.errors import Mismatch, WhenceError, without_file
from whence._base.files import open_looked_at
from whence._base.records import Record
from whence.procmap.build_id import read_build_id
from whence.store.archiving import Supplements, alt_in
from whence.store.leases import Busy
from whence.store.outcomes import BUSY, REFUSED, SAME, Added, Outcomes, Received
from whence.store.quality import hash_of, looking

if TYPE_CHECKING:
    from typing import Protocol

    from whence.producers import Producers
    from whence.store.keeper import Keeper
    from whence.store.quality import Looked

    class Takes(Protocol):
        """What takes ELF files: a Taker, or a Worker."""

        def file(self, path: str, origin: str, build_id: str | None, wanted: str, alone: bool) -> Taken: ...

        def received(self, received: Received, alone: bool) -> Taken: ...

        def finish(self, build_id: str) -> Outcomes: ...


LARGE_BYTES = 256 << 20


class Terms(Record, frozen=True):
    """What holds for all files of one call. `folders` are those that the paths name, as real paths."""

    by_hash: bool
    layouts: tuple[str, ...]
    sources: tuple[str, ...]
    folders: tuple[str, ...]
    wait: float


class Taken(Record, frozen=True):
    """What became of a file, and the build-id whose archive may now be due."""

    outcomes: Outcomes
    due: str = ""


class Taker:
    """Takes ELF files into a store. Safe from several threads."""

    def __init__(self, store: Keeper, terms: Terms) -> None:
        self.store, self.terms = store, terms

    def file(self, path: str, origin: str, build_id: str | None, wanted: str, alone: bool) -> Taken:
        """Take a file that lies there. It is copied first unless its very bytes are in the store already.

        `build_id` is its own as far as it was read; a file that carries another than `wanted` is refused. One that
        comes `alone`, without others of its build-id, has its archive made at once. Raises OSError of the store.
        """
        try:
            if build_id is None:
                build_id = read_build_id(path)
            if wanted and build_id != wanted:
                raise Mismatch(f"its build-id is {build_id or 'missing'}, and {wanted} was mapped").in_file(path)
            there = self._is_there(build_id, path, origin) if build_id else None
            if there is not None:
                return there
            descriptor = open_looked_at(path)
            with open(descriptor, "rb") as file, self.store.receive(file, origin) as received:
                return self.received(received, alone)
        except (WhenceError, OSError) as error:
            if isinstance(error, OSError) and error.filename != path:
                raise  # the store's own
            return Taken([refused(origin, error)])

    def _is_there(self, build_id: str, path: str, origin: str) -> Taken | None:
        known = self.store.find(build_id)
        if known is None:
            return None
        descriptor = open_looked_at(path)
        with open(descriptor, "rb") as file:
            size = os.fstat(descriptor).st_size
            same = [kind for kind, held in known.files.items() if held.size == size]
            digest = hash_of(file) if same else ""
        kinds = [kind for kind in same if known.files[kind].sha256 == digest]
        why = "the same bytes are there"
        said = [Added(origin, SAME, why, build_id, kind, size) for kind in kinds]
        return Taken(said, build_id) if said else None

    def received(self, received: Received, alone: bool) -> Taken:
        """Take a file that was received."""
        with ExitStack() as stack:
            finder = Supplements(None, alt_in(self.store, stack), self.terms.folders)
            try:
                opened = looking(received.path, finder, 1 if received.size < LARGE_BYTES else self.store.jobs)
                looked, producers = stack.enter_context(opened)
            except WhenceError as error:
                error.path = received.origin
                return Taken([refused(received.origin, error)])
            return self._looked_at(received, looked, producers, alone)

    def _looked_at(self, received: Received, looked: Looked, producers: Producers, alone: bool) -> Taken:
        terms = self.terms
        build_id = looked.build_id or (received.sha256 if terms.by_hash else "")
        if not build_id:
            why = "it has no build-id (--by-hash keeps it under its SHA-256)"
            return Taken([Added(received.origin, REFUSED, why)])
        alone = alone and not (terms.layouts or terms.sources)
        done = self.store.take(
            received, looked, build_id, wait=terms.wait, archive=alone, folders=terms.folders, producers=producers
        )
        is_due = not alone and any(one.outcome != BUSY for one in done)
        return Taken(done, build_id if is_due else "")

    def finish(self, build_id: str) -> Outcomes:
        """Make the archive of a build-id whose files were taken, its copies and its bundle of sources."""
        terms = self.terms
        with suppress(Busy):
            self.store.finish(build_id, layouts=terms.layouts, folders=terms.folders, wait=terms.wait)
            if terms.sources:
                self.store.put_sources(build_id, terms.sources)
        return []


def refused(origin: str, error: Exception) -> Added:
    why = without_file(error) if isinstance(error, WhenceError) else getattr(error, "strerror", "") or str(error)
    return Added(origin, REFUSED, why)
