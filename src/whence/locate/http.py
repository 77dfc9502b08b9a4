"""HTTP requests with a deadline, which shuts down the connections of a request.

Socket timeouts apply to each read. A server that sends a byte a second, endless `100 Continue` responses or endless
trailers never exceeds them.
"""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection
from urllib3.connectionpool import HTTPConnectionPool, HTTPSConnectionPool

_current = threading.local()


class Deadline:
    """A context manager that shuts down the connections which its thread uses in the block after `seconds`."""

    def __init__(self, seconds: float) -> None:
        self.expired = False
        self._lines: list[socket.socket] = []
        self._lock = threading.Lock()
        self._timer = self._timer_of(seconds)

    def _timer_of(self, seconds: float) -> threading.Timer:
        timer = threading.Timer(max(seconds, 0), self._expire)
        timer.daemon = True
        return timer

    def extend(self, seconds: float) -> None:
        """Restart the deadline with this number of seconds."""
        self._timer.cancel()
        self._timer = self._timer_of(seconds)
        self._timer.start()

    def watch(self, line: socket.socket) -> None:
        """Add a connection to shut down."""
        copy = socket.socket(fileno=socket.dup(line.fileno()))  # TLS detaches the original's descriptor
        with self._lock:
            self._lines.append(copy)
            expired = self.expired
        if expired:
            self._expire()

    def _expire(self) -> None:
        with self._lock:
            self.expired = True
            for line in self._lines:
                with suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)

    def __enter__(self) -> Self:
        _current.deadline = self
        self._timer.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        _current.deadline = None
        self._timer.cancel()
        with self._lock:
            for line in self._lines:
                line.close()
            self._lines.clear()


def _watch(line: socket.socket | None) -> None:
    deadline: Deadline | None = getattr(_current, "deadline", None)
    if deadline is not None and line is not None:
        deadline.watch(line)


class _Plain(HTTPConnection):
    def _new_conn(self) -> socket.socket:
        line = super()._new_conn()
        _watch(line)
        return line

    def request(self, *arguments: Any, **options: Any) -> None:
        _watch(self.sock)  # reused from an earlier request
        super().request(*arguments, **options)


class _Secure(HTTPSConnection):
    def _new_conn(self) -> socket.socket:
        line = super()._new_conn()
        _watch(line)  # before the TLS handshake
        return line

    def request(self, *arguments: Any, **options: Any) -> None:
        _watch(self.sock)
        super().request(*arguments, **options)


class _PlainPool(HTTPConnectionPool):
    ConnectionCls = _Plain


class _SecurePool(HTTPSConnectionPool):
    ConnectionCls = _Secure


def pool(connect: float, silence: float) -> urllib3.PoolManager:
    """Return a pool of connections with timeouts, in seconds, to connect and between two reads."""
    manager = urllib3.PoolManager(retries=False, timeout=urllib3.Timeout(connect=connect, read=silence))
    manager.pool_classes_by_scheme = {"http": _PlainPool, "https": _SecurePool}
    return manager
