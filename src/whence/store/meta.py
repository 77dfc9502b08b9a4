"""meta.json: the description of the files of a build-id, written after them.

A malformed description counts as missing: the files are then scanned again.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable

from whence._base.records import Record, field
from whence.store.names import ARCHIVE, ELF_KINDS, KINDS, SYMBOLS
from whence.store.quality import Quality

VERSION = 1
LONGEST = 1 << 20  # bytes of a meta.json
LONGEST_TEXT = 1 << 12
PLAIN, ZSTD, GZIP = "", "zstd", "gzip"


class HeldFile(Record, frozen=True):
    """One file: its size in bytes, SHA-256, quality, when it was added (seconds since 1970), and its origin.

    `packing` is "zstd" or "gzip" if the file is stored compressed, in `stored` bytes.
    """

    size: int
    sha256: str
    quality: Quality = Quality()
    added: int = 0
    origin: str = ""
    packing: str = PLAIN
    stored: int = 0

    def packed(self, stored: int, packing: str = ZSTD) -> HeldFile:
        """Return a description of the file stored compressed, in `stored` bytes."""
        return HeldFile(self.size, self.sha256, self.quality, self.added, self.origin, packing, stored)

    @property
    def rank(self) -> tuple[int, ...]:
        """The sort key: the better file has the larger rank."""
        return *self.quality.rank, self.size


class Meta(Record):
    """The description of a build-id.

    `files` are the files by kind. `revision` grows with each change. `made_of` are the hashes of the files that the
    archive was made of. `alt` is the build-id of dwz's shared file; `alt_there` is True if the archive includes it.
    `copies` are the keys of copies in the layouts of other programs. `note` is a problem of the archive, or the reason
    why it is missing. `also` are the kinds of symbol files that are made with each archive.
    `code_id` is that of a PE file, under which symbol servers have it; "" for others.
    """

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
    also: tuple[str, ...] = ()
    code_id: str = ""

    def __repr__(self) -> str:
        return (
            f"<store.Meta {self.build_id}: {', '.join(self.files) or 'no files'}{f' of {self.name}' * bool(self.name)}>"
        )

    @property
    def archive(self) -> HeldFile | None:
        """The archive; None if it is missing."""
        return self.files.get(ARCHIVE)

    @property
    def size(self) -> int:
        """The size of all files as they are stored, in bytes."""
        return sum(entry.stored or entry.size for entry in self.files.values())

    @property
    def quality(self) -> Quality:
        """The quality of the best object file."""
        qualities = [entry.quality for kind, entry in self.files.items() if kind in ELF_KINDS]
        return max(qualities, key=lambda quality: quality.rank, default=Quality())

    @property
    def added(self) -> int:
        """When the newest file was added, in seconds since 1970."""
        return max((entry.added for entry in self.files.values()), default=0)

    def next_revision(self) -> int:
        """Return the revision of the next change."""
        return max(time.time_ns(), self.revision + 1)

    def as_json(self) -> dict[str, object]:
        """Return the content of meta.json."""
        return {
            "version": VERSION,
            "build_id": self.build_id,
            "revision": self.revision,
            "name": self.name,
            "machine": self.machine,
            "debug_id": self.debug_id,
            "by_hash": self.by_hash,
            "files": {kind: _file_as_json(kind, entry) for kind, entry in self.files.items()},
            "made_of": list(self.made_of),
            "alt": self.alt,
            "alt_there": self.alt_there,
            "copies": list(self.copies),
            "note": self.note,
            "also": list(self.also),
            "code_id": self.code_id,
        }

    def to_bytes(self) -> bytes:
        """Return the bytes of meta.json."""
        return json.dumps(self.as_json()).encode()


def _file_as_json(kind: str, entry: HeldFile) -> dict[str, object]:
    members: dict[str, object] = {"size": entry.size, "sha256": entry.sha256, "added": entry.added}
    if kind in ELF_KINDS:
        members |= {"origin": entry.origin, "quality": entry.quality.as_json()}
    if entry.packing:
        members |= {"packing": entry.packing, "stored": entry.stored}
    return members


class MalformedMeta(Exception):
    """A member of meta.json has another type than writers write."""


def read(content: bytes, build_id: str) -> Meta | None:
    """Parse meta.json; return None if it is malformed or describes another build-id."""
    try:
        document = json.loads(content)
        if not isinstance(document, dict):
            return None
        if document.get("version") != VERSION or document.get("build_id") != build_id:
            return None
        files = {kind: _file(members) for kind, members in _mapping(document, "files").items() if kind in KINDS}
        return Meta(
            build_id,
            files,
            _number(document, "revision"),
            _text(document, "name"),
            _text(document, "machine"),
            _text(document, "debug_id"),
            document.get("by_hash") is True,
            _texts(document, "made_of"),
            _text(document, "alt"),
            document.get("alt_there") is True,
            _texts(document, "copies"),
            _text(document, "note"),
            tuple(kind for kind in SYMBOLS if str(kind) in _texts(document, "also")),
            _text(document, "code_id"),
        )
    except (ValueError, RecursionError, MalformedMeta):
        return None


def _file(members: object) -> HeldFile:
    if not isinstance(members, dict):
        raise MalformedMeta
    quality = _mapping(members, "quality")
    flags = {name: quality.get(name) is True for name in ("lines", "pclntab", "symtab", "dynsym", "functions")}
    packing = _text(members, "packing")
    if packing not in (PLAIN, ZSTD, GZIP):
        raise MalformedMeta
    return HeldFile(
        _number(members, "size"),
        _text(members, "sha256"),
        Quality(units=_number(quality, "units"), **flags),
        _number(members, "added"),
        _text(members, "origin"),
        packing,
        _number(members, "stored"),
    )


def _mapping(members: dict[str, object], name: str) -> dict[str, object]:
    value = members.get(name, {})
    if not isinstance(value, dict):
        raise MalformedMeta
    return value


def _number(members: dict[str, object], name: str) -> int:
    value = members.get(name, 0)
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 1 << 64:
        raise MalformedMeta
    return value


def _text(members: dict[str, object], name: str) -> str:
    value = members.get(name, "")
    if not isinstance(value, str):
        raise MalformedMeta
    return value[:LONGEST_TEXT]


def _texts(members: dict[str, object], name: str) -> tuple[str, ...]:
    value = members.get(name, [])
    if not isinstance(value, Iterable) or isinstance(value, (str, dict)):
        raise MalformedMeta
    if not all(isinstance(text, str) for text in value):
        raise MalformedMeta
    return tuple(value)
