"""Open archives of a store, for many requests at once: the least recently used is closed when there are too many."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

from whence._base.lru import Lru
from whence._base.reasons import Missing, Reason
from whence.locate.search import Opened, Wanted
from whence.locator.locator import Locator
from whence.objects.elf.segments import Segment


class HeldArchive:
    """An open file, and how many requests use it now."""

    def __init__(self, opened: Opened | None, missing: Missing | None) -> None:
        self.opened, self.missing = opened, missing
        self.users = 0
        self.dropped = False


class ArchivePool:
    """What answers for build-ids, opened once by a Locator."""

    def __init__(self, locator: Locator, most: int) -> None:
        self.locator = locator
        self._lock = threading.Lock()
        self._opening: dict[str, threading.Lock] = {}
        self._held: Lru[str, HeldArchive] = Lru(most, self._drop)

    def __len__(self) -> int:
        return len(self._held)

    @contextmanager
    def use(self, build_id: str, addresses: int = 1) -> Iterator[Opened | Missing]:
        """What answers for a build-id, open within the block; or why nothing does. Opened by one request at a time."""
        with self._lock:
            held = self._take(build_id)
            gate = self._opening.setdefault(build_id, threading.Lock()) if held is None else None
        if held is None and gate is not None:
            with gate:
                with self._lock:
                    held = self._take(build_id)
                if held is None:
                    held = self._open(build_id, addresses)
        assert held is not None
        try:
            yield held.opened if held.opened is not None else held.missing or Missing(Reason.NO_FILE, build_id)
        finally:
            with self._lock:
                held.users -= 1
                self._close_if_free(held)

    def _take(self, build_id: str) -> HeldArchive | None:
        held = self._held.get(build_id)
        if held is not None:
            held.users += 1
        return held

    def _open(self, build_id: str, addresses: int) -> HeldArchive:
        try:
            search = self.locator.search(Wanted(build_id, local=False), addresses=addresses)
        finally:
            with self._lock:
                self._opening.pop(build_id, None)
        held = HeldArchive(search.opened, search.missing)
        held.users = 1
        with self._lock:
            if held.opened is not None:  # what is missing now may be there in a moment
                before = self._held.pop(build_id, None)
                if before is not None:
                    self._drop(before)
                self._held[build_id] = held
        return held

    def forget(self, build_id: str) -> None:
        """What was open of a build-id is not asked again: a better file came."""
        with self._lock:
            held = self._held.pop(build_id, None)
            if held is not None:
                self._drop(held)

    def close(self) -> None:
        with self._lock:
            self._held.close()

    def _drop(self, held: HeldArchive) -> None:
        held.dropped = True
        self._close_if_free(held)

    @staticmethod
    def _close_if_free(held: HeldArchive) -> None:
        if held.dropped and held.users == 0 and held.opened is not None:
            held.opened.close()


def image_base(segments: list[Segment] | tuple[Segment, ...]) -> int:
    """The start of the image: the lowest loaded vaddr, rounded down to its page."""
    loaded = [one for one in segments if one.is_loaded]
    return min((one.vaddr & -one.page for one in loaded), default=0)
