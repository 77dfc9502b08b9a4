"""A store as a source of the Locator: candidates for a build-id, the archive first; and files that complete others.

Files of a folder are opened in place, except that compressed archives are decompressed into the local cache. Files of a
bucket are fetched into the local cache (fetching.py); of an archive that is not compressed and has to answer for a few
addresses a few ranges are read (ranged.py). What a store does not have is not asked for again for a while.
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
from whence.locate.search import FileKind, Outcome, Tried, Wanted
from whence.locate.sources import Candidate, identify
from whence.locator.answers import RemoteArchive
from whence.store.fetching import Fetched
from whence.store.folder import Folder
from whence.store.names import ARCHIVE, DEBUGINFO, EXECUTABLE, file_key, is_id, is_packed
from whence.store.ranged import RangedBinary

if TYPE_CHECKING:
    from whence.locate.cache import Cache
    from whence.store.fetching import Fetched
    from whence.store.meta import Meta
    from whence.store.reader import StoreReader

ABSENT_SECONDS = 600.0
REMEMBERED = 100_000  # misses, and build-ids that were noted
FEW = 64  # addresses, from which on an archive is read whole
WORTH_BYTES = 1 << 19  # of an archive, below which it is read whole


class StoreSource:
    """What a store has. `who` is told to it with each question that it could not answer. `say` is told once, in a line,
    when it can't be asked."""

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

    def find(self, wanted: Wanted, tried: list[Tried]) -> Iterator[Candidate]:
        """The archive of a build-id, its debug file, its executable: as far as they are there."""
        build_id = wanted.key
        if not is_id(build_id):
            return
        try:
            kinds = self._kinds(build_id, wanted)
        except OSError as error:
            self._complain(error)
            tried.append(Tried("", self.how, Outcome.BROKEN, without_file(error)))
            return
        if kinds is None:
            self._note_miss(build_id, wanted.path)
            tried.append(Tried("", self.how, Outcome.ABSENT, "nothing of this build-id"))
            return
        for kind in kinds:
            how = f"{self.how} {kind}"
            try:
                candidate = self._candidate(build_id, kind, how, wanted.addresses)
            except (WhenceError, OSError) as error:
                tried.append(Tried("", how, Outcome.BROKEN, without_file(error)))
                continue
            if candidate is not None:
                self._note_use(build_id)
                yield candidate
        tried.append(Tried("", self.how, Outcome.ABSENT, "nothing else of this build-id"))

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
        """An archive of which a few ranges are read; None where it is here, or better fetched whole."""
        objects = self.store.objects
        if isinstance(objects, Folder) or not 0 < addresses <= FEW or self._is_here(build_id):
            return None
        status = self.store.status(build_id, ARCHIVE)
        if status is None or status.size < WORTH_BYTES or is_packed(status.key):
            return None
        return RemoteArchive(
            f"{objects.url}/{status.key}", how, build_id, lambda demangle: RangedBinary(objects, status, demangle)
        )

    def _is_here(self, build_id: str) -> bool:
        """Whether the archive is in the cache and was compared a short while ago."""
        return self._fetched is not None and self._fetched.is_fresh(build_id, ARCHIVE)

    def _kinds(self, build_id: str, wanted: Wanted) -> list[FileKind] | None:
        """The wanted kinds that may be there, best first; None when nothing is. Raises OSError."""
        fetched = self._fetched
        if ARCHIVE in wanted.kinds and self._is_here(build_id):
            return [kind for kind in (ARCHIVE, DEBUGINFO, EXECUTABLE) if kind in wanted.kinds]
        if time.monotonic() - self._missing.get(build_id, -ABSENT_SECONDS) < ABSENT_SECONDS:
            return None
        if fetched is not None and fetched.is_absent(build_id):
            return None
        try:
            known = self.store.find(build_id)
        except OSError:
            if fetched is None or not fetched.is_kept(build_id):
                raise
            return [kind for kind in (ARCHIVE, DEBUGINFO, EXECUTABLE) if kind in wanted.kinds]
        if known is None:
            if len(self._missing) >= REMEMBERED:
                self._missing.clear()
            self._missing[build_id] = time.monotonic()
            if fetched is not None:
                fetched.note_absent(build_id)
            return None
        return [kind for kind in order_of(known) if kind in wanted.kinds and kind in known.files]

    def fetch(self, build_id: str, kind: str = "debuginfo", path: str = "") -> Path | None:
        """A file that completes another, as a debuginfod client has it; None when it is not there or not readable."""
        if not is_id(build_id):
            return None
        try:
            kinds = self._kinds(build_id, Wanted(build_id, path, (FileKind(kind),)))
            found = self._path(build_id, FileKind(kind)) if kinds else None
        except (WhenceError, OSError) as error:
            self._complain(error)
            return None
        if found is not None:
            self._note_use(build_id)
        return found

    def _complain(self, error: Exception) -> None:
        if not self._said:
            self._said = True
            why = getattr(error, "strerror", None) or without_file(error)
            self._say(f"the store {self.store.url} can't be asked: {why}")

    def _path(self, build_id: str, kind: FileKind) -> Path | None:
        if self._fetched is not None:
            return self._fetched.path(build_id, kind)
        if kind is ARCHIVE and self._unpacked is not None:
            path = self.store.objects.path(file_key(build_id, kind))
            return path if path is not None else self._unpacked.path(build_id, kind)
        return self._stack.enter_context(self.store.file(build_id, kind))

    def forget(self, build_id: str) -> None:
        """What was not there of a build-id is asked for again: something of it was put."""
        self._missing.pop(build_id, None)
        if self._fetched is not None:
            self._fetched.forget_absent(build_id)

    def _note_use(self, build_id: str) -> None:
        """Once a process, and only where the store was asked."""
        if build_id not in self._noted and not self._is_here(build_id):
            self._remember(build_id)
            self.store.used(build_id)

    def _note_miss(self, build_id: str, path: str) -> None:
        """Once a process: a question that is asked again for each address is one question."""
        if self.who and build_id not in self._noted:
            self._remember(build_id)
            self.store.missed(build_id, self.who, path)

    def _remember(self, build_id: str) -> None:
        if len(self._noted) >= REMEMBERED:
            self._noted.clear()
        self._noted.add(build_id)

    def close(self) -> None:
        """Let temporary files go."""
        self._stack.close()


def order_of(known: Meta) -> list[FileKind]:
    """The kinds that answer, best first: the archive if debug info or Go's tables are in it. One of mere symbols comes
    last, and one of .dynsym not at all: it must not hide debug info that is elsewhere, which completes an ELF file."""
    best = known.quality
    if best.units or best.pclntab or not known.made_of:
        return [ARCHIVE, DEBUGINFO, EXECUTABLE]
    return [DEBUGINFO, EXECUTABLE, ARCHIVE] if best.symtab else [DEBUGINFO, EXECUTABLE]
