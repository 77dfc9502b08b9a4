"""meta.json: what the files of a build-id are. Written last, so that what it says has happened.

What can't be read, or says what no writer says, counts as not there: the files are then looked at anew.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

from whence._base.records import Record, field
from whence.store.names import ARCHIVE, KINDS
from whence.store.quality import Quality

VERSION = 1
LONGEST = 1 << 20  # bytes of a meta.json
LONGEST_TEXT = 1 << 12
PLAIN, ZSTD, GZIP = "", "zstd", "gzip"


class HeldFile(Record, frozen=True):
    """One file: its size in bytes, its SHA-256, its quality, when it came (seconds since 1970) and where from.

    `packing` is "zstd" or "gzip" where it is stored compressed, in `stored` bytes.
    """

    size: int
    sha256: str
    quality: Quality = Quality()
    added: int = 0
    origin: str = ""
    packing: str = PLAIN
    stored: int = 0

    def packed(self, stored: int, packing: str = ZSTD) -> HeldFile:
        """The same file, stored compressed in so many bytes."""
        return HeldFile(self.size, self.sha256, self.quality, self.added, self.origin, packing, stored)

    @property
    def rank(self) -> tuple[int, ...]:
        return *self.quality.rank, self.size


class Meta(Record):
    """Everything known of a build-id. `revision` grows with each change; `made_of` are the hashes of the files that
    the archive was made of; `alt` is the build-id of dwz's shared file that it needs, `alt_there` whether it was used;
    `copies` are the keys of further copies of its files, in layouts of others; `note` says why there is no archive."""

    build_id: str
    files: dict[str, HeldFile] = field(default_factory=dict)
    revision: int = 0
    name: str = ""
    machine: str = ""
    debug_id: str = ""
    by_hash: bool = False
    made_of: tuple[str, ...] = ()
    alt: str = ""
    alt_there: bool = False
    copies: tuple[str, ...] = ()
    note: str = ""

    @property
    def archive(self) -> HeldFile | None:
        return self.files.get(ARCHIVE)

    @property
    def size(self) -> int:
        """Bytes of all files as they are stored."""
        return sum(one.stored or one.size for one in self.files.values())

    @property
    def quality(self) -> Quality:
        """That of its best ELF file."""
        return max((one.quality for kind, one in self.files.items() if kind != ARCHIVE), key=lambda one: one.rank,
                   default=Quality())  # fmt: skip

    @property
    def added(self) -> int:
        """When the youngest of its files came."""
        return max((one.added for one in self.files.values()), default=0)

    def next_revision(self) -> int:
        return max(time.time_ns(), self.revision + 1)

    def as_json(self) -> dict[str, object]:
        return {
            "version": VERSION,
            "build_id": self.build_id,
            "revision": self.revision,
            "name": self.name,
            "machine": self.machine,
            "debug_id": self.debug_id,
            "by_hash": self.by_hash,
            "files": {kind: _held_json(kind, one) for kind, one in self.files.items()},
            "made_of": list(self.made_of),
            "alt": self.alt,
            "alt_there": self.alt_there,
            "copies": list(self.copies),
            "note": self.note,
        }

    def to_bytes(self) -> bytes:
        return json.dumps(self.as_json()).encode()


def _held_json(kind: str, one: HeldFile) -> dict[str, object]:
    known: dict[str, object] = {"size": one.size, "sha256": one.sha256, "added": one.added}
    if kind != ARCHIVE:
        known |= {"origin": one.origin, "quality": one.quality.as_json()}
    if one.packing:
        known |= {"packing": one.packing, "stored": one.stored}
    return known


class _Unreadable(Exception):
    pass


def read(content: bytes, build_id: str) -> Meta | None:
    """What `to_bytes` wrote; None for anything else, and for that of another build-id."""
    try:
        found = json.loads(content)
        if not isinstance(found, dict) or found.get("version") != VERSION or found.get("build_id") != build_id:
            return None
        files = {kind: _held(one) for kind, one in _mapping(found, "files").items() if kind in KINDS}
        return Meta(
            build_id,
            files,
            _number(found, "revision"),
            _text(found, "name"),
            _text(found, "machine"),
            _text(found, "debug_id"),
            found.get("by_hash") is True,
            _texts(found, "made_of"),
            _text(found, "alt"),
            found.get("alt_there") is True,
            _texts(found, "copies"),
            _text(found, "note"),
        )
    except (ValueError, RecursionError, _Unreadable):
        return None


def _held(known: object) -> HeldFile:
    if not isinstance(known, dict):
        raise _Unreadable
    found = known.get("quality", {})
    if not isinstance(found, dict):
        raise _Unreadable
    flags = {name: found.get(name) is True for name in ("lines", "pclntab", "symtab", "dynsym")}
    packing = _text(known, "packing")
    if packing not in (PLAIN, ZSTD, GZIP):
        raise _Unreadable
    return HeldFile(
        _number(known, "size"),
        _text(known, "sha256"),
        Quality(units=_number(found, "units"), **flags),
        _number(known, "added"),
        _text(known, "origin"),
        packing,
        _number(known, "stored"),
    )


def _mapping(known: dict[str, object], name: str) -> dict[str, object]:
    found = known.get(name, {})
    if not isinstance(found, dict):
        raise _Unreadable
    return found


def _number(known: dict[str, object], name: str) -> int:
    found = known.get(name, 0)
    if not isinstance(found, int) or isinstance(found, bool) or not 0 <= found < 1 << 64:
        raise _Unreadable
    return found


def _text(known: dict[str, object], name: str) -> str:
    found = known.get(name, "")
    if not isinstance(found, str):
        raise _Unreadable
    return found[:LONGEST_TEXT]


def _texts(known: dict[str, object], name: str) -> tuple[str, ...]:
    found = known.get(name, [])
    if not isinstance(found, Iterable) or isinstance(found, (str, dict)):
        raise _Unreadable
    if not all(isinstance(one, str) for one in found):
        raise _Unreadable
    return tuple(found)
