"""Questions without an answer, written down in the store as wanted: at once, but of a flood so many a second."""

from __future__ import annotations

import threading
import time
from typing import TYPE_CHECKING

from whence.store.names import is_id
from whence.store.wanted import LONGEST_NAME

if TYPE_CHECKING:
    from whence.store import Store

WAITING = 10_000  # build-ids that wait to be written down; more are forgotten
AT_ONCE = 50
REST_SECONDS = 1.0


class Misses:
    """What nobody here could answer."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._counts: dict[tuple[str, str], tuple[int, str]] = {}  # how often, and the path named last
        self._lock = threading.Lock()
        self._writer: threading.Thread | None = None

    def note(self, build_id: str, who: str, path: str = "") -> None:
        """Count a question; it is written down soon."""
        if self._store.objects.read_only or not is_id(build_id):
            return
        with self._lock:
            key = build_id, who
            if key not in self._counts and len(self._counts) >= WAITING:
                return
            times, last = self._counts.get(key, (0, ""))
            self._counts[key] = times + 1, path[:LONGEST_NAME] or last
            if self._writer is None:
                self._writer = threading.Thread(target=self._write, name="misses", daemon=True)
                self._writer.start()

    def flush(self) -> None:
        """Write down what waits, those asked for most first, as many as may be written at once."""
        with self._lock:
            counts = sorted(self._counts.items(), key=lambda one: -one[1][0])[:AT_ONCE]
            for key, _ in counts:
                del self._counts[key]
        for (build_id, who), (times, path) in counts:
            self._store.missed(build_id, who, path, times=times)

    def _write(self) -> None:
        while True:
            self.flush()
            time.sleep(REST_SECONDS)
            with self._lock:
                if not self._counts:
                    self._writer = None
                    return
