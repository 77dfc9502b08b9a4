"""Opening regular files, and writing files whole or not at all.

Opening a pipe waits for its other end, and opening a device may have effects. So a file is examined first (O_PATH opens
nothing), and exactly the examined file is opened then, even if its name leads elsewhere by that time.

Writing. `atomic_write` creates a new file in the folder of the target, which is renamed to the target when it is
complete and on the disk, and removed otherwise: the target has its old bytes or all of the new ones. Until then the
file has no name if the file system supports that (O_TMPFILE, open(2)), so that a killed process leaves nothing, and a
random name elsewhere. Mode, owner, access control list and user attributes of a replaced file are kept; a new file has
the mode that the umask leaves. A link is followed if the kernel would follow it (protected_symlinks, proc(5)): not if
another user put it into a sticky folder that everyone can write to. Pipes and /dev/stdout are written to directly.
"""

from __future__ import annotations

import errno
import io
import os
import stat
from contextlib import contextmanager, suppress

from whence._base import rooted
from whence._base.errors import naming, not_regular, what_it_is

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from contextlib import AbstractContextManager
    from typing import BinaryIO

    from _typeshed import ReadableBuffer as Buffer

    from whence._base.errors import FormatError

DELETED_MARK = " (deleted)"  # suffix that Linux adds to the path of a removed file, in /proc/PID/maps and links

# Not every system has these.
O_PATH = getattr(os, "O_PATH", 0)
O_TMPFILE = getattr(os, "O_TMPFILE", 0)
O_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
O_NOCTTY = getattr(os, "O_NOCTTY", 0)
O_NONBLOCK = getattr(os, "O_NONBLOCK", 0)
O_ALWAYS = getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_BINARY", 0)
O_FOLDER = getattr(os, "O_DIRECTORY", 0) | O_ALWAYS

LINKS_FOLLOWED = 40  # path_resolution(7)
TEMPORARY = ".whence-"  # starts the name of a file being written
TEMPORARY_RANDOM_BYTES = 12
COPIED_AT_ONCE = 1 << 20  # bytes
SHARED = stat.S_ISVTX | stat.S_IWOTH  # of a folder like /tmp
KEPT_MODE = 0o1777  # writing clears the set-user-ID and set-group-ID bits, as write(2) does
KEPT_ATTRIBUTES = ("user.", "system.posix_acl_access", "security.selinux")


# Whether a file has an owner whose number says something, and a mode that keeps others out.
OWNED = hasattr(os, "geteuid")


def is_mine(status: os.stat_result) -> bool:
    """Return True if a file belongs to this user, or if files have no such owners (Windows)."""
    return not OWNED or status.st_uid == os.geteuid()


def stamp(status: os.stat_result) -> tuple[int, ...]:
    """Return values that change when a file is replaced or written to, and differ between files of this machine."""
    return status.st_dev, status.st_ino, status.st_mtime_ns, status.st_size


def stamp_of(path: str | os.PathLike[str]) -> tuple[int, ...]:
    """Return the `stamp` of the file of a path. Raises OSError."""
    return stamp(os.stat(path))


def lock(descriptor: int) -> None:
    """Wait for the lock of an open file, which is released when the descriptor is closed or its process ends."""
    try:
        import fcntl
    except ImportError:
        _lock_a_byte(descriptor)
    else:
        fcntl.flock(descriptor, fcntl.LOCK_EX)


def _lock_a_byte(descriptor: int) -> None:
    """Lock on Windows, for ten seconds at a time. Systems without fcntl and msvcrt have no lock."""
    try:
        import msvcrt
    except ImportError:
        return None
    while True:
        with suppress(OSError):  # another process has held the lock for ten seconds
            return msvcrt.locking(descriptor, msvcrt.LK_LOCK, 1)  # type: ignore[attr-defined,no-any-return]


def read_at(descriptor: int, size: int, offset: int) -> bytes:
    """Return at most `size` bytes of an open file from `offset` on. Without pread the file's position moves."""
    if hasattr(os, "pread"):
        return os.pread(descriptor, size, offset)
    os.lseek(descriptor, offset, os.SEEK_SET)
    return os.read(descriptor, size)


class NotRegularError(OSError):
    """A file is not a regular one."""

    def __init__(self, mode: int) -> None:
        self.mode = mode
        super().__init__(number("EINVAL"), what_it_is(mode))


def write_all(descriptor: int, data: Buffer) -> None:
    """Write all bytes to a descriptor, in several writes if necessary. Raises OSError."""
    left = memoryview(data)
    while left:
        left = left[os.write(descriptor, left) :]


def number(name: str) -> int:
    """Return the number of an error. Importing errno takes longer than opening a file, and is rarely needed."""
    return int(getattr(errno, name))


def failure(name: str, why: str = "") -> OSError:
    """Return an OSError of the class for its number."""
    return OSError(number(name), why or os.strerror(number(name)))


def must_be_regular(status: os.stat_result) -> None:
    """Raise IsADirectoryError or NotRegularError unless a status is a regular file's."""
    if stat.S_ISDIR(status.st_mode):
        raise failure("EISDIR")
    if not stat.S_ISREG(status.st_mode):
        raise NotRegularError(status.st_mode)


def may_be_pipe(status: os.stat_result) -> None:
    """Raise IsADirectoryError or NotRegularError unless a status is a regular file's or a pipe's."""
    if not stat.S_ISFIFO(status.st_mode):
        must_be_regular(status)


def open_examined(
    path: str | os.PathLike[str],
    check: Callable[[os.stat_result], None] = must_be_regular,
    *,
    dir_fd: int | None = None,
    follow: bool = True,
    flags: int = O_NONBLOCK,
) -> int:
    """Return a descriptor for reading a file whose status passed `check`, which raises OSError otherwise.

    `dir_fd` is the folder of a relative path. Without `follow` a link is not followed. A path through the root of
    another process ("/proc/7/root/...") stays inside that root, even if links lead out of it.
    """
    name = os.fspath(path)
    if dir_fd is None and "/root/" in name:
        root, inside = rooted.split(name)
        if root:
            with rooted.resolve(root, inside, follow=follow) as target:
                return open_examined(target.name, check, dir_fd=target.folder, follow=False, flags=flags)
    flags |= os.O_RDONLY | O_ALWAYS
    stay = 0 if follow else O_NOFOLLOW
    try:
        if O_PATH:
            looked = os.open(name, O_PATH | O_ALWAYS | stay, dir_fd=dir_fd)
            try:
                check(os.fstat(looked))
                with suppress(FileNotFoundError):  # where /proc is not mounted
                    return os.open(f"/proc/self/fd/{looked}", flags)
            finally:
                os.close(looked)
        seen = os.stat(name, dir_fd=dir_fd, follow_symlinks=follow)
        check(seen)
        descriptor = os.open(name, flags | stay, dir_fd=dir_fd)
        if not os.path.samestat(seen, os.fstat(descriptor)):
            os.close(descriptor)
            raise failure("ENOENT", "it was replaced while it was opened")
        return descriptor
    except OSError as error:
        error.filename = name
        raise


@contextmanager
def open_regular(
    path: str | os.PathLike[str], error: type[FormatError], *, dir_fd: int | None = None
) -> Iterator[tuple[int, int]]:
    """Return a descriptor of a regular file and its size in bytes, until the block ends.

    `dir_fd` is the folder of a relative path. Errors that the block raises name the file. Raises OSError, `error`.
    """
    with naming(os.fspath(path)):
        try:
            descriptor = open_examined(path, dir_fd=dir_fd)
        except NotRegularError as problem:
            raise not_regular(error, problem.mode) from None
        try:
            yield descriptor, os.fstat(descriptor).st_size
        finally:
            os.close(descriptor)


def read_regular(path: str | os.PathLike[str], size: int, *, follow: bool = True) -> bytes | None:
    """Return the content of a regular file of at most `size` bytes; None for any other file, or a missing one."""
    name = os.fspath(path)
    if "\0" in name:
        return None
    try:
        with open(open_examined(name, follow=follow), "rb") as file:
            if os.fstat(file.fileno()).st_size > size:
                return None
            return file.read(size)
    except OSError:
        return None


def read_below(path: str, folders: Sequence[str], size: int) -> bytes | None:
    """Return the content of a file below one of some folders, after all links are followed; otherwise None.

    The file must be regular and have at most `size` bytes.
    """
    if "\0" in path:
        return None
    real = os.path.realpath(path)
    roots = map(os.path.realpath, folders)
    if not any(os.path.commonpath([real, root]) == root for root in roots):
        return None
    try:
        with open(open_examined(real, follow=False), "rb") as file:
            if os.fstat(file.fileno()).st_size > size:
                return None
            if O_PATH and os.path.realpath(f"/proc/self/fd/{file.fileno()}") != real:  # a folder became a link
                return None
            return file.read(size)
    except OSError:
        return None


def open_input(path: str | os.PathLike[str], error: type[FormatError], *, buffering: int = -1) -> BinaryIO:
    """Open a regular file or a pipe for reading from start to end. Raises OSError, `error`.

    For input that a person names, which may be <(...) or /dev/stdin. Devices are not opened.
    """
    try:
        descriptor = open_examined(path, may_be_pipe, flags=0)  # a pipe waits for its writer
    except NotRegularError as problem:
        raise not_regular(error, problem.mode).in_file(os.fspath(path)) from None
    return open(descriptor, "rb", buffering=buffering)


@contextmanager
def atomic_write(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Return a file to write, which is renamed to the path when the block ends, or removed if the block raises.

    If the path is a link, its target is replaced. A pipe, a device or /dev/stdout is written to directly. Raises
    OSError with the path, also for a file that the user may not write, and for another user's file or link in a sticky
    folder that everyone can write to.
    """
    given = os.fspath(path)
    reported = None
    try:
        with _target(given) as target:
            if target.through is not None:
                writing: AbstractContextManager[BinaryIO] = io.BufferedWriter(_Through(target.through, "wb"))
            else:
                writing = _temporary(target)
            with writing as file:
                try:
                    yield file
                except OSError as error:  # of another file, when it has a name
                    reported = error.filename and error
                    raise
    except OSError as error:
        if error is not reported:
            error.filename = given
            if error.filename2 is not None:
                del error.filename2  # of a rename
        raise


@contextmanager
def atomic_text(path: str | os.PathLike[str]) -> Iterator[io.TextIOWrapper]:
    """Return a text file like `atomic_write`: UTF-8, line ends unchanged, bytes that are not UTF-8 kept."""
    with atomic_write(path) as file:
        text = io.TextIOWrapper(file, "utf-8", "surrogateescape", newline="")
        try:
            yield text
        except BaseException:
            with suppress(OSError):
                text.detach()
            raise
        text.detach()


def publish(file: BinaryIO, source: str, target: str, folder: int | None = None) -> None:
    """Close a file that was written as `source` and rename it to `target` in the same folder.

    The bytes are on the disk before the name, so that a power cut does not leave an incomplete file under it.
    """
    _settle(file)
    _rename(file, source, target, folder)


def _settle(file: BinaryIO) -> None:
    """Wait until the written bytes are on the disk."""
    file.flush()
    with suppress_unsupported():
        os.fsync(file.fileno())


def _rename(file: BinaryIO, source: str, target: str, folder: int | None) -> None:
    """Close a file that is on the disk, and rename it."""
    file.close()
    os.replace(source, target, src_dir_fd=folder, dst_dir_fd=folder)
    if folder is not None:
        with suppress_unsupported():
            os.fsync(folder)


@contextmanager
def suppress_unsupported() -> Iterator[None]:
    """Return a block that ignores errors for operations that a file system does not support."""
    try:
        yield
    except OSError as error:
        if error.errno not in [number(name) for name in ("EBADF", "EINVAL", "ENOTSUP", "ENOSYS")]:
            raise


class _Target:
    """The target of a path: a name in a folder, or a descriptor to write through."""

    __slots__ = ("folder", "name", "status", "through")

    def __init__(
        self, folder: int | None, name: str, status: os.stat_result | None = None, through: int | None = None
    ) -> None:
        self.folder = folder  # a descriptor; None where the system has no *at() calls, `name` is then a path
        self.name = name
        self.status = status  # of the file that is there
        self.through = through


class _Through(io.FileIO):
    """A file that is written from start to end: a pipe, or a file that another program opened."""

    def seekable(self) -> bool:
        return False


@contextmanager
def _target(path: str) -> Iterator[_Target]:
    """Follow the links of a path. The folder's descriptor is valid until the block ends."""
    if not path:
        raise failure("ENOENT")
    for _ in range(LINKS_FOLLOWED):
        folder, name = os.path.split(path)
        folder = folder or os.curdir
        if not name:
            raise failure("EISDIR")
        real = os.path.realpath(folder)
        if name.isdecimal() and real in (os.path.realpath("/proc/self/fd"), "/dev/fd"):  # /dev/stdout leads there
            yield _Target(None, path, through=os.dup(int(name)))
            return
        if real.startswith("/proc/"):  # a link there need not name what it leads to
            yield _Target(None, path, through=os.open(path, os.O_WRONLY | os.O_TRUNC | O_ALWAYS))
            return
        folder_descriptor = open_folder(folder)
        try:
            target = name if folder_descriptor is not None else path
            status: os.stat_result | None = None
            with suppress(FileNotFoundError):
                status = os.lstat(target, dir_fd=folder_descriptor)
            if status is not None:
                _must_be_ours(os.stat(folder) if folder_descriptor is None else os.fstat(folder_descriptor), status)
            if status is None or not stat.S_ISLNK(status.st_mode):
                yield _examined_target(folder_descriptor, target, status)
                return
            path = os.path.join(folder, os.readlink(target, dir_fd=folder_descriptor))
        finally:
            if folder_descriptor is not None:
                os.close(folder_descriptor)
    raise failure("ELOOP")


def open_folder(path: str) -> int | None:
    """Return a descriptor of a folder for opening and renaming files in it; None on systems without such."""
    if os.open not in os.supports_dir_fd:
        return None
    try:
        return os.open(path, os.O_RDONLY | O_FOLDER)
    except PermissionError:  # it may be written to without being listed
        return os.open(path, (O_PATH or os.O_RDONLY) | O_FOLDER)


def _must_be_ours(folder: os.stat_result, status: os.stat_result) -> None:
    """Apply the kernel's rules of protected_symlinks, protected_regular and protected_fifos (proc_sys_fs(5))."""
    if folder.st_mode & SHARED == SHARED and not is_mine(status) and status.st_uid != folder.st_uid:
        what = "link" if stat.S_ISLNK(status.st_mode) else "file"
        raise failure("EACCES", f"another user's {what} in a folder that everyone can write to")


def _examined_target(folder: int | None, name: str, status: os.stat_result | None) -> _Target:
    """Return the end of the links: a new name, a regular file, or a descriptor to write through."""
    if status is not None and stat.S_ISDIR(status.st_mode):
        raise failure("EISDIR")
    if status is not None and not stat.S_ISREG(status.st_mode):
        through = os.open(name, os.O_WRONLY | O_NOCTTY | O_NOFOLLOW | O_ALWAYS, dir_fd=folder)
        return _Target(folder, name, status, through)
    effective = os.access in os.supports_effective_ids
    if status is not None and not os.access(name, os.W_OK, dir_fd=folder, effective_ids=effective):
        raise failure("EACCES")
    return _Target(folder, name, status)


@contextmanager
def _temporary(target: _Target) -> Iterator[BinaryIO]:
    """Return a file next to the target, which is renamed to it when the block ends, or removed if the block raises."""
    name = os.path.join(os.path.dirname(target.name), TEMPORARY + os.urandom(TEMPORARY_RANDOM_BYTES).hex())
    mode = 0o666 if target.status is None else 0o600
    file = None
    try:
        nameless = _nameless(target.folder, mode)
        file = _named(name, target.folder, mode) if nameless is None else nameless
        yield file
        if target.status is not None:
            _keep(file.fileno(), target, target.status)
        _settle(file)
        if nameless is not None and not _give_name(nameless, name, target.folder):
            file = _named(name, target.folder, mode)
            _copy(nameless, file)
            nameless.close()
            if target.status is not None:
                _keep(file.fileno(), target, target.status)
            _settle(file)
        _rename(file, name, target.name, target.folder)
    except BaseException:
        with suppress(OSError):
            os.unlink(name, dir_fd=target.folder)
        if file is not None:
            with suppress(OSError):  # the disk may be full
                file.close()
        raise


def _named(name: str, folder: int | None, mode: int) -> BinaryIO:
    """Create a file with a random name."""
    flags = os.O_RDWR | os.O_CREAT | os.O_EXCL | O_NOFOLLOW | O_ALWAYS
    return open(os.open(name, flags, mode, dir_fd=folder), "wb")


def _nameless(folder: int | None, mode: int) -> BinaryIO | None:
    """Create a file without a name in a folder; None if that is not supported, or the file could not get a name."""
    if O_TMPFILE and folder is not None:
        with suppress(OSError):
            descriptor = os.open(os.curdir, O_TMPFILE | os.O_RDWR | O_ALWAYS, mode, dir_fd=folder)
            if os.path.exists(f"/proc/self/fd/{descriptor}"):
                return open(descriptor, "wb")
            os.close(descriptor)
    return None


def _give_name(file: BinaryIO, name: str, folder: int | None) -> bool:
    """Give a nameless file a name. Returns False if the system forbids such links, as security modules may."""
    try:
        os.link(f"/proc/self/fd/{file.fileno()}", name, dst_dir_fd=folder)
    except OSError:
        return False
    return True


def _copy(source: BinaryIO, target: BinaryIO) -> None:
    """Write the content of one file into another."""
    offset = 0
    while piece := os.pread(source.fileno(), COPIED_AT_ONCE, offset):
        target.write(piece)
        offset += len(piece)


def _keep(descriptor: int, target: _Target, old: os.stat_result) -> None:
    """Give a new file the owner, the attributes and the mode of the replaced one, as far as the user may."""
    if not hasattr(os, "fchown"):
        return
    mode = old.st_mode & KEPT_MODE
    new = os.fstat(descriptor)
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        try:
            os.fchown(descriptor, old.st_uid, old.st_gid)
        except PermissionError:
            try:
                os.fchown(descriptor, -1, old.st_gid)
            except PermissionError:  # what the old group was allowed is not for the new one
                mode &= ~stat.S_IRWXG | (mode & stat.S_IRWXO) << 3
    if hasattr(os, "listxattr") and target.folder is not None:
        source = f"/proc/self/fd/{target.folder}/{target.name}"
        with suppress(OSError):
            for key in os.listxattr(source, follow_symlinks=False):
                if key.startswith(KEPT_ATTRIBUTES):
                    with suppress(OSError):
                        os.setxattr(descriptor, key, os.getxattr(source, key, follow_symlinks=False))
    os.fchmod(descriptor, mode)
