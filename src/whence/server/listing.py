"""What the store holds, as its index says it: read now and then, since reading costs with the number of build-ids."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from whence.store import Store
    from whence.store.index import IndexRow

REST_SECONDS = 2.0  # and at least REST_TIMES as long as reading took
REST_TIMES = 20
MEGABYTE = 1 << 20


class Listing:
    """The rows of the index, the youngest first; at most a few seconds old."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._lock = threading.Lock()
        self._rows: list[IndexRow] = []
        self._until = 0.0

    def rows(self) -> list[IndexRow]:
        """Raises OSError."""
        with self._lock:
            began = time.monotonic()
            if began >= self._until:
                self._rows = sorted(self._store.list(), key=lambda one: -one.added)
                ended = time.monotonic()
                self._until = ended + max(REST_SECONDS, REST_TIMES * (ended - began))
            return self._rows

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
