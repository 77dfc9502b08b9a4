"""Paths of source files as pairs of folder and name, as GSYM stores them.

A path of Windows is separated by backslashes, and joined by them if the folder has no slash.
"""

from __future__ import annotations


def split_path(path: bytes) -> tuple[bytes, bytes]:
    r"""Return the folder and the name of a path.

    >>> split_path(b"/src/a.c"), split_path(b"a.c"), split_path(b"/a.c"), split_path(b"C:\\x\\a.c")
    ((b'/src', b'a.c'), (b'', b'a.c'), (b'/', b'a.c'), (b'C:\\x', b'a.c'))
    """
    cut = path.rfind(b"/")
    if cut < 0:
        cut = path.rfind(b"\\")
    return (path[:cut] or path[: cut + 1], path[cut + 1 :]) if cut >= 0 else (b"", path)


def join_path(folder: bytes, name: bytes) -> bytes:
    r"""Return the path of a name in a folder.

    >>> join_path(b"/src", b"a.c"), join_path(b"", b"a.c"), join_path(b"/", b"a.c"), join_path(b"C:\\x", b"a.c")
    (b'/src/a.c', b'a.c', b'/a.c', b'C:\\x\\a.c')
    """
    separator = b"\\" if b"\\" in folder and b"/" not in folder else b"/"
    return folder + name if not folder or folder.endswith(separator) else folder + separator + name
