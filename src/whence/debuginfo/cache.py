"""A folder of files by build-id, shared by every process of a user: archives once made, files once fetched.

    ROOT/ab/abcdef….lidia       an entry: KEY is "BUILD-ID.WHAT"
    ROOT/ab/.lock               held by who makes an entry of this shard, so that two processes don't make it twice
    ROOT/ab/KEY.PID-N.new       an entry being made; renamed when it is whole, so that no one ever sees half of one

An entry that is used is marked with the time; when all of them together pass the limit, those that were used longest
ago go. Whoever has one open keeps it: a removed file lives until it is closed.
"""

from __future__ import annotations

import fcntl
import itertools
import os
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

LIMIT_BYTES = 4 << 30
STALE_SECONDS = 24 * 3600  # after so long what was being made is given up
KEY = re.compile(r"[0-9a-zA-Z_-]{2,128}(\.[0-9a-z_-]{1,32})+")
NEW = ".new"
PART = ".part"
ABSENT = ".absent"

_serial = itertools.count()


class Cache:
    """The folder. Nothing is made on disk before the first entry."""

    def __init__(self, root: str | os.PathLike[str], limit_bytes: int = LIMIT_BYTES) -> None:
        self.root = Path(root)
        self.limit_bytes = limit_bytes

    def path(self, key: str) -> Path:
        """Where the entry of a key lies or would lie. A key is "BUILD-ID.WHAT" and never leaves the folder."""
        if not KEY.fullmatch(key):
            raise ValueError(f"a key of the cache is BUILD-ID.WHAT, not {key!r}")
        return self.root / key[:2] / key

    def get(self, key: str) -> Path | None:
        """The entry, marked as used now; None when there is none."""
        path = self.path(key)
        try:
            os.utime(path)
        except FileNotFoundError:
            return None
        except OSError:  # a read-only cache is still a cache
            return path if path.exists() else None
        return path

    def put(self, key: str, make: Callable[[Path], object]) -> Path:
        """The entry; made by `make(path)` if it is not there. What `make` raises is passed on and leaves no entry."""
        found = self.get(key)
        if found is not None:
            return found
        path = self.path(key)
        with self.locked(key):
            found = self.get(key)  # someone else may have made it meanwhile
            if found is not None:
                return found
            new = path.with_name(f"{key}.{os.getpid()}-{next(_serial)}{NEW}")
            try:
                make(new)
                os.replace(new, path)
            except BaseException:
                new.unlink(missing_ok=True)
                raise
        self.trim(keep=path)
        return path

    @contextmanager
    def locked(self, key: str) -> Iterator[Path]:
        """Hold the shard of a key against other processes and threads; gives the folder."""
        folder = self.path(key).parent
        folder.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(folder / ".lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            yield folder
        finally:
            os.close(descriptor)

    def entries(self) -> list[tuple[float, int, Path]]:
        """(when last used, size, path) of every file, least recently used first."""
        found = []
        for path in self.root.glob("??/[!.]*"):
            try:
                status = path.stat()
            except OSError:
                continue
            found.append((status.st_mtime, status.st_size, path))
        return sorted(found)

    def trim(self, keep: Path | None = None) -> int:
        """Remove the least recently used entries until the rest fits the limit; gives how many bytes are left.

        What is being made is left alone for a day. `keep` stays even when it is larger than the limit.
        """
        entries = self.entries()
        total = sum(size for _, size, _ in entries)
        now = time.time()
        for used, size, path in entries:
            unfinished = path.name.endswith((NEW, PART, ABSENT))
            if path == keep or (unfinished and abs(now - used) < STALE_SECONDS):
                continue
            if unfinished or total > self.limit_bytes:
                try:
                    path.unlink()
                except OSError:
                    continue
                total -= size
        return total
