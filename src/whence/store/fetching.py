"""Files of a bucket in the local cache, and what the bucket does not have.

    CACHE/ab/ID-PLACE.KIND               the file; PLACE is a mark of the bucket's address
    CACHE/ab/ID-PLACE.KIND.PLACE.origin  the mark of its tag; its time is when the bucket was asked last
    CACHE/ab/ID-PLACE.KIND.PLACE.absent  its time is when the bucket did not have it

A file that was compared within FRESH_SECONDS is opened without a request; after that one request shows whether it
changed. What is missing is not asked for again for ABSENT_SECONDS.
"""

from __future__ import annotations

import hashlib
import os
import time
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from whence._base.errors import WhenceError
from whence.locate.cache import ABSENT, ORIGIN, Cache, is_own, open_own
from whence.store.names import KINDS

if TYPE_CHECKING:
    from whence.store.reader import StoreReader

FRESH_SECONDS = 3600.0
ABSENT_SECONDS = 600.0
MARK_LENGTH = 12
ANYTHING = "lidia"  # the kind that stands for all files of a build-id


class Fetched:
    """What a bucket's store has, and compressed archives of any store, by way of a cache.

    A file is not compared with the store for `fresh_seconds` (None: an hour).
    """

    def __init__(self, store: StoreReader, cache: Cache, *, fresh_seconds: float | None = None) -> None:
        self.store, self.cache, self._fresh = store, cache, fresh_seconds
        self._place = _mark(store.url)

    def __repr__(self) -> str:
        return f"<Fetched {self.store.url}, kept in {self.cache.root}>"

    def _fresh_seconds(self) -> float:
        return FRESH_SECONDS if self._fresh is None else self._fresh

    def _key(self, build_id: str, kind: str) -> str:
        return f"{build_id}-{self._place}.{kind}"

    def _note(self, key: str, ending: str) -> Path:
        path = self.cache.path(key)
        return path.with_name(f"{path.name}.{self._place}{ending}")

    def is_fresh(self, build_id: str, kind: str) -> bool:
        """Whether a file is in the cache and was compared a short while ago."""
        key = self._key(build_id, kind)
        return _age(self._note(key, ORIGIN)) < self._fresh_seconds() and self.cache.path(key).exists()

    def is_kept(self, build_id: str) -> bool:
        """Whether any file of a build-id is in the cache."""
        return any(self.cache.path(self._key(build_id, kind)).exists() for kind in KINDS)

    def path(self, build_id: str, kind: str) -> Path | None:
        """A file of a build-id; None when the bucket does not have it. Raises OSError when it can't be asked, and
        nothing is here."""
        key = self._key(build_id, kind)
        found = self.cache.get(key)
        note = self._note(key, ORIGIN)
        if found is not None and _age(note) < self._fresh_seconds():
            return found
        try:
            status = self.store.status(build_id, kind)
        except OSError:
            if found is None:
                raise
            return found
        if status is None:
            return found
        tag = _mark(f"{status.tag} {status.size}")
        if found is not None:
            if _content(note) == tag:
                self._write(note, tag)
                return found
            found.unlink(missing_ok=True)

        def fetch(file: BinaryIO) -> None:
            self.store.fetch(build_id, kind, file)

        made = self.cache.put(key, fetch)
        self._write(note, tag)
        return made

    def is_absent(self, build_id: str) -> bool:
        """Whether the bucket had nothing of a build-id a short while ago."""
        return _age(self._note(self._key(build_id, ANYTHING), ABSENT)) < ABSENT_SECONDS

    def note_absent(self, build_id: str) -> None:
        self._write(self._note(self._key(build_id, ANYTHING), ABSENT), "")

    def forget_absent(self, build_id: str) -> None:
        """Ask the bucket again."""
        with suppress(OSError):
            self._note(self._key(build_id, ANYTHING), ABSENT).unlink(missing_ok=True)

    def _write(self, note: Path, content: str) -> None:
        with suppress(OSError, WhenceError):  # a cache that can't be written to costs requests
            self.cache.folder(note.parent.name)
            with os.fdopen(open_own(note), "r+b") as file:
                file.truncate(0)
                file.write(content.encode())
                file.flush()
                os.utime(file.fileno())


def _mark(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:MARK_LENGTH]


def _age(note: Path) -> float:
    """How long ago a note was written, in seconds; for ever, where there is none."""
    try:
        status = note.lstat()
    except OSError:
        return float("inf")
    return abs(time.time() - status.st_mtime) if is_own(status) else float("inf")


def _content(note: Path) -> str:
    try:
        if not is_own(note.lstat()):
            return ""
        with open(note, "rb") as file:
            return file.read(MARK_LENGTH + 1).decode("ascii", "replace")
    except OSError:
        return ""
