"""The open archives of a store, shared by requests; the least recently used is closed when there are too many."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from whence._base.lru import Lru
from whence._base.reasons import Missing, Reason
from whence.locate.search import FileQuery
from whence.locator.answers import OpenedFile
from whence.locator.locator import Locator


class PooledArchive:
    """An open file, and the number of requests that use it."""

    def __init__(self, opened: OpenedFile | None, missing: Missing | None) -> None:
        self.opened, self.missing = opened, missing
        self.users = 0
        self.evicted = False


class ArchivePool:
    """The files that answer for build-ids, each opened once by a Locator. `resized` is called with the pool's size."""

    def __init__(self, locator: Locator, capacity: int, resized: Callable[[int], object] = lambda size: None) -> None:
        self.locator = locator
        self._resized = resized
        self._lock = threading.Lock()
        self._opening: dict[str, threading.Lock] = {}
        self._archives: Lru[str, PooledArchive] = Lru(capacity, self._evict)

    def __len__(self) -> int:
        return len(self._archives)

    @contextmanager
    def use(self, build_id: str, addresses: int = 1) -> Iterator[OpenedFile | Missing]:
        """Open a block with the file that answers for a build-id, or the reason why it is missing.

        `addresses`: number of addresses that will be looked up. One request opens a file, others wait for it.
        """
        with self._lock:
            archive = self._acquire(build_id)
            opening = self._opening.setdefault(build_id, threading.Lock()) if archive is None else None
        if archive is None and opening is not None:
            with opening:
                with self._lock:
                    archive = self._acquire(build_id)
                if archive is None:
                    archive = self._open(build_id, addresses)
        assert archive is not None
        try:
            yield archive.opened if archive.opened is not None else archive.missing or Missing(Reason.NO_FILE, build_id)
        finally:
            with self._lock:
                archive.users -= 1
                self._close_unused(archive)

    def _acquire(self, build_id: str) -> PooledArchive | None:
        archive = self._archives.get(build_id)
        if archive is not None:
            archive.users += 1
        return archive

    def _open(self, build_id: str, addresses: int) -> PooledArchive:
        try:
            search = self.locator.search(FileQuery(build_id, local=False), addresses=addresses)
        finally:
            with self._lock:
                self._opening.pop(build_id, None)
        archive = PooledArchive(search.opened, search.missing)
        archive.users = 1
        with self._lock:
            if archive.opened is not None:  # a missing file may be added at any time
                before = self._archives.pop(build_id, None)
                if before is not None:
                    self._evict(before)
                self._archives[build_id] = archive
                self._resized(len(self._archives))
        return archive

    def forget(self, build_id: str) -> None:
        """Close the file of a build-id, which was replaced by a better one, as soon as no request uses it."""
        with self._lock:
            archive = self._archives.pop(build_id, None)
            if archive is not None:
                self._evict(archive)
            self._resized(len(self._archives))

    def close(self) -> None:
        """Close all files that no request uses."""
        with self._lock:
            self._archives.close()
            self._resized(0)

    def _evict(self, archive: PooledArchive) -> None:
        archive.evicted = True
        self._close_unused(archive)

    @staticmethod
    def _close_unused(archive: PooledArchive) -> None:
        if archive.evicted and archive.users == 0 and archive.opened is not None:
            archive.opened.close()
