"""A folder of files by build-id, shared by every process of a user: archives once made, files once fetched.

    ROOT/whence-cache           the marker of a folder that whence may write to
    ROOT/ab/abcdef….lidia       an entry with the key "BUILD-ID.KIND", or "BUILD-ID-PLACE.KIND" from a bucket's store
    ROOT/ab/.lock               locked while an entry of this shard is created
    ROOT/ab/KEY.SERVER.part     an incomplete download; .origin identifies its file, .absent marks a missing one
    ROOT/servers/SERVER.dead    its time is that of a server's last failure

The folder is used only if it belongs to the user, has mode 0700 and contains the marker, which whence adds to folders
that it creates or finds empty. In any other folder nothing is read, created or removed. In its own folder whence
accesses only files of the names above, and follows no links.

An entry is valid if it is complete and has the kind and build-id in its name; an invalid one is removed and created
again. The access time is the time of last use; entries that were not used for longest are removed when the total size
exceeds the limit. Processes that have a removed entry open can still read it.
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
    open_examined,
)
from whence.lidia.table import open as open_archive
from whence.objects.interface import ObjectFile
from whence.objects.opening import open_object

LIMIT_BYTES = 4 << 30
STALE_SECONDS = 24 * 3600  # after which an unfinished file is removed
MARKER = "whence-cache"
MARKER_TEXT = b"whence keeps files in this folder, and removes them.\n"
SERVERS = "servers"
ARCHIVE, SEGMENTS = "lidia", "segments"
KINDS = (ARCHIVE, SEGMENTS, "debuginfo", "executable")
PART, ORIGIN, ABSENT, DEAD = ".part", ".origin", ".absent", ".dead"
PLACE = "-"  # separates a build-id from the place that its file is from, if several places may have one
KEY = re.compile(rf"[0-9a-zA-Z_-]{{2,200}}\.({'|'.join(KINDS)})")
SHARD = re.compile(r"[0-9a-zA-Z_-]{2}")
ENDINGS = "|".join(map(re.escape, (PART, ORIGIN, ABSENT)))
UNFINISHED = re.compile(rf"{KEY.pattern}\.[0-9a-f]{{12}}({ENDINGS})|{re.escape(TEMPORARY)}[0-9a-f]+")


class NotOursError(OSError):
    """The folder, or a part of it, was not created by whence for this user."""

    def __init__(self, why: str) -> None:
        super().__init__(EPERM, why)


class CutError(WhenceError):
    """A file ends before its sections do."""


class Cache:
    """The folder, created with the first entry. Safe for several threads and processes.

    If the folder cannot be used, `notify` is called once, with a line that says why.
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
        """Return the path of an entry, which may not exist. Raises ValueError for a key that is not "BUILD-ID.KIND"."""
        if not KEY.fullmatch(key):
            raise ValueError(f"invalid cache key {key!r}: expected BUILD-ID.{'|'.join(KINDS)}")
        return self.root / key[:2] / key

    def get(self, key: str) -> Path | None:
        """Return the path of an entry that was verified and marked as used, or None. Removes an invalid entry."""
        if not KEY.fullmatch(key):  # a build-id that no linker makes
            return None
        path = self.path(key)
        try:
            self.folder(key[:2], make=False)
            if not is_own(path.lstat()):
                raise Mismatch("the entry is a link, or a file of another user")
            check(path, *key.rsplit(".", 1))
        except OSError:
            return None
        except WhenceError:
            with suppress(OSError):
                path.unlink()
            return None
        with suppress(OSError):  # a read-only cache works without
            mark_used(path)
        return path

    def put(self, key: str, make: Callable[[BinaryIO], object]) -> Path:
        """Return the path of an entry, written by `make(file)` if it does not exist; its errors leave no entry."""
        cached = self.get(key)
        if cached is not None:
            return cached
        path = self.path(key)
        with self.locked(key):
            cached = self.get(key)  # another process may have created it meanwhile
            if cached is not None:
                return cached
            with atomic_write(path) as file:
                make(file)
        self.trim(keep=path)
        return path

    @contextmanager
    def locked(self, key: str) -> Iterator[Path]:
        """Lock the shard of a key in the block, and yield its folder. Raises OSError."""
        folder = self.folder(self.path(key).parent.name)
        descriptor = open_own(folder / ".lock")
        try:
            lock(descriptor)
            yield folder
        finally:
            os.close(descriptor)

    def folder(self, name: str, *, make: bool = True) -> Path:
        """Return a folder of the cache. Raises OSError, and NotOursError, reported once, if whence may not use it."""
        path = self.root / name
        try:
            self._check_root(make)
            if make:
                with suppress(FileExistsError):
                    path.mkdir(0o700)
            status = path.lstat()
            if not stat.S_ISDIR(status.st_mode):
                raise NotOursError(f"{name} in it is not a folder")
            must_be_private(status)
        except NotOursError as error:
            if not self._said:
                self._said = True
                self._notify(f"the cache {self.root} is not used: {error.strerror}")
            raise
        return path

    def _check_root(self, make: bool) -> None:
        """Create the folder, or check that whence created it. Raises OSError."""
        if make and not self.root.exists():
            self.root.parent.mkdir(parents=True, exist_ok=True)
            with suppress(FileExistsError):
                self.root.mkdir(0o700)
        status = self.root.stat()
        if not stat.S_ISDIR(status.st_mode):
            raise NotOursError("the path is not a folder")
        marker = self.root / MARKER
        if not os.path.lexists(marker):
            names = os.listdir(self.root)
            if MARKER not in names and not all(name.startswith(TEMPORARY) for name in names):
                raise NotOursError(f"the folder has files but no {MARKER}, so whence did not create it")
            if not make:
                raise FileNotFoundError(2, "the cache is empty")
            if is_mine(status) and not status.st_mode & 0o022:
                self.root.chmod(0o700)  # it is empty and belongs to this user
            must_be_private(self.root.stat())
            with atomic_write(marker) as file:
                file.write(MARKER_TEXT)
            return
        must_be_private(status)
        if not is_own(marker.lstat()) or marker.read_bytes() != MARKER_TEXT:
            raise NotOursError(f"its {MARKER} was not written by whence")

    def entries(self) -> list[tuple[float, int, Path]]:
        """Return (time of last use, size, path) of every entry, unfinished ones included, least recently used first."""
        entries = []
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
                        entries.append((used, status.st_size, folder / name))
        return sorted(entries)

    def trim(self, keep: Path | None = None) -> int:
        """Remove the least recently used entries until the others are within the limit; return their bytes.

        Unfinished files are removed after a day. `keep` is not removed, even if it is larger than the limit.
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
    """Return True for a regular file of this user that has no other hard link."""
    return stat.S_ISREG(status.st_mode) and is_mine(status) and status.st_nlink == 1


def mark_used(path: Path) -> None:
    """Set the access time only: a changed modification time would tell readers that the content changed."""
    descriptor = open_examined(path, follow=False)
    try:
        target = descriptor if os.utime in os.supports_fd else path
        os.utime(target, ns=(time.time_ns(), os.fstat(descriptor).st_mtime_ns))
    finally:
        os.close(descriptor)


def must_be_private(status: os.stat_result) -> None:
    """Raise NotOursError if a folder belongs to another user or others may access it."""
    if not is_mine(status):
        raise NotOursError("the folder belongs to another user")
    if OWNED and status.st_mode & 0o077:
        raise NotOursError(
            f"its mode is {stat.S_IMODE(status.st_mode):o}, expected 700 so that no other user has access"
        )


def open_own(path: str | os.PathLike[str]) -> int:
    """Open or create a file of this user for reading and writing. Removes anything else of that name."""
    with suppress(FileNotFoundError):
        if not is_own(os.lstat(path)):
            os.unlink(path)
    return os.open(path, os.O_RDWR | os.O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_ALWAYS, 0o600)


def check(path: Path, build_id: str, kind: str) -> None:
    """Read a file; raise OSError or WhenceError unless it is complete and has this kind and build-id."""
    if kind == ARCHIVE:
        with open_archive(path, crc=True) as table:
            stored = table.about.build_id
    else:
        with open_object(path) as elf:
            if kind != SEGMENTS:
                check_elf(elf, build_id)
                return
            check_whole(elf)  # the build-id follows the table
            stored = bytes(elf.data[-len(build_id) :]).decode("ascii", "replace") if elf.segments else ""
    check_id(stored, build_id)


def check_elf(elf: ObjectFile, build_id: str) -> None:
    """Raise WhenceError unless a file is complete and has this build-id."""
    check_whole(elf)
    check_id(elf.build_id, build_id)


def check_whole(elf: ObjectFile) -> None:
    end = max((section.file_offset + section.size for section in elf.sections if section.in_file), default=0)
    if elf.problems or end > elf.size:
        raise CutError("the file is cut off")


def check_id(stored: str, build_id: str) -> None:
    expected = build_id.partition(PLACE)[0]
    if stored != expected:
        raise Mismatch(f"the file has build-id {stored or '(none)'}, expected {expected}")
