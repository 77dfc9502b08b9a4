"""The rows of the store's index, cached for seconds: reading takes time in proportion to the number of build-ids."""

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

FRESH_SECONDS = 2.0  # or FRESH_TIMES the time that reading took, if that is longer
FRESH_TIMES = 20
MEGABYTE = 1 << 20
PACKAGE_SECONDS = 0.5  # how long a request waits until the packages of files are read
FAR_READERS = 8  # threads that read a bucket, where each build-id takes a request


class Listing:
    """The rows of the index, newest first."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._rows: list[IndexRow] = []
        self._until = 0.0
        self._packages: dict[str, tuple[int, str]] = {}  # by build-id: the revision that was read, and its packages
        self._readers: list[threading.Thread] = []
        self._closed = False

    def rows(self) -> list[IndexRow]:
        """Return all rows. Raises OSError."""
        with self._lock:
            began = time.monotonic()
            if began >= self._until:
                self._rows = sorted(self._store.list(), key=lambda row: -row.added)
                ended = time.monotonic()
                self._until = ended + max(FRESH_SECONDS, FRESH_TIMES * (ended - began))
            return self._rows

    def search(self, query: str) -> list[IndexRow]:
        """Return the rows whose name, build-id or package contains a text. Raises OSError."""
        rows, text = self.rows(), query.lower()
        if not text:
            return rows
        self._read_packages(rows)
        return [
            row for row in rows
            if text in row.build_id or text in row.name.lower() or text in self.package_of(row.build_id).lower()
        ]  # fmt: skip

    def package_of(self, build_id: str) -> str:
        """Return the packages of the files of a build-id, as far as they were read."""
        return self._packages.get(build_id, (0, ""))[1]

    def _read_packages(self, rows: list[IndexRow]) -> None:
        """Read the packages of new rows on threads, newest first, and wait up to PACKAGE_SECONDS for them."""
        ends = time.monotonic() + PACKAGE_SECONDS
        with self._lock:
            self._readers = [reader for reader in self._readers if reader.is_alive()]
            if not self._readers and not self._closed:
                unread = iter([row for row in rows if self._packages.get(row.build_id, (0, ""))[0] != row.revision])
                count = 1 if isinstance(self._store.objects, Folder) else FAR_READERS
                self._readers = [
                    threading.Thread(target=self._read, args=(unread,), name="packages", daemon=True)
                    for _ in range(count)
                ]
                for reader in self._readers:
                    reader.start()
            readers = self._readers
        for reader in readers:
            reader.join(max(0.0, ends - time.monotonic()))

    def _read(self, unread: Iterator[IndexRow]) -> None:
        """Read the packages of rows. After an error of the store the next search continues."""
        with suppress(OSError, WhenceError):
            for row in unread:
                if self._closed:
                    return
                described = self._store.find(row.build_id)
                files = described.files.values() if described is not None else ()
                origins = {entry.origin.partition(": ")[0] for entry in files}
                self._packages[row.build_id] = row.revision, " ".join(sorted(map(os.path.basename, origins)))

    def close(self) -> None:
        """Let the threads end after their current row."""
        self._closed = True

    def forget(self) -> None:
        """Drop the rows, because a file was put."""
        self._until = 0.0

    def statistics(self) -> dict[str, float]:
        """Return the statistics of debuginfod's `groom`, from the rows that were read last."""
        rows = self._rows
        files = [size for row in rows for size in (row.debuginfo, row.executable) if size]
        return {
            "buildids": len(rows), "file d/e": len(files), "files scanned (#)": len(files),
            "files scanned (mb)": sum(files) // MEGABYTE,
        }  # fmt: skip
