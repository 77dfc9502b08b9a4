"""What goes from a store by itself: build-ids that answered longest ago."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from whence._base.records import Record
from whence.store.folder import Folder
from whence.store.leases import Busy
from whence.store.names import USED

if TYPE_CHECKING:
    from whence.store.store import Store

DAY_SECONDS = 86400


class Collected(Record, frozen=True):
    """A build-id that was removed, its bytes, and when it answered or came last (seconds since 1970)."""

    build_id: str
    size: int
    last: int

    def as_json(self) -> dict[str, object]:
        return {"build_id": self.build_id, "removed_bytes": self.size, "last_used": self.last}


def collect(
    store: Store,
    *,
    keep_days: float | None = None,
    max_size: int | None = None,
    dry_run: bool = False,
    report: Callable[[Collected], None] = lambda one: None,
) -> list[Collected]:
    """Remove build-ids that neither answered nor came within `keep_days`, then those used longest ago until the rest
    fits `max_size` bytes. What another writer is changing stays. With `dry_run` nothing is removed. Raises OSError."""
    rows = store.list()
    used = {one.key.removeprefix(USED): int(one.modified) for one in store.objects.list(USED)}
    dated = [(max(row.added, used.get(row.build_id, 0)), row) for row in rows]
    total, now = sum(row.stored for row in rows), time.time()
    gone = []
    for last, row in sorted(dated, key=lambda one: one[0]):
        old = keep_days is not None and now - last > keep_days * DAY_SECONDS
        if not old and (max_size is None or total <= max_size):
            continue
        if not dry_run:
            try:
                store.remove(row.build_id, wait=0)
            except Busy:
                continue
        total -= row.stored
        gone.append(Collected(row.build_id, row.stored, last))
        report(gone[-1])
    if not dry_run and isinstance(store.objects, Folder):
        store.objects.sweep()
    return gone
