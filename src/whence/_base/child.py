"""Child processes that are handed work: one socket to each, messages in both directions, and how a child ended.

A message is its length (4 bytes, little-endian) and a JSON object; open files may be attached to it (SCM_RIGHTS,
unix(7)). A child is either a fork of this process (`Child.fork`) or a new one (`Child.spawn`), whose standard input is
the socket. Both see the end of the socket when this process ends.
"""

from __future__ import annotations

import json
import os
import signal
import socket
import struct
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Any

LENGTH = struct.Struct("<I")
LONGEST = 1 << 20  # bytes of a message from a process that is not trusted
MOST_FILES = 8  # attached to a message
POLL_SECONDS = 0.005


def send(line: socket.socket, message: Mapping[str, Any], descriptors: Sequence[int] = ()) -> None:
    """Send a message with open files. Raises OSError."""
    content = json.dumps(message).encode()
    packed = LENGTH.pack(len(content)) + content
    sent = socket.send_fds(line, [packed], descriptors) if descriptors else line.send(packed)
    if sent < len(packed):
        line.sendall(packed[sent:])


def receive(line: socket.socket, limit: int = LONGEST) -> tuple[dict[str, Any], list[int]]:
    """Return a message of at most `limit` bytes and the descriptors of the attached files.

    Raises:
        OSError: The other process ended (ConnectionError), or did not answer within the socket's timeout.
        ValueError: The message is malformed.
    """
    content, descriptors, _, _ = socket.recv_fds(line, LENGTH.size, MOST_FILES)
    content += _read(line, LENGTH.size - len(content))
    (size,) = LENGTH.unpack(content)
    if size > limit:
        raise ValueError(f"a message of {size} bytes, at most {limit} are allowed")
    message = json.loads(_read(line, size))
    if not isinstance(message, dict):
        raise ValueError("a message is not a JSON object")
    return message, list(descriptors)


def _read(line: socket.socket, size: int) -> bytes:
    content = bytearray()
    while len(content) < size:
        chunk = line.recv(size - len(content))
        if not chunk:
            raise ConnectionError("the other process has ended")
        content += chunk
    return bytes(content)


def parent() -> socket.socket:
    """Return the socket of a spawned child to its parent, in place of its standard input."""
    line = socket.socket(fileno=os.dup(0))
    with open(os.devnull, "rb") as nothing:
        os.dup2(nothing.fileno(), 0)
    return line


def ending(code: int) -> str:
    """Return how a process ended, for messages: `code` is its exit code, or minus the number of a signal."""
    return f"signal {-code}" if code < 0 else f"exit code {code}"


class Child:
    """A child process and the socket to it.

    `line` is the socket. For one thread at a time, except `kill`.
    """

    def __init__(self, pid: int, line: socket.socket, process: subprocess.Popen[bytes] | None = None) -> None:
        self.pid, self.line = pid, line
        self._process = process
        self._code: int | None = None

    @classmethod
    def spawn(cls, command: Sequence[str], environment: Mapping[str, str] | None = None) -> Child:
        """Start a program, which calls `parent`. Raises OSError."""
        line, theirs = socket.socketpair()
        try:
            with theirs:
                process = subprocess.Popen(command, stdin=theirs.fileno(), stdout=subprocess.DEVNULL, env=environment)
        except BaseException:
            line.close()
            raise
        return cls(process.pid, line, process)

    @classmethod
    def fork(cls, work: Callable[[socket.socket], object], siblings: Iterable[Child] = ()) -> Child:
        """Copy this process and run `work` with the socket to the parent in the copy, which then ends.

        `siblings` are the earlier children: the copy closes their sockets, so that they see when the parent ends.
        Raises OSError.
        """
        line, theirs = socket.socketpair()
        try:
            pid = os.fork()
        except OSError:
            line.close()
            theirs.close()
            raise
        if not pid:
            try:
                line.close()
                for sibling in siblings:
                    sibling.line.close()
                work(theirs)
            finally:
                os._exit(1)  # unless `work` ended the process
        theirs.close()
        return cls(pid, line)

    def ask(
        self, message: Mapping[str, Any], descriptors: Sequence[int] = (), *, limit: int = LONGEST
    ) -> dict[str, Any]:
        """Send a message and return the reply, of at most `limit` bytes. Raises OSError, ValueError as `receive`."""
        send(self.line, message, descriptors)
        return receive(self.line, limit)[0]

    def poll(self) -> int | None:
        """Return the exit code, or minus the number of a signal; None while the process runs."""
        if self._process is not None:
            return self._process.poll()
        if self._code is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self._code = os.waitstatus_to_exitcode(status) if pid else None
        return self._code

    def kill(self, number: int | None = None) -> None:
        """Send a signal (SIGKILL by default), unless the process was reaped."""
        number = signal.SIGKILL if number is None else number
        with suppress(ProcessLookupError):
            if self._process is not None:
                self._process.send_signal(number)
            elif self._code is None:
                os.kill(self.pid, number)

    def reap(self, patience: float = 0.0) -> int:
        """Close the socket, wait, and kill the process after `patience` seconds; return how it ended, as `poll`."""
        self.line.close()
        deadline = time.monotonic() + patience
        while (code := self.poll()) is None:
            if time.monotonic() >= deadline:
                self.kill()
                deadline = float("inf")
            time.sleep(POLL_SECONDS)
        return code
