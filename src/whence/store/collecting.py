"""Garbage collection: remove the build-ids that were used least recently."""

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
    """A removed build-id, its size in bytes, and when it was used or added last (seconds since 1970)."""

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
    report: Callable[[Collected], None] = lambda collected: None,
) -> list[Collected]:
    """Remove the build-ids that were used least recently, unless another writer is changing them.

    Args:
        store: The store.
        keep_days: Remove build-ids that were neither used nor added within this number of days.
        max_size: Then remove more of them, until the store has at most this number of bytes.
        dry_run: Remove nothing, only report.
        report: Called with each removed build-id.

    Raises:
        OSError: The store failed.
    """
    rows = store.list()
    used = {status.key.removeprefix(USED): int(status.modified) for status in store.objects.list(USED)}
    dated = [(max(row.added, used.get(row.build_id, 0)), row) for row in rows]
    total, now = sum(row.stored for row in rows), time.time()
    removed = []
    for last, row in sorted(dated, key=lambda item: item[0]):
        old = keep_days is not None and now - last > keep_days * DAY_SECONDS
        if not old and (max_size is None or total <= max_size):
            continue
        if not dry_run:
            try:
                store.remove(row.build_id, wait=0)
            except Busy:
                continue
        total -= row.stored
        removed.append(Collected(row.build_id, row.stored, last))
        report(removed[-1])
    if not dry_run and isinstance(store.objects, Folder):
        store.objects.sweep()
    return removed
