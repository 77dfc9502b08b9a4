"""Clients that do not read: the kernel ends a connection when what was sent to it waits for too long (TCP_USER_TIMEOUT,
RFC 5482; Linux). No host has a time limit for that of its own."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path

OPTION = getattr(socket, "TCP_USER_TIMEOUT", None)
TCP = (socket.AF_INET, socket.AF_INET6)


def cut_stalled(line: socket.socket, seconds: float) -> None:
    """Have the kernel do so with a connection, or with all that come by a socket that listens."""
    if OPTION is not None and line.family in TCP and line.type == socket.SOCK_STREAM:
        with contextlib.suppress(OSError):
            line.setsockopt(socket.IPPROTO_TCP, OPTION, int(1000 * seconds))


def cut_stalled_everywhere(seconds: float) -> None:
    """The same with every socket that listens in this process, whoever opened it."""
    try:
        descriptors = [int(one.name) for one in Path("/proc/self/fd").iterdir()]
    except OSError:
        return
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            with socket.socket(fileno=os.dup(descriptor)) as line:
                if line.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    cut_stalled(line, seconds)
