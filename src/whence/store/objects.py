"""The interface of folders (folder.py) and buckets (bucket.py): objects with a key, bytes and a tag.

The tag changes with the bytes. Every write happens entirely or not at all. `create` writes an object that does not
exist, `replace` an object that still has a tag; both report their success correctly even if a response was lost.
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
        """A folder or a bucket. Every method raises OSError if it can't be reached or refuses the request.

        A missing object is an error only where a method says so. Safe from several threads.
        """

        url: str
        read_only: bool

        def head(self, key: str) -> Stat | None:
            """Return the description of an object; None if it is missing."""
            ...

        def read(self, key: str, limit: int) -> tuple[bytes, Stat] | None:
            """Return a small object; None if it is missing. Raises OSError if it has more than `limit` bytes."""
            ...

        def read_range(self, key: str, start: int, end: int, tag: str = "") -> bytes:
            """Return bytes [start, end). Raises FileNotFoundError; OSError for another tag than `tag`."""
            ...

        def fetch(self, key: str, file: BinaryIO) -> Stat | None:
            """Write an object to `file`; None if it is missing. The written bytes are valid when this returns."""
            ...

        def put(self, key: str, content: bytes | Path, *, move: bool = False) -> None:
            """Write an object; replaces an existing one. With `move` a file may be moved instead of copied."""
            ...

        def create(self, key: str, content: bytes) -> str:
            """Write a small object unless it exists; return its tag, or "" if it exists with other bytes."""
            ...

        def replace(self, key: str, content: bytes, tag: str) -> str:
            """Replace a small object with this tag; return the new tag, or "" if the object has changed."""
            ...

        def copy(self, source: str, target: str) -> None:
            """Copy an object to a second key. Raises FileNotFoundError."""
            ...

        def delete(self, key: str) -> bool:
            """Remove an object; return True if it existed."""
            ...

        def list(self, prefix: str) -> Iterator[Stat]:
            """Yield the objects below a prefix, which ends in "/" or is "", in any order."""
            ...

        def folders(self, prefix: str) -> Iterator[str]:
            """Yield the names of the folders directly below a prefix, in any order."""
            ...

        def path(self, key: str) -> Path | None:
            """Return the file of an object; None if it is missing or not a local file."""
            ...

        def spool(self) -> str | None:
            """Return the folder for files that will be put; None for the system's temporary folder."""
            ...

        def close(self) -> None:
            """Close connections."""
            ...


class Stat(Record, frozen=True):
    """The description of an object: size in bytes, time of change (seconds since 1970), and tag."""

    key: str
    size: int
    modified: float
    tag: str


def too_large(key: str, size: int, limit: int) -> OSError:
    """Return the error for an object that is too large."""
    return failure("EFBIG", f"{key} has {size} bytes, at most {limit} are allowed")
