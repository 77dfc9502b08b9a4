"""/tmp/perf-PID.map: where a JIT compiler writes down the names of the code it makes.

    7f12a4c01000 1c0 LazyCompile:~main app.js:1
    start        size name: the rest of the line, in UTF-8

The process writes it under its own idea of /tmp and of its pid: both are looked up in its namespaces. /tmp is
everyone's, so only a regular file that belongs to the process's user (or root) is believed, as perf does it.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable

from whence._base.files import open_looked_at
from whence.procmap.names import NamedAddresses
from whence.procmap.process import status_numbers

SIZE_LIMIT = 256 << 20
Status = tuple[int, int, int]  # inode, time, size
_LINE = re.compile(rb"^[ \t]*(?:0x)?([0-9a-fA-F]{1,16})[ \t]+(?:0x)?([0-9a-fA-F]{1,16})[ \t]+([^\r\n]+)", re.MULTILINE)
_TOP = (1 << 64) - 1


def parse(data: bytes) -> NamedAddresses:
    """The names in the text of a perf map; lines that are no such line are passed over.

    >>> parse(b"1000 20 one two\\nrubbish\\n").lookup(0x101f)
    'one two'
    """
    rows = ((int(start, 16), int(size, 16), name) for start, size, name in _LINE.findall(data))
    return NamedAddresses(
        (start, min(start + size, _TOP), name.decode("utf-8", "surrogateescape")) for start, size, name in rows if size
    )


def path_of(process: str, pid: int) -> str:
    """Where the process in directory `process` writes its map: its root, its /tmp, its own pid."""
    numbers = status_numbers(process, "NSpid")
    return f"{process}/root/tmp/perf-{numbers[-1] if numbers else pid}.map"


def read(process: str, pid: int, known: Status | None = None) -> tuple[Status, bytes | None] | None:
    """What file the process's perf map is now, and its text (None when the file is the `known` one still).

    None when there is no perf map to believe.
    """
    try:
        return read_file(path_of(process, pid), status_numbers(process, "Uid")[1:2], known)
    except OSError:
        return None


def read_file(path: str, owners: Iterable[int], known: Status | None = None) -> tuple[Status, bytes | None]:
    """The same of the perf map at a path that everyone can write to, at most its first SIZE_LIMIT bytes.

    Raises OSError: NotRegularError when it is no regular file, PermissionError when it is neither one of the owners'
    (user ids) nor root's.
    """
    descriptor = open_looked_at(path, follow=False)
    try:
        status = os.fstat(descriptor)
        if status.st_uid not in (0, *owners):
            raise PermissionError(errno.EPERM, "is another user's", path)
        found = (status.st_ino, status.st_mtime_ns, status.st_size)
        if found == known:
            return found, None
        parts = []
        left = min(status.st_size, SIZE_LIMIT)
        while left and (part := os.read(descriptor, left)):
            parts.append(part)
            left -= len(part)
        return found, b"".join(parts)
    finally:
        os.close(descriptor)
