"""Paths that go through the root of another process (`/proc/7/root/usr/lib/x`), or of another machine whose files lie
in a folder (an unpacked image, a mounted disk): resolved inside that root only.

The kernel follows a link to `/srv` that lies in there to our own /srv. Whoever owns the process made that link, and
would lead us to files of ours. So the links on the way are followed by hand, as the process itself would follow them.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from errno import EINVAL, ELOOP, ENAMETOOLONG

from whence._base.records import Record

LINKS_FOLLOWED = 40  # path_resolution(7)
DEEPEST = 256  # folders, each an open descriptor meanwhile
O_FOLDER = getattr(os, "O_PATH", 0) | getattr(os, "O_DIRECTORY", 0) | getattr(os, "O_CLOEXEC", 0)
O_NOFOLLOW = getattr(os, "O_NOFOLLOW", 0)
_THROUGH = "/root/"


class Place(Record, frozen=True):
    """Where a path leads: an open folder, a name in it that is no link, and the path to it inside the root."""

    folder: int
    name: str
    inside: str


def split(path: str, sysroot: str = "") -> tuple[str, str]:
    """(root, path inside it) of a path that goes through the root of a process, or `sysroot`; ("", path) of another.

    >>> split("/usr/lib/x.so"), split("/mnt/image/usr/lib/x.so", "/mnt/image")
    (('', '/usr/lib/x.so'), ('/mnt/image', '/usr/lib/x.so'))
    """
    if sysroot and path.startswith(sysroot + "/"):
        return sysroot, path[len(sysroot) :]
    offset = path.find(_THROUGH)
    while offset >= 0:
        process = path[:offset]
        if process.rpartition("/")[2].isdecimal() and os.path.lexists(f"{process}/maps"):
            return process + _THROUGH[:-1], path[offset + len(_THROUGH) - 1 :]
        offset = path.find(_THROUGH, offset + 1)
    return "", path


def is_foreign(process: str) -> bool:
    """Whether the process in directory `process` sees other files under their names than we do: by its root or its
    mount namespace. False where that can't be found out: then its root can't be reached, either."""
    with suppress(OSError):
        if not os.path.samestat(os.stat(f"{process}/root/"), os.stat("/")):
            return True
        return os.readlink(f"{process}/ns/mnt") != os.readlink("/proc/self/ns/mnt")
    return False


def name_through(process: str, path: str) -> str:
    """The name of a file for us that a process in another root has mapped as `path`, as its maps show that to us."""
    with suppress(OSError):
        top = os.readlink(f"{process}/root").rstrip("/")
        if path.startswith(top + "/"):
            path = path[len(top) :]
    return f"{process}/root{path}"


@contextmanager
def place(root: str, inside: str, *, follow: bool = True) -> Iterator[Place]:
    """Where a path leads inside a root, `..` and absolute links too; open until the block ends. Raises OSError.

    With `follow` false a link at the path's end is not followed.
    """
    folders, seen = [os.open(root, O_FOLDER)], list[str]()
    names, links = _names(inside), 0
    try:
        last = ""
        while names:
            name = names.pop()
            if name == "..":
                if seen:
                    os.close(folders.pop())
                    seen.pop()
                continue
            target = _link(name, folders[-1]) if names or follow else None
            if target is not None:
                links += 1
                if links > LINKS_FOLLOWED:
                    raise OSError(ELOOP, os.strerror(ELOOP))
                if target.startswith("/"):
                    while seen:
                        os.close(folders.pop())
                        seen.pop()
                names += _names(target)
            elif names:
                if len(folders) >= DEEPEST:
                    raise OSError(ENAMETOOLONG, os.strerror(ENAMETOOLONG))
                folders.append(os.open(name, O_FOLDER | O_NOFOLLOW, dir_fd=folders[-1]))
                seen.append(name)
            else:
                last = name
        yield Place(folders[-1], last or ".", "/" + "/".join([*seen, last]))
    except OSError as error:
        if error.filename is None or not os.path.isabs(os.fsdecode(error.filename)):
            error.filename = root + inside
        raise
    finally:
        for folder in folders:
            os.close(folder)


def _names(path: str) -> list[str]:
    """The names of a path, the first one last."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _link(name: str, folder: int) -> str | None:
    """Where a link leads; None of what is no link."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno == EINVAL:
            return None
        raise


def real_path(path: str, sysroot: str = "") -> str:
    """os.path.realpath, inside the root that the path goes through, if it goes through one.

    Where links lead nowhere, the path as it is.
    """
    root, inside = split(path, sysroot)
    if not root:
        return os.path.realpath(path)
    try:
        with place(root, inside) as found:
            return root + found.inside
    except OSError:
        return path


def below(sysroot: str, path: str) -> str:
    """Where a path leads below a root, links and `..` followed inside it. Raises OSError where it leads nowhere."""
    with place(sysroot, path) as found:
        return sysroot.rstrip("/") + found.inside


def openable(path: str, sysroot: str = "") -> str:
    """A path that has no links any more if it goes through `sysroot`, as it is otherwise. Raises OSError where such
    links lead nowhere. The root of a process needs none of it: whence._base.files opens in there by hand."""
    if sysroot and path.startswith(sysroot + "/"):
        return below(sysroot, path[len(sysroot) :])
    return path
