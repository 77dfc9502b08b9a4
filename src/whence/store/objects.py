"""What a store is kept in: objects with a name, bytes and a tag that changes when they do.

`Objects` is what a place does: a folder (folder.py), a bucket (bucket.py). Every write is whole or not at all. `create`
writes only what is not there, `replace` only what still has the tag that was seen: both say whether they did, also when
the answer to a write that happened was lost on the way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence._base.files import failure
from whence._base.records import Record

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path
    from typing import BinaryIO, Protocol

    class Objects(Protocol):
        """A place for objects. Every call raises OSError when the place can't be reached or refuses.

        Nothing that is missing is an error but where it says so. Safe from several threads.
        """

        url: str
        read_only: bool

        def head(self, key: str) -> Stat | None:
            """What is known of an object; None when it is not there."""
            ...

        def read(self, key: str, limit: int) -> tuple[bytes, Stat] | None:
            """A small object, whole. Raises OSError when it has more than `limit` bytes."""
            ...

        def read_range(self, key: str, start: int, end: int, tag: str = "") -> bytes:
            """Bytes [start, end). FileNotFoundError; OSError when its tag is not `tag`, or bytes are missing."""
            ...

        def fetch(self, key: str, file: BinaryIO) -> Stat | None:
            """Write an object into a file; None when it is not there. What was written counts when this returns."""
            ...

        def put(self, key: str, content: bytes | Path, *, move: bool = False) -> None:
            """Write an object, in place of the old one. With `move` the file at the path may be taken away."""
            ...

        def create(self, key: str, content: bytes) -> str:
            """Write a small object unless it is there; returns its tag, "" when it is there with other bytes."""
            ...

        def replace(self, key: str, content: bytes, tag: str) -> str:
            """Write a small object in place of the one with this tag; returns the new tag, "" when it has changed."""
            ...

        def copy(self, source: str, target: str) -> None:
            """Let an object have a second name. FileNotFoundError."""
            ...

        def delete(self, key: str) -> bool:
            """Remove an object; returns whether it was there."""
            ...

        def list(self, prefix: str) -> Iterator[Stat]:
            """The objects whose keys begin with a prefix that ends in "/" (or is ""), in no order."""
            ...

        def folders(self, prefix: str) -> Iterator[str]:
            """The next part of such keys, where something follows it, each once, in no order."""
            ...

        def path(self, key: str) -> Path | None:
            """The file of an object that is there, where the place has files; else None."""
            ...

        def spool(self) -> str | None:
            """A folder for files that will be put; None: the system's own for temporary files will do."""
            ...

        def close(self) -> None:
            """Close connections."""
            ...


class Stat(Record, frozen=True):
    """What a place says of an object: bytes, time of change (seconds since 1970), and what changes when it does."""

    key: str
    size: int
    modified: float
    tag: str


def too_large(key: str, size: int, limit: int) -> OSError:
    return failure("EFBIG", f"{key} has {size} bytes, more than the {limit} that it may have")
