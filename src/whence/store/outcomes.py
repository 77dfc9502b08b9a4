"""The outcomes of files that are put into a store, with reasons."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from whence._base.records import Record

if TYPE_CHECKING:
    from whence.locate.search import FileKind
    from whence.store.meta import HeldFile

ADDED, BETTER, SAME, POORER, REFUSED, BUSY = "added", "better", "same", "poorer", "refused", "busy"
OUTCOMES = (ADDED, BETTER, SAME, POORER, REFUSED, BUSY)
"""The outcome of a file, best first.

It is the first of its kind, replaces a poorer file, exists already, is poorer than the existing file, is not accepted,
or another writer was changing its build-id for too long.
"""
KEPT = (ADDED, BETTER)


class Added(Record, frozen=True):
    """The outcome of one file.

    `origin` is the file, `outcome` one of OUTCOMES, `why` the reason in words. `kind` is "" if the file was refused.
    """

    origin: str
    outcome: str
    why: str
    build_id: str = ""
    kind: str = ""
    size: int = 0

    def as_json(self) -> dict[str, object]:
        """Return the outcome as JSON."""
        return {
            "file": self.origin, "outcome": self.outcome, "why": self.why, "build_id": self.build_id,
            "kind": self.kind, "size": self.size,
        }  # fmt: skip


Outcomes = list[Added]
Paths = list[Path]
Decisions = list[tuple["FileKind", tuple[str, str]]]


class MadeArchive(Record, frozen=True):
    """An archive that was written: its number of ranges, True if dwz's shared file was found, and skipped problems."""

    ranges: int
    alt_there: bool
    note: str = ""


class Received(Record, frozen=True):
    """A file that was received and not yet scanned. `movable`: it may be moved into the store.

    An `origin` that ends with ": " is completed with the name that the file has inside.
    """

    path: Path
    size: int
    sha256: str
    origin: str
    movable: bool

    def with_origin(self, origin: str) -> Received:
        """Return the same file from `origin`."""
        return Received(self.path, self.size, self.sha256, origin, self.movable)


def decide(entry: HeldFile | None, new: HeldFile) -> tuple[str, str]:
    """Return the outcome of a file, given the existing file of its kind, and the reason.

    >>> from whence.store.quality import Quality
    >>> from whence.store.meta import HeldFile
    >>> poor = HeldFile(900, "a", Quality(symtab=True))
    >>> good = HeldFile(500, "b", Quality(units=2, lines=True))
    >>> decide(None, poor), decide(good, poor)[0], decide(poor, good)[0], decide(poor, poor)[0]
    (('added', '.symtab'), 'poorer', 'better', 'same')
    """
    if entry is None:
        return ADDED, str(new.quality)
    if entry.sha256 == new.sha256:
        return SAME, "the store has the same bytes"
    if new.rank == entry.rank:
        return POORER, f"the store has an equivalent file: {entry.quality}, {entry.size:,} bytes"
    better, poorer = (new, entry) if new.rank > entry.rank else (entry, new)
    why = f"{better.quality}, {better.size:,} bytes, instead of {poorer.quality}, {poorer.size:,} bytes"
    return (BETTER, why) if better is new else (POORER, f"kept {why}")
