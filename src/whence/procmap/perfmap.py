"""Read /tmp/perf-PID.map, where a JIT compiler writes the names of its code.

    7f12a4c01000 1c0 LazyCompile:~main app.js:1
    start        size name: the rest of the line, in UTF-8

The path contains /tmp and the pid as the process sees them, so both are resolved in its namespaces. All users can write
to /tmp, so only a regular file of the process's user or of root is accepted, as in perf.
"""

from __future__ import annotations

import errno
import os
import re
from collections.abc import Iterable

from whence._base.files import open_examined
from whence.procmap.names import NamedAddresses
from whence.procmap.process import status_numbers

SIZE_LIMIT = 256 << 20
Status = tuple[int, int, int]  # inode, time, size
_LINE = re.compile(rb"^[ \t]*(?:0x)?([0-9a-fA-F]{1,16})[ \t]+(?:0x)?([0-9a-fA-F]{1,16})[ \t]+([^\r\n]+)", re.MULTILINE)
_TOP = (1 << 64) - 1


def parse(data: bytes) -> NamedAddresses:
    """Return the names in the text of a perf map; other lines are ignored.

    >>> parse(b"1000 20 one two\\nrubbish\\n").lookup(0x101f)
    'one two'
    """
    rows = ((int(start, 16), int(size, 16), name) for start, size, name in _LINE.findall(data))
    return NamedAddresses(
        (start, min(start + size, _TOP), name.decode("utf-8", "surrogateescape")) for start, size, name in rows if size
    )


def path_of(process: str, pid: int) -> str:
    """Return the path of the map of the process in directory `process`: in its root and /tmp, with its own pid."""
    numbers = status_numbers(process, "NSpid")
    return f"{process}/root/tmp/perf-{numbers[-1] if numbers else pid}.map"


def read(process: str, pid: int, previous: Status | None = None) -> tuple[Status, bytes | None] | None:
    """Return the status of a process's perf map and its text; None without a trustworthy map.

    If the status equals `previous`, the text is not read (None).
    """
    try:
        return read_file(path_of(process, pid), status_numbers(process, "Uid")[1:2], previous)
    except OSError:
        return None


def read_file(path: str, owners: Iterable[int], previous: Status | None = None) -> tuple[Status, bytes | None]:
    """Return the status and the text of the perf map at a path that all users can write to.

    If the status equals `previous`, the text is not read (None). It has at most SIZE_LIMIT bytes.

    Raises:
        NotRegularError: it is not a regular file.
        PermissionError: it belongs neither to root nor to one of `owners` (user ids).
        OSError: it can't be read.
    """
    with os.fdopen(open_examined(path, follow=False), "rb") as file:
        status = os.fstat(file.fileno())
        if status.st_uid not in (0, *owners):
            raise PermissionError(errno.EPERM, "owned by another user", path)
        new = (status.st_ino, status.st_mtime_ns, status.st_size)
        return new, None if new == previous else file.read(min(status.st_size, SIZE_LIMIT))
