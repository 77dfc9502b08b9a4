"""Requests for missing build-ids, counted, and the last use of each build-id."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator
from typing import TYPE_CHECKING

from whence._base.errors import plain
from whence._base.records import Record
from whence.store.names import WANTED, is_id, used_key, wanted_key

if TYPE_CHECKING:
    from whence.store.objects import Objects

LONGEST = 1 << 14  # bytes of a record
LONGEST_NAME = 1 << 10
CLIENTS = 32  # counted separately
TRIES = 4
DAY_SECONDS = 86400
CAPACITY = 10_000  # records in a store
NEW = 1_000  # records that a process makes before it counts those of the store again


class MissedId(Record, frozen=True):
    """A missing build-id: the number of requests by client, and when it was requested first and last.

    Times are seconds since 1970. `path` is the path in the last request, or "".
    """

    build_id: str
    asked: dict[str, int]
    first: int
    last: int
    path: str = ""

    @property
    def count(self) -> int:
        """The number of requests."""
        return sum(self.asked.values())

    def as_json(self) -> dict[str, object]:
        """Return the record as JSON."""
        return {
            "build_id": self.build_id, "count": self.count, "asked": self.asked, "first": self.first,
            "last": self.last, "path": self.path,
        }  # fmt: skip


def read(content: bytes, build_id: str) -> MissedId | None:
    """Parse a record; return None if it is malformed."""
    try:
        document = json.loads(content)
        counts = {str(who): int(count) for who, count in document["asked"].items()}
        return MissedId(build_id, counts, int(document["first"]), int(document["last"]), str(document["path"]))
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError, OverflowError):
        return None


class NoteCount:
    """Limits the number of records in a store. Safe from several threads."""

    def __init__(self) -> None:
        self._left = 0
        self._lock = threading.Lock()

    def make_space(self, objects: Objects) -> None:
        """Delete the least recent records beyond CAPACITY, now and after every NEW records."""
        with self._lock:
            self._left -= 1
            if self._left >= 0:
                return
            self._left = NEW - 1
        records = sorted(objects.list(WANTED), key=lambda status: status.modified)
        for status in records[: max(0, len(records) - CAPACITY)]:
            objects.delete(status.key)


def note(objects: Objects, build_id: str, who: str, path: str = "", times: int = 1, *, count: NoteCount) -> None:
    """Add `times` requests of the client `who` to the record of a build-id. Raises OSError.

    With several concurrent writers a request may stay uncounted after TRIES attempts.
    """
    if objects.read_only or not is_id(build_id):
        return
    key, now = wanted_key(build_id), int(time.time())
    for _ in range(TRIES):
        seen = objects.read(key, LONGEST)
        before = read(seen[0], build_id) if seen is not None else None
        if seen is None:
            count.make_space(objects)
        before = before or MissedId(build_id, {}, now, now)
        client = who if who in before.asked or len(before.asked) < CLIENTS else "others"
        counts = before.asked | {client: before.asked.get(client, 0) + times}
        record = MissedId(build_id, counts, before.first, now, plain(path)[:LONGEST_NAME] or before.path)
        content = json.dumps(record.as_json()).encode()
        if objects.create(key, content) if seen is None else objects.replace(key, content, seen[1].tag):
            return


def questions(objects: Objects) -> list[MissedId]:
    """Return all records, most requested first. Raises OSError."""
    return sorted(_all(objects), key=lambda record: (-record.count, -record.last, record.build_id))


def _all(objects: Objects) -> Iterator[MissedId]:
    for status in objects.list(WANTED):
        build_id = status.key.removeprefix(WANTED).removesuffix(".json")
        seen = objects.read(status.key, LONGEST) if is_id(build_id) else None
        record = read(seen[0], build_id) if seen is not None else None
        if record is not None:
            yield record


def mark_used(objects: Objects, build_id: str) -> None:
    """Record that a build-id is used now, once a day. Raises OSError."""
    if objects.read_only or not is_id(build_id):
        return
    seen = objects.head(used_key(build_id))
    if seen is None or time.time() - seen.modified > DAY_SECONDS:
        objects.put(used_key(build_id), b"")
