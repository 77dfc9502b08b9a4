"""The index of a store: a row for each build-id, as `whence store ls` prints them.

    index/base.json        {"version": 1, "rows": [ROW...]}
    index/log/NAME.json    rows that changed after the base was written; the row with the highest revision counts

A writer of a build-id writes its row after meta.json, while it holds the lease. The lease of a killed writer remains,
and for build-ids with a lease meta.json is read. So the index is complete. It can be made again from the store
(`rebuild`). The log is merged into the base when it has many objects.
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
FOLD_FROM = 64  # objects of the log, which are then merged into the base


class IndexRow(NamedTuple):
    """The row of a build-id: sizes in bytes (0: missing), the quality in words, when its newest file was added.

    Times are seconds since 1970. A build-id whose sizes are all 0 was removed.
    """

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
    def of(cls, described: Meta) -> IndexRow:
        """Return the row of a build-id."""
        debuginfo, executable, archive = (
            described.files[kind].size if kind in described.files else 0 for kind in (DEBUGINFO, EXECUTABLE, ARCHIVE)
        )
        return cls(
            described.build_id, described.revision, debuginfo, executable, archive, described.size,
            str(described.quality), described.added, described.name,
        )  # fmt: skip

    @classmethod
    def removed(cls, build_id: str, revision: int) -> IndexRow:
        """Return the row of a removed build-id."""
        return cls(build_id, revision, 0, 0, 0, 0, "", 0, "")

    @property
    def is_removed(self) -> bool:
        """True if the build-id was removed."""
        return not (self.debuginfo or self.executable or self.archive)

    def as_json(self) -> dict[str, object]:
        return self._asdict()


FIELD_TYPES = (str, int, int, int, int, int, str, int, str)


def rows_in(content: bytes) -> list[IndexRow]:
    """Return the rows in an object of the index, without malformed rows."""
    try:
        document = json.loads(content)
        rows = document["rows"] if document["version"] == VERSION else []
        if not _are_rows(rows):
            rows = [row for row in rows if tuple(map(type, row)) == FIELD_TYPES and ID.fullmatch(row[0])]
        return list(map(tuple.__new__, repeat(IndexRow), rows))
    except (ValueError, RecursionError, KeyError, TypeError):
        return []


def _are_rows(rows: list[tuple[object, ...]]) -> bool:
    """Return True if all rows are valid: faster than a check of each row."""
    try:
        types = {
            (type(a), type(b), type(c), type(d), type(e), type(f), type(g), type(h), type(i))
            for a, b, c, d, e, f, g, h, i in rows
        }
    except (ValueError, TypeError):  # a row has another number of fields
        return False
    return types == {FIELD_TYPES} and are_ids([str(row[0]) for row in rows])


def packed(rows: Iterable[IndexRow]) -> bytes:
    """Return the content of an object of the index."""
    return json.dumps({"version": VERSION, "rows": list(rows)}, separators=(",", ":")).encode()


class Index:
    """The index of a store."""

    def __init__(self, objects: Objects) -> None:
        self._objects = objects
        self._folded = False  # by the last `_rows`

    def write(self, rows: Iterable[IndexRow]) -> None:
        """Write changed rows to the log. Raises OSError."""
        content = packed(rows)
        while not self._objects.create(f"{LOG}{os.urandom(12).hex()}.json", content):
            pass

    def rows(self) -> list[IndexRow]:
        """Return all rows in order of build-id. Merges a long log into the base. Raises OSError."""
        for _ in range(TRIES):
            before = self._objects.head(INDEX)
            rows, after = self._rows(), self._objects.head(INDEX)
            if (before and before.tag) == (after and after.tag) or self._folded:
                break  # else another process merged the log, whose objects may be missing from `rows`
        return rows

    def _rows(self) -> list[IndexRow]:
        self._folded = False
        base = self._objects.read(INDEX, LONGEST_BASE)
        rows = {row[0]: row for row in rows_in(base[0])} if base is not None else {}
        logs = [status.key for status in self._objects.list(LOG)]
        for key in logs:
            log = self._objects.read(key, LONGEST_LOG)
            for row in rows_in(log[0]) if log is not None else ():
                before = rows.get(row.build_id)
                if before is None or before.revision < row.revision:
                    rows[row.build_id] = row
        if len(logs) >= FOLD_FROM and not self._objects.read_only:
            self._fold(rows, base[1] if base is not None else None, logs)
        for build_id in self._unfinished():
            current = self._row_of(build_id)
            if current is None:
                rows.pop(build_id, None)
            else:
                rows[build_id] = current
        return [row for build_id in sorted(rows) if not (row := rows[build_id]).is_removed]

    def _fold(self, rows: dict[str, IndexRow], seen: Stat | None, logs: list[str]) -> None:
        """Write a new base and delete the log, unless another process wrote a base meanwhile."""
        content = packed(row for row in rows.values() if not row.is_removed)
        if (
            self._objects.replace(INDEX, content, seen.tag)
            if seen is not None
            else self._objects.create(INDEX, content)
        ):
            self._folded = True
            for key in logs:
                self._objects.delete(key)

    def _unfinished(self) -> list[str]:
        """Return the build-ids that have a lease."""
        names = (status.key.removeprefix(LOCKS) for status in self._objects.list(LOCKS))
        return [name for name in names if is_id(name)]

    def _row_of(self, build_id: str) -> IndexRow | None:
        content = self._objects.read(meta_key(build_id), meta.LONGEST)
        described = meta.read(content[0], build_id) if content is not None else None
        return IndexRow.of(described) if described is not None and described.files else None

    def rebuild(self) -> int:
        """Make the base again from every meta.json; return the number of rows. Raises OSError."""
        logs = [status.key for status in self._objects.list(LOG)]
        rows = [row for name in self._objects.folders(FILES) if is_id(name) and (row := self._row_of(name)) is not None]
        self._objects.put(INDEX, packed(sorted(rows, key=lambda row: row.build_id)))
        for key in logs:
            self._objects.delete(key)
        return len(rows)
