"""Requests for missing build-ids, recorded in the store in the background, a limited number per second."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from whence.store.names import is_id
from whence.store.wanted import LONGEST_NAME

if TYPE_CHECKING:
    from whence.store import Store

CAPACITY = 10_000  # build-ids that wait to be recorded; more are dropped
BATCH = 50
PAUSE_SECONDS = 1.0


class MissRecorder:
    """Counts requests for missing build-ids and records them in a store."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._counts: dict[tuple[str, str], tuple[int, str]] = {}  # by build-id and client: count, and the last path
        self._lock = threading.Lock()
        self._writer: threading.Thread | None = None

    def note(self, build_id: str, who: str, path: str = "") -> None:
        """Count a request, to be recorded soon."""
        if self._store.objects.read_only or not is_id(build_id):
            return
        with self._lock:
            key = build_id, who
            if key not in self._counts and len(self._counts) >= CAPACITY:
                return
            times, last = self._counts.get(key, (0, ""))
            self._counts[key] = times + 1, path[:LONGEST_NAME] or last
            if self._writer is None:
                self._writer = threading.Thread(target=self._write, name="misses", daemon=True)
                self._writer.start()

    def flush(self) -> None:
        """Record a batch of waiting requests, the most frequent first."""
        with self._lock:
            counts = sorted(self._counts.items(), key=lambda item: -item[1][0])[:BATCH]
            for key, _ in counts:
                del self._counts[key]
        for (build_id, who), (times, path) in counts:
            self._store.missed(build_id, who, path, times=times)

    def _write(self) -> None:
        while True:
            self.flush()
            time.sleep(PAUSE_SECONDS)
            with self._lock:
                if not self._counts:
                    self._writer = None
                    return
