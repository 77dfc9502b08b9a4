"""Files of a bucket in the local cache, and notes about files that the bucket does not have.

    CACHE/ab/ID-STORE.KIND               the file; STORE is a hash of the bucket's address
    CACHE/ab/ID-STORE.KIND.STORE.origin  a hash of its tag; its time of change is when the bucket was asked last
    CACHE/ab/ID-STORE.KIND.STORE.absent  its time of change is when the bucket did not have the file

A file that was compared within FRESH_SECONDS is opened without a request; after that one request shows if it has
changed. A missing file is not requested again for ABSENT_SECONDS.
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
from whence.locate.search import ALL_KINDS

if TYPE_CHECKING:
    from whence.store.reader import StoreReader

FRESH_SECONDS = 3600.0
ABSENT_SECONDS = 600.0
HASH_LENGTH = 12
ANYTHING = "lidia"  # the kind in notes about all files of a build-id


class Fetched:
    """The files of a bucket, and the compressed archives of any store, in a cache.

    A cached file is not compared with the store for `fresh_seconds` (None: an hour).
    """

    def __init__(self, store: StoreReader, cache: Cache, *, fresh_seconds: float | None = None) -> None:
        self.store, self.cache, self._fresh = store, cache, fresh_seconds
        self._url_hash = _hash(store.url)

    def __repr__(self) -> str:
        return f"<Fetched {self.store.url}, cached in {self.cache.root}>"

    def _fresh_seconds(self) -> float:
        return FRESH_SECONDS if self._fresh is None else self._fresh

    def _key(self, build_id: str, kind: str) -> str:
        return f"{build_id}-{self._url_hash}.{kind}"

    def _note(self, key: str, ending: str) -> Path:
        path = self.cache.path(key)
        return path.with_name(f"{path.name}.{self._url_hash}{ending}")

    def is_fresh(self, build_id: str, kind: str) -> bool:
        """Return True if a file is in the cache and was compared recently."""
        key = self._key(build_id, kind)
        return _age(self._note(key, ORIGIN)) < self._fresh_seconds() and self.cache.path(key).exists()

    def is_cached(self, build_id: str) -> bool:
        """Return True if any file of a build-id is in the cache."""
        return any(self.cache.path(self._key(build_id, kind)).exists() for kind in ALL_KINDS)

    def path(self, build_id: str, kind: str) -> Path | None:
        """Return the path of a file of a build-id; None if the store does not have it.

        Raises OSError if the store can't be read and the file is not in the cache.
        """
        key = self._key(build_id, kind)
        cached = self.cache.get(key)
        note = self._note(key, ORIGIN)
        if cached is not None and _age(note) < self._fresh_seconds():
            return cached
        try:
            status = self.store.status(build_id, kind)
        except OSError:
            if cached is None:
                raise
            return cached
        if status is None:
            return cached
        tag = _hash(f"{status.tag} {status.size}")
        if cached is not None:
            if _content(note) == tag:
                self._write(note, tag)
                return cached
            cached.unlink(missing_ok=True)

        def fetch(file: BinaryIO) -> None:
            self.store.fetch(build_id, kind, file)

        path = self.cache.put(key, fetch)
        self._write(note, tag)
        return path

    def is_absent(self, build_id: str) -> bool:
        """Return True if the bucket recently had no file of a build-id."""
        return _age(self._note(self._key(build_id, ANYTHING), ABSENT)) < ABSENT_SECONDS

    def note_absent(self, build_id: str) -> None:
        """Record that the bucket has no file of a build-id."""
        self._write(self._note(self._key(build_id, ANYTHING), ABSENT), "")

    def forget_absent(self, build_id: str) -> None:
        """Forget that the bucket had no file of a build-id."""
        with suppress(OSError):
            self._note(self._key(build_id, ANYTHING), ABSENT).unlink(missing_ok=True)

    def _write(self, note: Path, content: str) -> None:
        with suppress(OSError, WhenceError):  # without a cache more requests are made
            self.cache.folder(note.parent.name)
            with os.fdopen(open_own(note), "r+b") as file:
                file.truncate(0)
                file.write(content.encode())
                file.flush()
                os.utime(file.fileno())


def _hash(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:HASH_LENGTH]


def _age(note: Path) -> float:
    """Return how long ago a note was written, in seconds; infinity if it does not exist."""
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
            return file.read(HASH_LENGTH + 1).decode("ascii", "replace")
    except OSError:
        return ""
