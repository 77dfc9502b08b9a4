"""Answers of /symbolize that were given already, as the lines that they are: the same addresses are asked for again."""

from __future__ import annotations

import threading

KEPT_BYTES = 64 << 20
ROW_BYTES = 150  # what a line takes besides its text


class LinesByAddress(dict[int, bytes]):
    """Those of one build-id, by address; taken when `forgotten` build-ids had been forgotten."""

    def __init__(self, forgotten: int) -> None:
        super().__init__()
        self.forgotten = forgotten


class AnswerLines:
    """LinesByAddress by build-id and whether addresses are return addresses. With too many all are forgotten."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._lines: dict[tuple[str, bool], LinesByAddress] = {}
        self._bytes = self._forgotten = 0

    def of(self, build_id: str, returns: bool) -> LinesByAddress:
        """The lines of a build-id, to be taken before its file is opened, and to be handed to `keep`."""
        with self._lock:
            known = self._lines.get((build_id, returns))
            return LinesByAddress(self._forgotten) if known is None else known

    def keep(self, build_id: str, returns: bool, lines: LinesByAddress, new: dict[int, bytes]) -> None:
        """Add to a build-id's lines. They are kept unless something was forgotten since they were taken."""
        lines.update(new)
        size = sum(map(len, new.values())) + ROW_BYTES * len(new)
        with self._lock:
            if lines.forgotten != self._forgotten and self._lines.get((build_id, returns)) is not lines:
                return
            if self._bytes + size > KEPT_BYTES:
                self._lines.clear()
                self._bytes = 0
            if size <= KEPT_BYTES:
                self._bytes += size
                self._lines.setdefault((build_id, returns), lines)

    def forget(self, build_id: str) -> None:
        """Another file answers for a build-id now."""
        with self._lock:
            self._forgotten += 1
            for returns in (False, True):
                gone = self._lines.pop((build_id, returns), None)
                if gone is not None:
                    self._bytes -= sum(map(len, gone.values())) + ROW_BYTES * len(gone)
