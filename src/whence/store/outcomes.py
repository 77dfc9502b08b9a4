"""What becomes of a file that is put into a store, and why."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from whence._base.records import Record

if TYPE_CHECKING:
    from whence.locate.search import FileKind
    from whence.store.meta import HeldFile

ADDED, BETTER, SAME, POORER, REFUSED, BUSY = "added", "better", "same", "poorer", "refused", "busy"
OUTCOMES = (ADDED, BETTER, SAME, POORER, REFUSED, BUSY)
"""What becomes of a file: it is the first of its kind, takes the place of a poorer one, is there already, is poorer
than what is there, is nothing that a store keeps, or another writer was at work on its build-id for too long."""
KEPT = (ADDED, BETTER)


class Added(Record, frozen=True):
    """What became of one file, as `outcome` says it in a word and `why` in words; `kind` is "" where it has none."""

    origin: str
    outcome: str
    why: str
    build_id: str = ""
    kind: str = ""
    size: int = 0

    def as_json(self) -> dict[str, object]:
        return {
            "file": self.origin, "outcome": self.outcome, "why": self.why, "build_id": self.build_id,
            "kind": self.kind, "size": self.size,
        }  # fmt: skip


Outcomes = list[Added]
Paths = list[Path]
Decisions = list[tuple["FileKind", tuple[str, str]]]


class MadeArchive(Record, frozen=True):
    """How many ranges the archive has, whether dwz's shared file was there, and what of the files was skipped."""

    ranges: int
    alt_there: bool
    note: str = ""


class Received(Record, frozen=True):
    """A file that was received and not yet believed. `movable`: it is ours, and may be taken into the store."""

    path: Path
    size: int
    sha256: str
    origin: str
    movable: bool


def decide(held: HeldFile | None, new: HeldFile) -> tuple[str, str]:
    """What becomes of a file where another of its kind is there, and why.

    >>> from whence.store.quality import Quality
    >>> from whence.store.meta import HeldFile
    >>> poor = HeldFile(900, "a", Quality(symtab=True))
    >>> good = HeldFile(500, "b", Quality(units=2, lines=True))
    >>> decide(None, poor), decide(good, poor)[0], decide(poor, good)[0], decide(poor, poor)[0]
    (('added', 'the first: .symtab'), 'poorer', 'better', 'same')
    """
    if held is None:
        return ADDED, f"the first: {new.quality}"
    if held.sha256 == new.sha256:
        return SAME, "the same bytes are there"
    if new.rank == held.rank:
        return POORER, f"kept the other one, which is as good: {held.quality}, {held.size:,} bytes"
    one, other = (new, held) if new.rank > held.rank else (held, new)
    why = f"{one.quality}, {one.size:,} bytes, before {other.quality}, {other.size:,} bytes"
    return (BETTER, why) if one is new else (POORER, f"kept {why}")
