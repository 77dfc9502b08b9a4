"""What `ls` prints: a row for each build-id, in one object, with the changes since in one object each.

    index/base.json        {"version": 1, "rows": [ROW...]}
    index/log/NAME.json    rows that changed after the base was written: the one with the highest revision counts

Who changes a build-id writes its row while it holds the lease, after meta.json. A writer that was killed leaves its
lease behind, and the build-ids of leases are looked up in their meta.json. So the index misses nothing; and it can be
made again from the store at any time (`rebuild`). Rows are folded into the base when there are many.
"""

from __future__ import annotations

import json
import os
from itertools import repeat
from typing import TYPE_CHECKING, NamedTuple

from whence.store import meta
from whence.store.meta import Meta
from whence.store.names import ARCHIVE, DEBUGINFO, EXECUTABLE, FILES, ID, INDEX, LOCKS, LOG, are_ids, is_id, meta_key

if TYPE_CHECKING:
    from collections.abc import Iterable

    from whence.store.objects import Objects, Stat

VERSION = 1
LONGEST_BASE = 1 << 30
LONGEST_LOG = 1 << 24
TRIES = 5
FOLD_FROM = 64  # objects of the log from which on they are folded into the base


class IndexRow(NamedTuple):
    """A line of `ls`: sizes in bytes (0: there is no such file), the quality in words, when its youngest file came
    (seconds since 1970). A revision whose sizes are all 0 was removed."""

    build_id: str
    revision: int
    debuginfo: int
    executable: int
    archive: int
    stored: int
    quality: str
    added: int
    name: str

    @classmethod
    def of(cls, known: Meta) -> IndexRow:
        debuginfo, executable, archive = (
            known.files[kind].size if kind in known.files else 0 for kind in (DEBUGINFO, EXECUTABLE, ARCHIVE)
        )
        return cls(
            known.build_id, known.revision, debuginfo, executable, archive, known.size, str(known.quality), known.added,
            known.name,
        )  # fmt: skip

    @classmethod
    def gone(cls, build_id: str, revision: int) -> IndexRow:
        return cls(build_id, revision, 0, 0, 0, 0, "", 0, "")

    @property
    def is_gone(self) -> bool:
        return not (self.debuginfo or self.executable or self.archive)

    def as_json(self) -> dict[str, object]:
        return self._asdict()


KINDS_OF_FIELDS = (str, int, int, int, int, int, str, int, str)


def rows_in(content: bytes) -> list[IndexRow]:
    """The rows that an object of the index has; those that can't be read are left out."""
    try:
        found = json.loads(content)
        listed = found["rows"] if found["version"] == VERSION else []
        if not _are_rows(listed):
            kinds, whole = KINDS_OF_FIELDS, ID.fullmatch
            listed = [one for one in listed if tuple(map(type, one)) == kinds and whole(one[0])]
        return list(map(tuple.__new__, repeat(IndexRow), listed))
    except (ValueError, RecursionError, KeyError, TypeError):
        return []


def _are_rows(listed: list[tuple[object, ...]]) -> bool:
    """Whether all can be read: most often they can, and it takes a fraction of looking at each by itself."""
    try:
        kinds = {
            (type(a), type(b), type(c), type(d), type(e), type(f), type(g), type(h), type(i))
            for a, b, c, d, e, f, g, h, i in listed
        }
    except (ValueError, TypeError):  # one has not so many fields
        return False
    return kinds == {KINDS_OF_FIELDS} and are_ids([str(one[0]) for one in listed])


def packed(rows: Iterable[IndexRow]) -> bytes:
    return json.dumps({"version": VERSION, "rows": list(rows)}, separators=(",", ":")).encode()


class Index:
    """The index of a store."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._folded = False  # by this reader, just now

    def write(self, rows: Iterable[IndexRow]) -> None:
        """Tell of rows that changed."""
        content = packed(rows)
        while not self._objects.create(f"{LOG}{os.urandom(12).hex()}.json", content):
            pass

    def rows(self) -> list[IndexRow]:
        """Every row, in order of build-id. Folds the log into the base when it has grown."""
        for _ in range(TRIES):
            before = self._objects.head(INDEX)
            found, now = self._rows(), self._objects.head(INDEX)
            if (before and before.tag) == (now and now.tag) or self._folded:
                break  # else somebody folded, and what was listed of the log may be gone
        return found

    def _rows(self) -> list[IndexRow]:
        self._folded = False
        base = self._objects.read(INDEX, LONGEST_BASE)
        found = {row[0]: row for row in rows_in(base[0])} if base is not None else {}
        logs = [one.key for one in self._objects.list(LOG)]
        for key in logs:
            log = self._objects.read(key, LONGEST_LOG)
            for row in rows_in(log[0]) if log is not None else ():
                before = found.get(row.build_id)
                if before is None or before.revision < row.revision:
                    found[row.build_id] = row
        if len(logs) >= FOLD_FROM and not self._objects.read_only:
            self._fold(found, base[1] if base is not None else None, logs)
        for build_id in self._unfinished():
            row_now = self._row_of(build_id)
            if row_now is None:
                found.pop(build_id, None)
            else:
                found[build_id] = row_now
        return [row for one in sorted(found) if not (row := found[one]).is_gone]

    def _fold(self, rows: dict[str, IndexRow], seen: Stat | None, logs: list[str]) -> None:
        """Write a new base, unless somebody else did meanwhile; then the log it was made of may go."""
        content = packed(row for row in rows.values() if not row.is_gone)
        if (
            self._objects.replace(INDEX, content, seen.tag)
            if seen is not None
            else self._objects.create(INDEX, content)
        ):
            self._folded = True
            for key in logs:
                self._objects.delete(key)

    def _unfinished(self) -> list[str]:
        """The build-ids that are being changed, or were when their writer was killed."""
        names = (one.key.removeprefix(LOCKS) for one in self._objects.list(LOCKS))
        return [name for name in names if is_id(name)]

    def _row_of(self, build_id: str) -> IndexRow | None:
        found = self._objects.read(meta_key(build_id), meta.LONGEST)
        known = meta.read(found[0], build_id) if found is not None else None
        return IndexRow.of(known) if known is not None and known.files else None

    def rebuild(self) -> int:
        """Make the base again from every meta.json; returns how many rows it has."""
        logs = [one.key for one in self._objects.list(LOG)]
        rows = [row for name in self._objects.folders(FILES) if is_id(name) and (row := self._row_of(name)) is not None]
        self._objects.put(INDEX, packed(sorted(rows, key=lambda row: row.build_id)))
        for key in logs:
            self._objects.delete(key)
        return len(rows)
