"""Objects in a folder: a key is a path below it.

A file appears under its name when it is complete and on the disk (_base.files). `create` links a temporary file;
`replace` compares and renames while it holds a lock of the folder, which the kernel releases when its holder ends.
Files whose names begin with `.whence-` are being written, or were when their writer was killed.
"""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO

from whence._base.files import (
    O_ALWAYS,
    O_NOFOLLOW,
    O_NONBLOCK,
    TEMPORARY,
    atomic_write,
    failure,
    lock,
    open_examined,
    read_at,
)
from whence.store.objects import Stat, too_large

CHUNK = 1 << 20
INCOMING = f"{TEMPORARY}incoming"  # files that were received and not yet scanned
GUARD = f"{TEMPORARY}lock"
STALE_SECONDS = 24 * 3600  # after which an unfinished file is removed


class Folder:
    """Objects below a folder, which is created with the first object."""

    read_only = False

    def __init__(self, root: str | os.PathLike[str]) -> None:
        self.root = Path(os.path.abspath(root))
        self.url = str(self.root)
        self._prefix = os.path.join(self.url, "")
        self._cached_umask: int | None = None

    def __repr__(self) -> str:
        return f"<Folder {self.root}>"

    def _path(self, key: str) -> str:
        """Return the path of a key. Raises OSError for an invalid key."""
        if "\0" in key or any(part in ("", ".", "..") or part.startswith(TEMPORARY) for part in key.split("/")):
            raise failure("EINVAL", f"invalid name of an object: {key!r}")
        return f"{self._prefix}{key}"

    def _path_to_write(self, key: str) -> str:
        """Return the path of a key, and create its folder. Raises OSError."""
        path = self._path(key)
        folder = os.path.dirname(path)
        if not os.path.isdir(folder):
            os.makedirs(folder, exist_ok=True)
        return path

    @staticmethod
    def _stat(key: str, status: os.stat_result) -> Stat:
        tag = f"{status.st_ino:x}-{status.st_mtime_ns:x}-{status.st_size:x}"
        return Stat(key, status.st_size, status.st_mtime, tag)

    def head(self, key: str) -> Stat | None:
        try:
            status = os.lstat(self._path(key))
        except (FileNotFoundError, NotADirectoryError):
            return None
        return self._stat(key, status) if stat.S_ISREG(status.st_mode) else None

    @contextmanager
    def _opened(self, key: str) -> Iterator[tuple[BinaryIO, Stat] | None]:
        try:
            descriptor = open_examined(self._path(key), follow=False)
        except (FileNotFoundError, NotADirectoryError):
            yield None
            return
        with open(descriptor, "rb", buffering=0) as file:
            yield file, self._stat(key, os.fstat(descriptor))

    def read(self, key: str, limit: int) -> tuple[bytes, Stat] | None:
        with self._opened(key) as opened:
            if opened is None:
                return None
            file, status = opened
            content = file.read(limit + 1)
            if len(content) > limit:
                raise too_large(key, status.size, limit)
            return content, status

    def read_range(self, key: str, start: int, end: int, tag: str = "") -> bytes:
        with self._opened(key) as opened:
            if opened is None:
                raise failure("ENOENT", f"{key} does not exist")
            file, status = opened
            if tag and status.tag != tag:
                raise failure("ESTALE", f"{key} was replaced meanwhile")
            content = read_at(file.fileno(), end - start, start)
            if len(content) != end - start:
                raise failure("EIO", f"{key} has {status.size} bytes, requested were {start} to {end}")
            return content

    def fetch(self, key: str, file: BinaryIO) -> Stat | None:
        with self._opened(key) as opened:
            if opened is None:
                return None
            shutil.copyfileobj(opened[0], file, CHUNK)
            return opened[1]

    def put(self, key: str, content: bytes | Path, *, move: bool = False) -> None:
        path = self._path_to_write(key)
        if move and isinstance(content, Path):
            with open(content, "rb") as file:
                os.fsync(file.fileno())
            os.chmod(content, 0o666 & ~self._umask)
            try:
                os.replace(content, path)
                return
            except OSError:  # on another file system
                pass
        with atomic_write(path) as out:
            if isinstance(content, bytes):
                out.write(content)
            else:
                with open(content, "rb") as source:
                    shutil.copyfileobj(source, out, CHUNK)

    def create(self, key: str, content: bytes) -> str:
        for _ in range(3):  # another process may remove the folder with its last object
            with suppress(FileNotFoundError):
                return self._create(self._path_to_write(key), key, content)
        raise failure("EIO", f"the folder of {key} was removed by another process three times")

    def _create(self, path: str, key: str, content: bytes) -> str:
        temporary = _temporary(path)
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | O_NOFOLLOW | O_ALWAYS
        with open(os.open(temporary, flags, 0o666), "wb") as file:
            file.write(content)
        try:
            os.link(temporary, path)
            return self._stat(key, os.lstat(path)).tag
        except FileExistsError:
            return ""
        finally:
            with suppress(FileNotFoundError):
                os.unlink(temporary)

    def replace(self, key: str, content: bytes, tag: str) -> str:
        path = self._path(key)
        with self._locked():
            status = self.head(key)
            if status is None or status.tag != tag:
                return ""
            with atomic_write(path) as out:
                out.write(content)
            return self._stat(key, os.lstat(path)).tag

    @contextmanager
    def _locked(self) -> Iterator[None]:
        """Open a block that holds the folder's lock: objects are not replaced meanwhile."""
        flags = os.O_RDWR | os.O_CREAT | O_NOFOLLOW | O_NONBLOCK | O_ALWAYS
        descriptor = os.open(self.root / GUARD, flags, 0o666)
        try:
            lock(descriptor)
            yield
        finally:
            os.close(descriptor)

    def copy(self, source: str, target: str) -> None:
        """Make a hard link, if the file system has them: files of a store are replaced, never written to."""
        old, new = self._path(source), self._path_to_write(target)
        temporary = _temporary(new)
        try:
            os.link(old, temporary)
        except FileNotFoundError:
            raise
        except OSError:
            self.put(target, Path(old))
            return
        os.replace(temporary, new)
        with suppress(FileNotFoundError):  # rename of two links to one file leaves both
            os.unlink(temporary)

    def delete(self, key: str) -> bool:
        path = self._path(key)
        try:
            os.unlink(path)
        except (FileNotFoundError, NotADirectoryError):
            return False
        parent = Path(path).parent
        while parent != self.root and parent.parent != self.root:  # empty folders
            try:
                parent.rmdir()
            except OSError:
                break
            parent = parent.parent
        return True

    def list(self, prefix: str) -> Iterator[Stat]:
        waiting = [prefix]
        while waiting:
            folder = waiting.pop()
            try:
                entries = list(os.scandir(self._path(folder.rstrip("/")) if folder else self.root))
            except (FileNotFoundError, NotADirectoryError):
                continue
            for entry in entries:
                if entry.name.startswith(TEMPORARY):
                    continue
                if entry.is_dir(follow_symlinks=False):
                    waiting.append(f"{folder}{entry.name}/")
                elif entry.is_file(follow_symlinks=False):
                    with suppress(FileNotFoundError):
                        yield self._stat(folder + entry.name, entry.stat(follow_symlinks=False))

    def folders(self, prefix: str) -> Iterator[str]:
        try:
            with os.scandir(self._path(prefix.rstrip("/")) if prefix else self.root) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False) and not entry.name.startswith(TEMPORARY):
                        yield entry.name
        except (FileNotFoundError, NotADirectoryError):
            return

    def path(self, key: str) -> Path | None:
        path = self._path(key)
        try:
            return Path(path) if stat.S_ISREG(os.lstat(path).st_mode) else None
        except (FileNotFoundError, NotADirectoryError):
            return None

    def spool(self) -> str:
        folder = self.root / INCOMING
        folder.mkdir(parents=True, exist_ok=True)
        return str(folder)

    def touch(self, key: str) -> None:
        """Set the time of change of an object to now; create it if it is missing. Raises OSError."""
        path = self._path(key)
        try:
            os.utime(path, follow_symlinks=False)
        except FileNotFoundError:
            self.put(key, b"")

    def sweep(self) -> int:
        """Remove unfinished files that are older than a day; return the number of bytes that this frees."""
        freed = 0
        for folder, _, names in os.walk(self.root):
            for name in names:
                path = os.path.join(folder, name)
                if name == GUARD or not (name.startswith(TEMPORARY) or os.path.basename(folder) == INCOMING):
                    continue
                with suppress(OSError):
                    status = os.lstat(path)
                    if time.time() - status.st_mtime > STALE_SECONDS:
                        os.unlink(path)
                        freed += status.st_size
        return freed

    @property
    def _umask(self) -> int:
        """The umask, from /proc where that has it: os.umask would set it for all threads."""
        if self._cached_umask is None:
            self._cached_umask = 0o022
            with suppress(OSError), open("/proc/self/status") as status:
                for line in status:
                    if line.startswith("Umask:"):
                        self._cached_umask = int(line.split()[1], 8)
        return self._cached_umask

    def close(self) -> None:
        pass


def _temporary(path: str) -> str:
    """Return a temporary name in the same folder."""
    return os.path.join(os.path.dirname(path), TEMPORARY + os.urandom(12).hex())
