"""A store as a source of the Locator: candidates for a build-id, the archive first, and files that complete others.

Files of a folder are opened in place, except that compressed archives are decompressed into the local cache. Files of a
bucket are fetched into the local cache (fetching.py). For a few addresses, only ranges of an archive that is not
compressed are read (ranged.py). A missing build-id is not requested again for ABSENT_SECONDS.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from weakref import finalize

from whence._base.errors import WhenceError, without_file
from whence.locate.cache import Cache
from whence.locate.search import FileKind, FileQuery, Outcome, Tried
from whence.locate.sources import Candidate, identify
from whence.locator.answers import RemoteArchive
from whence.store.fetching import Fetched
from whence.store.folder import Folder
from whence.store.names import ARCHIVE, DEBUGINFO, EXECUTABLE, file_key, is_id, is_packed
from whence.store.ranged import RangedBinary

if TYPE_CHECKING:
    from whence.store.meta import Meta
    from whence.store.reader import StoreReader

ABSENT_SECONDS = 600.0
CAPACITY = 100_000  # misses, and build-ids whose use was recorded
FEW = 64  # addresses: for more of them the whole archive is read
WORTH_BYTES = 1 << 19  # a smaller archive is read whole


class StoreSource:
    """The files of a store.

    `who` is recorded with each build-id that is missing. `say` is called once, with a line of text, if the store can't
    be read.
    """

    def __init__(
        self,
        store: StoreReader,
        who: str = "",
        cache: Cache | str | os.PathLike[str] | None = None,
        say: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.store, self.who = store, who
        self._say, self._said = say, False
        self.how = f"store {store.url}"
        self._fetched: Fetched | None = None
        self._unpacked: Fetched | None = None  # archives of a folder
        if cache is not None:
            cache = cache if isinstance(cache, Cache) else Cache(cache)
            if isinstance(store.objects, Folder):
                self._unpacked = Fetched(store, cache, fresh_seconds=0)
            else:
                self._fetched = Fetched(store, cache)
        self._missing: dict[str, float] = {}
        self._noted: set[str] = set()
        self._stack = ExitStack()  # of files that were decompressed, or fetched without a cache
        finalize(self, self._stack.close)

    def __repr__(self) -> str:
        return f"<StoreSource {self.store.url}>"

    def find(self, query: FileQuery, tried: list[Tried]) -> Iterator[Candidate]:
        """Yield the archive, the debug file and the executable of a build-id, as far as they exist."""
        build_id = query.key
        if not is_id(build_id):
            return
        try:
            kinds = self._kinds(build_id, query)
        except OSError as error:
            self._complain(error)
            tried.append(Tried("", self.how, Outcome.BROKEN, without_file(error)))
            return
        if kinds is None:
            self._note_miss(build_id, query.path)
            tried.append(Tried("", self.how, Outcome.ABSENT, "no file of this build-id"))
            return
        for kind in kinds:
            how = f"{self.how} {kind}"
            try:
                candidate = self._candidate(build_id, kind, how, query.addresses)
            except (WhenceError, OSError) as error:
                tried.append(Tried("", how, Outcome.BROKEN, without_file(error)))
                continue
            if candidate is not None:
                self._note_use(build_id)
                yield candidate
        tried.append(Tried("", self.how, Outcome.ABSENT, "nothing else of this build-id"))

    def build_ids_with(self, prefix: str) -> list[str]:
        """Return the build-ids that start with a prefix in lowercase hex; none if the store can't be read."""
        try:
            return self.store.build_ids_with(prefix)
        except OSError as error:
            self._complain(error)
            return []

    def _candidate(self, build_id: str, kind: FileKind, how: str, addresses: int) -> Candidate | None:
        if kind is ARCHIVE:
            ranged = self._ranged(build_id, how, addresses)
            if ranged is not None:
                return ranged
        path = self._path(build_id, kind)
        if path is None:
            return None
        candidate = identify(path, how)
        if kind is ARCHIVE and not candidate.build_ids:  # of a file that has none, kept under its hash
            return Candidate(candidate.path, how, (build_id,), is_archive=True)
        return candidate

    def _ranged(self, build_id: str, how: str, addresses: int) -> Candidate | None:
        """Return an archive of which ranges are read; None if it is in the cache or should be fetched whole."""
        objects = self.store.objects
        if isinstance(objects, Folder) or not 0 < addresses <= FEW or self._is_fresh(build_id):
            return None
        status = self.store.status(build_id, ARCHIVE)
        if status is None or status.size < WORTH_BYTES or is_packed(status.key):
            return None
        return RemoteArchive(
            f"{objects.url}/{status.key}", how, build_id, lambda demangle: RangedBinary(objects, status, demangle)
        )

    def _is_fresh(self, build_id: str) -> bool:
        """Return True if the archive is in the cache and was compared recently."""
        return self._fetched is not None and self._fetched.is_fresh(build_id, ARCHIVE)

    def _kinds(self, build_id: str, query: FileQuery) -> list[FileKind] | None:
        """Return the requested kinds that may exist, best first; None if no file exists. Raises OSError."""
        fetched = self._fetched
        if ARCHIVE in query.kinds and self._is_fresh(build_id):
            return [kind for kind in (ARCHIVE, DEBUGINFO, EXECUTABLE) if kind in query.kinds]
        if time.monotonic() - self._missing.get(build_id, -ABSENT_SECONDS) < ABSENT_SECONDS:
            return None
        if fetched is not None and fetched.is_absent(build_id):
            return None
        try:
            described = self.store.find(build_id)
        except OSError:
            if fetched is None or not fetched.is_cached(build_id):
                raise
            return [kind for kind in (ARCHIVE, DEBUGINFO, EXECUTABLE) if kind in query.kinds]
        if described is None:
            if len(self._missing) >= CAPACITY:
                self._missing.clear()
            self._missing[build_id] = time.monotonic()
            if fetched is not None:
                fetched.note_absent(build_id)
            return None
        return [kind for kind in order_of(described) if kind in query.kinds and kind in described.files]

    def fetch(self, build_id: str, kind: str = "debuginfo", path: str = "") -> Path | None:
        """Return the path of a file that completes another; None if it is missing or can't be read."""
        if not is_id(build_id):
            return None
        try:
            kinds = self._kinds(build_id, FileQuery(build_id, path, (FileKind(kind),)))
            completion = self._path(build_id, FileKind(kind)) if kinds else None
        except (WhenceError, OSError) as error:
            self._complain(error)
            return None
        if completion is not None:
            self._note_use(build_id)
        return completion

    def _complain(self, error: Exception) -> None:
        if not self._said:
            self._said = True
            why = getattr(error, "strerror", None) or without_file(error)
            self._say(f"the store {self.store.url} can't be read: {why}")

    def _path(self, build_id: str, kind: FileKind) -> Path | None:
        if self._fetched is not None:
            return self._fetched.path(build_id, kind)
        if kind is ARCHIVE and self._unpacked is not None:
            path = self.store.objects.path(file_key(build_id, kind))
            return path if path is not None else self._unpacked.path(build_id, kind)
        return self._stack.enter_context(self.store.file(build_id, kind))

    def forget(self, build_id: str) -> None:
        """Forget that a build-id was missing, because a file of it was put."""
        self._missing.pop(build_id, None)
        if self._fetched is not None:
            self._fetched.forget_absent(build_id)

    def _note_use(self, build_id: str) -> None:
        """Record the use of a build-id, once per process, unless only the cache was used."""
        if build_id not in self._noted and not self._is_fresh(build_id):
            self._remember(build_id)
            self.store.used(build_id)

    def _note_miss(self, build_id: str, path: str) -> None:
        """Record a missing build-id, once per process: each address repeats the request."""
        if self.who and build_id not in self._noted:
            self._remember(build_id)
            self.store.missed(build_id, self.who, path)

    def _remember(self, build_id: str) -> None:
        if len(self._noted) >= CAPACITY:
            self._noted.clear()
        self._noted.add(build_id)

    def close(self) -> None:
        """Remove temporary files."""
        self._stack.close()


def order_of(described: Meta) -> list[FileKind]:
    """Return the kinds that answer, best first: the archive, if it has debug info or Go's tables.

    An archive of .symtab is last, and an archive of .dynsym is left out: it would hide debug info from other sources,
    which completes an ELF file.
    """
    best = described.quality
    if best.units or best.pclntab or not described.made_of:
        return [ARCHIVE, DEBUGINFO, EXECUTABLE]
    return [DEBUGINFO, EXECUTABLE, ARCHIVE] if best.symtab else [DEBUGINFO, EXECUTABLE]
