"""Paths inside the root of another process (`/proc/7/root/usr/lib/x`), or of another machine's files in a folder.

The kernel follows a link to `/srv` in such a root to this machine's /srv. The owner of the process made that link, and
could lead us to files of ours. So links are followed by hand, as the process itself would follow them.
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
    """The end of a path: an open folder, a name in it that is not a link, and the path inside the root."""

    folder: int
    name: str
    inside: str


def split(path: str, sysroot: str = "") -> tuple[str, str]:
    """Return (root, path inside it) of a path through the root of a process, or `sysroot`; else ("", path).

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
    """Return True if a process sees other files under their names, by its root or its mount namespace.

    False if that cannot be found out: then its root cannot be reached, either. `process` is its directory below /proc.
    """
    with suppress(OSError):
        if not os.path.samestat(os.stat(f"{process}/root/"), os.stat("/")):
            return True
        return os.readlink(f"{process}/ns/mnt") != os.readlink("/proc/self/ns/mnt")
    return False


def name_through(process: str, path: str) -> str:
    """Return our name of a file that a process in another root has mapped as `path`."""
    with suppress(OSError):
        top = os.readlink(f"{process}/root").rstrip("/")
        if path.startswith(top + "/"):
            path = path[len(top) :]
    return f"{process}/root{path}"


@contextmanager
def resolve(root: str, inside: str, *, follow: bool = True) -> Iterator[Place]:
    """Return the end of a path inside a root, after `..` and links, until the block ends. Raises OSError.

    Without `follow` a link at the end is not followed.
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
    """Return the names of a path, the first one last."""
    return [name for name in reversed(path.split("/")) if name not in ("", ".")]


def _link(name: str, folder: int) -> str | None:
    """Return the target of a link; None if it is not a link."""
    try:
        return os.readlink(name, dir_fd=folder)
    except OSError as error:
        if error.errno == EINVAL:
            return None
        raise


def real_path(path: str, sysroot: str = "") -> str:
    """Return os.path.realpath inside the root of the path, if it has one; the path itself if links are broken."""
    root, inside = split(path, sysroot)
    if not root:
        return os.path.realpath(path)
    try:
        with resolve(root, inside) as resolved:
            return root + resolved.inside
    except OSError:
        return path


def below(sysroot: str, path: str) -> str:
    """Return a path below a root, with links and `..` followed inside it. Raises OSError for broken links."""
    with resolve(sysroot, path) as resolved:
        return sysroot.rstrip("/") + resolved.inside


def openable(path: str, sysroot: str = "") -> str:
    """Return a path without links if it is inside `sysroot`, else the path itself.

    Raises OSError for broken links. The root of a process needs no such step: whence._base.files follows its links.
    """
    if sysroot and path.startswith(sysroot + "/"):
        return below(sysroot, path[len(sysroot) :])
    return path
