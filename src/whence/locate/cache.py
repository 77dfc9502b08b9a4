"""A folder of files by build-id, shared by every process of a user: archives once made, files once fetched.

    ROOT/whence-cache           the marker: this folder is whence's
    ROOT/ab/abcdef….lidia       an entry: KEY is "BUILD-ID.KIND"; of a store in a bucket "BUILD-ID-PLACE.KIND"
    ROOT/ab/.lock               held by who makes an entry of this shard, so that two processes don't make it twice
    ROOT/ab/KEY.SERVER.part     a download that was cut; .origin says of what, .absent that a server does not have it
    ROOT/servers/SERVER.dead    when a server failed

The folder is used when it belongs to the user, nobody else may look into it (mode 0700) and it holds the marker, which
whence puts into a folder that it makes or finds empty. A folder without it is somebody's: nothing in it is read, made
or removed. In its own folder whence touches only files of the names above, and follows no link.

An entry is believed when it is whole, of the kind and of the build-id that its name says; otherwise it is removed, and
made or fetched again. The time of access says when an entry was used last; when all of them together pass the limit,
those that were used longest ago go. Whoever has one open keeps it: a removed file lives until it is closed.
"""

from __future__ import annotations

import os
import re
import stat
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from errno import EPERM
from pathlib import Path
from typing import BinaryIO

from whence._base.errors import Mismatch, WhenceError
from whence._base.files import (
    O_ALWAYS,
    O_NOFOLLOW,
    O_NONBLOCK,
    OWNED,
    TEMPORARY,
    atomic_write,
    is_mine,
    lock,
    open_looked_at,
)
from whence.lidia.table import open as open_archive
from whence.objects.elf import ElfFile

LIMIT_BYTES = 4 << 30
STALE_SECONDS = 24 * 3600  # after so long what was being made is given up
MARKER = "whence-cache"
MARKER_TEXT = b"whence keeps files in this folder, and removes them.\n"
SERVERS = "servers"
ARCHIVE, SEGMENTS = "lidia", "segments"
KINDS = (ARCHIVE, SEGMENTS, "debuginfo", "executable")
PART, ORIGIN, ABSENT, DEAD = ".part", ".origin", ".absent", ".dead"
PLACE = "-"  # stands between a build-id and the place that its file was fetched from, where several may have one
KEY = re.compile(rf"[0-9a-zA-Z_-]{{2,200}}\.({'|'.join(KINDS)})")
SHARD = re.compile(r"[0-9a-zA-Z_-]{2}")
ENDINGS = "|".join(map(re.escape, (PART, ORIGIN, ABSENT)))
UNFINISHED = re.compile(rf"{KEY.pattern}\.[0-9a-f]{{12}}({ENDINGS})|{re.escape(TEMPORARY)}[0-9a-f]+")


class NotOursError(OSError):
    """The folder, or a part of it, is not one that whence made for this user."""

    def __init__(self, why: str) -> None:
        super().__init__(EPERM, why)


class CutError(WhenceError):
    """A file ends before what it says it holds."""


class Cache:
    """The folder. Nothing is made on disk before the first entry.

    `notify` is called once, with a line, when the folder is not used and why. Safe from several threads and processes.
    """

    def __init__(
        self,
        root: str | os.PathLike[str],
        limit_bytes: int = LIMIT_BYTES,
        notify: Callable[[str], None] = lambda line: None,
    ) -> None:
        self.root = Path(root)
        self.limit_bytes = limit_bytes
        self._notify = notify
        self._said = False

    def __repr__(self) -> str:
        return f"<whence.locate.Cache {self.root}, at most {self.limit_bytes:,} bytes>"

    def path(self, key: str) -> Path:
        """Where the entry of a key lies or would lie. A key is "BUILD-ID.KIND" and never leaves the folder."""
        if not KEY.fullmatch(key):
            raise ValueError(f"a key of the cache is BUILD-ID.{'|'.join(KINDS)}, not {key!r}")
        return self.root / key[:2] / key

    def get(self, key: str) -> Path | None:
        """The entry, looked through and marked as used now; None when there is none. One that is broken is removed."""
        if not KEY.fullmatch(key):  # a build-id that no linker makes
            return None
        path = self.path(key)
        try:
            self.folder(key[:2], make=False)
            if not is_own(path.lstat()):
                raise Mismatch("it is a link, or another user's")
            check(path, *key.rsplit(".", 1))
        except OSError:
            return None
        except WhenceError:
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(OSError):  # a read-only cache is still a cache
            mark_used(path)
        return path

    def put(self, key: str, make: Callable[[BinaryIO], object]) -> Path:
        """The entry; written by `make(file)` if it is not there. What that raises is passed on and leaves no entry."""
        found = self.get(key)
        if found is not None:
            return found
        path = self.path(key)
        with self.locked(key):
            found = self.get(key)  # someone else may have made it meanwhile
            if found is not None:
                return found
            with atomic_write(path) as file:
                make(file)
        self.trim(keep=path)
        return path

    @contextmanager
    def locked(self, key: str) -> Iterator[Path]:
        """Hold the shard of a key against other processes and threads; yields the folder. Raises OSError."""
        folder = self.folder(self.path(key).parent.name)
        descriptor = open_own(folder / ".lock")
        try:
            lock(descriptor)
            yield folder
        finally:
            os.close(descriptor)

    def folder(self, name: str, *, make: bool = True) -> Path:
        """A folder of the cache. Raises OSError: NotOursError when whence did not make it, which is said once."""
        path = self.root / name
        try:
            self._check_root(make)
            if make:
                with suppress(FileExistsError):
                    path.mkdir(0o700)
            status = path.lstat()
            if not stat.S_ISDIR(status.st_mode):
                raise NotOursError(f"{name} in it is no folder")
            must_be_private(status)
        except NotOursError as error:
            if not self._said:
                self._said = True
                self._notify(f"the cache {self.root} is not used: {error.strerror}")
            raise
        return path

    def _check_root(self, make: bool) -> None:
        """Make the folder, or see whether it is one that whence made. Raises OSError."""
        if make and not self.root.exists():
            self.root.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                self.root.mkdir(0o700)
        status = self.root.stat()
        if not stat.S_ISDIR(status.st_mode):
            raise NotOursError("it is no folder")
        marker = self.root / MARKER
        if not os.path.lexists(marker):
            names = os.listdir(self.root)
            if MARKER not in names and not all(name.startswith(TEMPORARY) for name in names):
                raise NotOursError(f"it holds files, and no {MARKER} to say that they are whence's")
            if not make:
                raise FileNotFoundError(2, "the cache is empty")
            if is_mine(status) and not status.st_mode & 0o022:
                self.root.chmod(0o700)  # empty, and of this user
            must_be_private(self.root.stat())
            with atomic_write(marker) as file:
                file.write(MARKER_TEXT)
            return
        must_be_private(status)
        if not is_own(marker.lstat()) or marker.read_bytes() != MARKER_TEXT:
            raise NotOursError(f"its {MARKER} is not whence's")

    def entries(self) -> list[tuple[float, int, Path]]:
        """(when last used, size, path) of every entry, unfinished or not, least recently used first."""
        found = []
        try:
            self._check_root(make=False)
            shards = [name for name in os.listdir(self.root) if SHARD.fullmatch(name)]
        except OSError:
            return []
        for shard in shards:
            try:
                folder = self.folder(shard, make=False)
                names = os.listdir(folder)
            except OSError:
                continue
            for name in names:
                if not ((KEY.fullmatch(name) and name[:2] == shard) or UNFINISHED.fullmatch(name)):
                    continue
                with suppress(OSError):
                    status = os.lstat(folder / name)
                    if is_own(status):
                        used = max(status.st_atime, status.st_mtime)
                        found.append((used, status.st_size, folder / name))
        return sorted(found)

    def trim(self, keep: Path | None = None) -> int:
        """Remove the least recently used entries until the rest fits the limit; returns how many bytes are left.

        What is being made is left alone for a day. `keep` stays even when it is larger than the limit.
        """
        entries = self.entries()
        total = sum(size for _, size, _ in entries)
        now = time.time()
        for used, size, path in entries:
            unfinished = UNFINISHED.fullmatch(path.name) is not None
            if path == keep or (unfinished and abs(now - used) < STALE_SECONDS):
                continue
            if unfinished or total > self.limit_bytes:
                try:
                    path.unlink()
                except OSError:
                    continue
                total -= size
        return total


def is_own(status: os.stat_result) -> bool:
    """Whether a status is that of a regular file of this user which has no other name."""
    return stat.S_ISREG(status.st_mode) and is_mine(status) and status.st_nlink == 1


def mark_used(path: Path) -> None:
    """Set the time of access, and no other: to who reads an entry, a new time of change means another content."""
    descriptor = open_looked_at(path, follow=False)
    try:
        at = descriptor if os.utime in os.supports_fd else path
        os.utime(at, ns=(time.time_ns(), os.fstat(descriptor).st_mtime_ns))
    finally:
        os.close(descriptor)


def must_be_private(status: os.stat_result) -> None:
    """Raise NotOursError when a folder is another user's, or open to others."""
    if not is_mine(status):
        raise NotOursError("it belongs to another user")
    if OWNED and status.st_mode & 0o077:
        raise NotOursError(f"others may use it too: its mode is {stat.S_IMODE(status.st_mode):o}, not 700")


def open_own(path: str | os.PathLike[str]) -> int:
    """A descriptor to read and write a file of this user, made if it is not there; all else of the name is removed."""
    with suppress(FileNotFoundError):
        if not is_own(os.lstat(path)):
            os.unlink(path)
    return os.open(path, os.O_RDWR | os.O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_ALWAYS, 0o600)


def check(path: Path, build_id: str, kind: str) -> None:
    """Read through a file: raise OSError or WhenceError unless it is the whole file of that kind and build-id."""
    if kind == ARCHIVE:
        with open_archive(path, crc=True) as table:
            found = table.about.build_id
    else:
        with ElfFile.open(path) as elf:
            if kind != SEGMENTS:
                check_elf(elf, build_id)
                return
            check_whole(elf)  # the build-id stands behind the table
            found = bytes(elf.data[-len(build_id) :]).decode("ascii", "replace") if elf.segments else ""
    check_id(found, build_id)


def check_elf(elf: ElfFile, build_id: str) -> None:
    """Raise WhenceError unless a file is whole and has this build-id."""
    check_whole(elf)
    check_id(elf.build_id, build_id)


def check_whole(elf: ElfFile) -> None:
    end = max((one.file_offset + one.size for one in elf.sections if one.in_file), default=0)
    if elf.problems or end > elf.size:
        raise CutError("it is not the whole file")


def check_id(found: str, build_id: str) -> None:
    if found != build_id.partition(PLACE)[0]:
        raise Mismatch(f"it has build-id {found or 'none'}")
