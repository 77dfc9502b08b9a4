"""What the store holds, as its index says it: read now and then, since reading costs with the number of build-ids."""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

from whence.store.folder import Folder

if TYPE_CHECKING:
    from whence.store import Store
    from whence.store.index import IndexRow

REST_SECONDS = 2.0  # and at least REST_TIMES as long as reading took
REST_TIMES = 20
MEGABYTE = 1 << 20
PACKAGE_SECONDS = 0.5  # of a request, for reading which packages files came from


class Listing:
    """The rows of the index, the youngest first; at most a few seconds old."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._rows: list[IndexRow] = []
        self._until = 0.0
        self._packages: dict[str, tuple[int, str]] = {}  # by build-id: the revision that was read, its packages

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
        """Read what is new, for a while; the next request goes on. Of a bucket nothing: each would be a request."""
        if not isinstance(self._store.objects, Folder):
            return
        ends = time.monotonic() + PACKAGE_SECONDS
        for row in rows:
            if self._packages.get(row.build_id, (0, ""))[0] == row.revision:
                continue
            if time.monotonic() > ends:
                return
            known = self._store.find(row.build_id)
            origins = {one.origin.partition(": ")[0] for one in known.files.values()} if known is not None else set()
            self._packages[row.build_id] = row.revision, " ".join(sorted(map(os.path.basename, origins)))

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
