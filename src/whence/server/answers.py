"""A cache of the answers of /symbolize, as lines: clients look up the same addresses repeatedly."""

from __future__ import annotations

import threading

CAPACITY_BYTES = 64 << 20
ROW_BYTES = 150  # the overhead of a line


class LinesByAddress(dict[int, bytes]):
    """The lines of one build-id, by address. `forgotten`: number of calls of `forget` before they were made."""

    def __init__(self, forgotten: int) -> None:
        super().__init__()
        self.forgotten = forgotten


class AnswerLines:
    """Caches lines by build-id and kind of addresses. The cache is cleared when it is full."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: dict[tuple[str, bool], LinesByAddress] = {}
        self._bytes = self._forgotten = 0

    def lines_of(self, build_id: str, returns: bool) -> LinesByAddress:
        """Return the lines of a build-id, for `add`. Call it before the file is opened."""
        with self._lock:
            lines = self._lines.get((build_id, returns))
            return LinesByAddress(self._forgotten) if lines is None else lines

    def add(self, build_id: str, returns: bool, lines: LinesByAddress, new: dict[int, bytes]) -> None:
        """Add lines of a build-id. They are not cached if a file was replaced after `lines_of`."""
        lines.update(new)
        size = sum(map(len, new.values())) + ROW_BYTES * len(new)
        with self._lock:
            if lines.forgotten != self._forgotten and self._lines.get((build_id, returns)) is not lines:
                return
            if self._bytes + size > CAPACITY_BYTES:
                self._lines.clear()
                self._bytes = 0
            if size <= CAPACITY_BYTES:
                self._bytes += size
                self._lines.setdefault((build_id, returns), lines)

    def forget(self, build_id: str) -> None:
        """Drop the lines of a build-id, because a file of it was put."""
        with self._lock:
            self._forgotten += 1
            for returns in (False, True):
                lines = self._lines.pop((build_id, returns), None)
                if lines is not None:
                    self._bytes -= sum(map(len, lines.values())) + ROW_BYTES * len(lines)
