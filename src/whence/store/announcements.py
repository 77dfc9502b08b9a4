"""Uploads that were announced and have not ended: an object for each build-id, shared by all servers of a store.

announced/ID.json    {"name": TEXT}; its time of change is when the upload was announced
"""

from __future__ import annotations

import json
import time
from typing import TYPE_CHECKING

from whence.store.names import ANNOUNCED, announced_key

if TYPE_CHECKING:
    from whence.store.objects import Objects, Stat

CAPACITY = 10_000  # announcements at a time
STALE_SECONDS = 420  # after which an announced upload has failed
LONGEST = 1 << 12  # bytes of an announcement
LONGEST_NAME = 1 << 10


class Announcements:
    """The announced uploads of a store. Safe from several threads and processes."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects

    def announce(self, build_id: str, name: str) -> str:
        """Announce an upload; return "", or why it is refused. Raises OSError."""
        count = 0
        for status in self._objects.list(ANNOUNCED):
            if is_stale(status):
                self._objects.delete(status.key)
            else:
                count += 1
        if count >= CAPACITY:
            return "too many uploads are in progress"
        content = json.dumps({"name": name[:LONGEST_NAME]}).encode()
        return "" if self._objects.create(announced_key(build_id), content) else "an upload of it is in progress"

    def name_of(self, build_id: str) -> str | None:
        """Return the name of an announced file; None if no upload of the build-id was announced. Raises OSError."""
        announcement = self._objects.read(announced_key(build_id), LONGEST)
        if announcement is None or is_stale(announcement[1]):
            return None
        try:
            return str(json.loads(announcement[0])["name"])
        except (ValueError, RecursionError, KeyError, TypeError):
            return ""

    def end(self, build_id: str) -> None:
        """Remove the announcement of a build-id. Raises OSError."""
        self._objects.delete(announced_key(build_id))


def is_stale(status: Stat) -> bool:
    """Return True if an upload was announced too long ago."""
    return time.time() - status.modified > STALE_SECONDS
