"""What the store holds, as its index says it: read now and then, since reading costs with the number of build-ids."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

from whence._base.errors import WhenceError
from whence.store.folder import Folder

if TYPE_CHECKING:
    from whence.store import Store
    from whence.store.index import IndexRow

REST_SECONDS = 2.0  # and at least REST_TIMES as long as reading took
REST_TIMES = 20
MEGABYTE = 1 << 20
PACKAGE_SECONDS = 0.5  # that a request waits while it is read which packages files came from
FAR_READERS = 8  # threads that read it from a bucket, where each build-id is a request


class Listing:
    """The rows of the index, the youngest first; at most a few seconds old."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._rows: list[IndexRow] = []
        self._until = 0.0
        self._packages: dict[str, tuple[int, str]] = {}  # by build-id: the revision that was read, its packages
        self._readers: list[threading.Thread] = []
        self._closed = False

    def rows(self) -> list[IndexRow]:
        """Raises OSError."""
        with self._lock:
            began = time.monotonic()
            if began >= self._until:
                self._rows = sorted(self._store.list(), key=lambda one: -one.added)
                ended = time.monotonic()
                self._until = ended + max(REST_SECONDS, REST_TIMES * (ended - began))
            return self._rows

    def found(self, query: str) -> list[IndexRow]:
        """Those of a name, a build-id or a package. Raises OSError."""
        rows, wanted = self.rows(), query.lower()
        if not wanted:
            return rows
        self._read_packages(rows)
        return [
            one for one in rows
            if wanted in one.build_id or wanted in one.name.lower() or wanted in self.package_of(one.build_id).lower()
        ]  # fmt: skip

    def package_of(self, build_id: str) -> str:
        """The packages that its files came from, as far as they were read."""
        return self._packages.get(build_id, (0, ""))[1]

    def _read_packages(self, rows: list[IndexRow]) -> None:
        """Have what is new read by threads, the youngest first, and wait for them a while; they go on after that."""
        ends = time.monotonic() + PACKAGE_SECONDS
        with self._lock:
            self._readers = [one for one in self._readers if one.is_alive()]
            if not self._readers and not self._closed:
                unread = iter([row for row in rows if self._packages.get(row.build_id, (0, ""))[0] != row.revision])
                count = 1 if isinstance(self._store.objects, Folder) else FAR_READERS
                self._readers = [
                    threading.Thread(target=self._read, args=(unread,), name="packages", daemon=True)
                    for _ in range(count)
                ]
                for one in self._readers:
                    one.start()
            readers = self._readers
        for one in readers:
            one.join(max(0.0, ends - time.monotonic()))

    def _read(self, unread: Iterator[IndexRow]) -> None:
        """Read where rows came from, until there are none; a store that fails is asked again by the next search."""
        with suppress(OSError, WhenceError):
            for row in unread:
                if self._closed:
                    return
                known = self._store.find(row.build_id)
                files = known.files.values() if known is not None else ()
                origins = {one.origin.partition(": ")[0] for one in files}
                self._packages[row.build_id] = row.revision, " ".join(sorted(map(os.path.basename, origins)))

    def close(self) -> None:
        """Let the threads end with what they are at."""
        self._closed = True

    def forget(self) -> None:
        """Something was put: the next question reads anew."""
        self._until = 0.0

    def statistics(self) -> dict[str, float]:
        """What debuginfod's `groom` says of what it found, as far as it was read last."""
        rows = self._rows
        files = [one for row in rows for one in (row.debuginfo, row.executable) if one]
        return {
            "buildids": len(rows), "file d/e": len(files), "files scanned (#)": len(files),
            "files scanned (mb)": sum(files) // MEGABYTE,
        }  # fmt: skip
