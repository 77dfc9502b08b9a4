"""A store as a source of the Locator: candidates for a build-id, the archive first; and files that complete others.

Files of a folder are opened where they lie. What a store does not have is not asked for again for a while.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from whence.errors import WhenceError, without_file
from whence.locate.search import FileKind, Outcome, Tried, Wanted
from whence.locate.sources import Candidate, identify
from whence.store.names import ARCHIVE, DEBUGINFO, EXECUTABLE, is_id

if TYPE_CHECKING:
    from whence.store.store import Store

ABSENT_SECONDS = 600.0  # so long a miss is remembered
REMEMBERED = 100_000  # misses, and build-ids that answered


class StoreSource:
    """What a store has. `who` is told to it with each question that it could not answer."""

    def __init__(self, store: Store, who: str = "", cache: str | os.PathLike[str] | None = None) -> None:
        self.store, self.who = store, who
        self.how = f"store {store.url}"
        self._cache = cache
        self._missing: dict[str, float] = {}
        self._answered: set[str] = set()
        self._stack = ExitStack()  # of files that were unpacked or fetched without a cache

    def __repr__(self) -> str:
        return f"<StoreSource {self.store.url}>"

    def find(self, wanted: Wanted, tried: list[Tried]) -> Iterator[Candidate]:
        """The archive of a build-id, its debug file, its executable: as far as they are there."""
        build_id = wanted.key
        if not is_id(build_id):
            return
        found = False
        for kind in self._order(build_id, wanted):
            how = f"{self.how} {kind}"
            try:
                path = self._path(build_id, kind)
                candidate = identify(path, how) if path is not None else None
            except (WhenceError, OSError) as error:
                tried.append(Tried("", how, Outcome.BROKEN, without_file(error)))
                found = True
                continue
            if candidate is None:
                continue
            if kind is ARCHIVE and not candidate.build_ids:
                candidate = Candidate(candidate.path, how, (build_id,), is_archive=True)
            found = True
            self._note_use(build_id)
            yield candidate
        if not found:
            self._note_miss(build_id, wanted.path, list(wanted.kinds))
        tried.append(Tried("", self.how, Outcome.ABSENT, "nothing of this build-id" if not found else "nothing else"))

    def _order(self, build_id: str, wanted: Wanted) -> list[FileKind]:
        """The wanted kinds, the archive first if debug info or Go's tables are in it. One of mere symbols comes last:
        it must not hide debug info that is elsewhere, which completes an ELF file."""
        try:
            known = self.store.find(build_id)
        except OSError:
            known = None
        order = [ARCHIVE, DEBUGINFO, EXECUTABLE]
        if known is not None and known.made_of:
            best = known.quality
            if not best.units and not best.pclntab:
                order = [DEBUGINFO, EXECUTABLE, ARCHIVE] if best.symtab else [DEBUGINFO, EXECUTABLE]
        return [kind for kind in order if kind in wanted.kinds]

    def fetch(self, build_id: str, kind: str = "debuginfo", path: str = "") -> Path | None:
        """A file that completes another, as a debuginfod client has it; None when it is not there or not readable."""
        if not is_id(build_id):
            return None
        try:
            found = self._path(build_id, FileKind(kind))
        except (WhenceError, OSError):
            return None
        if found is not None:
            self._note_use(build_id)
        return found

    def _path(self, build_id: str, kind: FileKind) -> Path | None:
        key = f"{build_id}.{kind}"
        if time.monotonic() - self._missing.get(key, -ABSENT_SECONDS) < ABSENT_SECONDS:
            return None
        found = self._stack.enter_context(self.store.file(build_id, kind))
        if found is None:
            if len(self._missing) >= REMEMBERED:
                self._missing.clear()
            self._missing[key] = time.monotonic()
        return found

    def forget(self, build_id: str) -> None:
        """What was not there of a build-id is asked for again: something of it was put."""
        for kind in (ARCHIVE, DEBUGINFO, EXECUTABLE):
            self._missing.pop(f"{build_id}.{kind}", None)

    def _note_use(self, build_id: str) -> None:
        if self._is_first(build_id):
            self.store.used(build_id)

    def _is_first(self, build_id: str) -> bool:
        """Whether nothing was written down of a build-id by this process yet."""
        if build_id in self._answered:
            return False
        if len(self._answered) >= REMEMBERED:
            self._answered.clear()
        self._answered.add(build_id)
        return True

    def _note_miss(self, build_id: str, path: str, kinds: list[FileKind]) -> None:
        """Once a process: a question that is asked again for each address is one question."""
        if self.who and set(kinds) != {EXECUTABLE} and self._is_first(build_id):
            self.store.missed(build_id, self.who, path)

    def close(self) -> None:
        """Let temporary files go."""
        self._stack.close()
