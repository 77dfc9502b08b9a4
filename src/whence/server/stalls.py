"""A time limit for clients that do not read: TCP_USER_TIMEOUT (RFC 5482, Linux).

The kernel ends a connection if sent data is not acknowledged in time. Neither granian nor uvicorn has such a limit.
"""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from pathlib import Path

OPTION = getattr(socket, "TCP_USER_TIMEOUT", None)
TCP = (socket.AF_INET, socket.AF_INET6)


def cut_stalled(line: socket.socket, seconds: float) -> None:
    """Set TCP_USER_TIMEOUT on a connection, or on a listening socket for all its connections."""
    if OPTION is not None and line.family in TCP and line.type == socket.SOCK_STREAM:
        with contextlib.suppress(OSError):
            line.setsockopt(socket.IPPROTO_TCP, OPTION, int(1000 * seconds))


def cut_stalled_everywhere(seconds: float) -> None:
    """Set TCP_USER_TIMEOUT on all listening sockets of this process."""
    try:
        descriptors = [int(path.name) for path in Path("/proc/self/fd").iterdir()]
    except OSError:
        return
    for descriptor in descriptors:
        with contextlib.suppress(OSError):
            if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
                continue
            with socket.socket(fileno=os.dup(descriptor)) as line:
                if line.getsockopt(socket.SOL_SOCKET, socket.SO_ACCEPTCONN):
                    cut_stalled(line, seconds)
