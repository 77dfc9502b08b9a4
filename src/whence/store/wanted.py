"""What was asked for: questions without an answer, counted, and when a build-id answered last."""

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

LONGEST = 1 << 14  # bytes of a note
LONGEST_NAME = 1 << 10
ASKERS = 32  # that are counted apart
TRIES = 4
DAY_SECONDS = 86400
MOST = 10_000  # notes in a store
NEW = 1_000  # notes that a process makes before it counts those of the store again


class MissedId(Record, frozen=True):
    """A build-id that was asked for and is not there: how often by whom, when first and last (seconds since 1970), and
    the path that the last question named ("" for none)."""

    build_id: str
    asked: dict[str, int]
    first: int
    last: int
    path: str = ""

    @property
    def count(self) -> int:
        return sum(self.asked.values())

    def as_json(self) -> dict[str, object]:
        return {
            "build_id": self.build_id, "count": self.count, "asked": self.asked, "first": self.first,
            "last": self.last, "path": self.path,
        }  # fmt: skip


def read(content: bytes, build_id: str) -> MissedId | None:
    """A note as it was written; None for anything else."""
    try:
        found = json.loads(content)
        asked = {str(who): int(count) for who, count in found["asked"].items()}
        return MissedId(build_id, asked, int(found["first"]), int(found["last"]), str(found["path"]))
    except (ValueError, RecursionError, KeyError, TypeError, AttributeError, OverflowError):
        return None


class NoteCount:
    """How many notes a process may make before it looks for too many. Safe from several threads."""

    def __init__(self) -> None:
        self._left = 0
        self._lock = threading.Lock()

    def make_room(self, objects: Objects) -> None:
        """Before a new note: delete those asked for least recently beyond MOST, now and after every NEW notes."""
        with self._lock:
            self._left -= 1
            if self._left >= 0:
                return
            self._left = NEW - 1
        notes = sorted(objects.list(WANTED), key=lambda one: one.modified)
        for one in notes[: max(0, len(notes) - MOST)]:
            objects.delete(one.key)


def note(objects: Objects, build_id: str, who: str, path: str = "", times: int = 1, *, count: NoteCount) -> None:
    """Count a question that was asked so many times.

    Of writers at the same time one may go uncounted after some tries. Raises OSError.
    """
    if objects.read_only or not is_id(build_id):
        return
    key, now = wanted_key(build_id), int(time.time())
    for _ in range(TRIES):
        seen = objects.read(key, LONGEST)
        before = read(seen[0], build_id) if seen is not None else None
        if seen is None:
            count.make_room(objects)
        before = before or MissedId(build_id, {}, now, now)
        asker = who if who in before.asked or len(before.asked) < ASKERS else "others"
        asked = before.asked | {asker: before.asked.get(asker, 0) + times}
        made = MissedId(build_id, asked, before.first, now, plain(path)[:LONGEST_NAME] or before.path)
        content = json.dumps(made.as_json()).encode()
        if objects.create(key, content) if seen is None else objects.replace(key, content, seen[1].tag):
            return


def questions(objects: Objects) -> list[MissedId]:
    """All that is wanted, what was asked for most first."""
    return sorted(_all(objects), key=lambda one: (-one.count, -one.last, one.build_id))


def _all(objects: Objects) -> Iterator[MissedId]:
    for one in objects.list(WANTED):
        build_id = one.key.removeprefix(WANTED).removesuffix(".json")
        seen = objects.read(one.key, LONGEST) if is_id(build_id) else None
        found = read(seen[0], build_id) if seen is not None else None
        if found is not None:
            yield found


def mark_used(objects: Objects, build_id: str) -> None:
    """Let the time of last use be now, unless it is of this day. Raises OSError."""
    if objects.read_only or not is_id(build_id):
        return
    seen = objects.head(used_key(build_id))
    if seen is None or time.time() - seen.modified > DAY_SECONDS:
        objects.put(used_key(build_id), b"")
