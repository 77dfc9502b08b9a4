"""Child processes that are handed work over a socket."""

from __future__ import annotations

import os
import signal
import socket
import sys
import tempfile
import time

import pytest

from whence._base.child import LONGEST, Child, ending, receive, send

pytestmark = pytest.mark.skipif(not hasattr(socket, "send_fds"), reason="open files are sent on POSIX systems only")
ECHO = """
from whence._base.child import parent, receive, send
line = parent()
while True:
    message, descriptors = receive(line)
    send(line, message | {"files": len(descriptors)})
"""


def echo(line: socket.socket) -> None:
    """Return each message, with the number of its files."""
    try:
        while True:
            message, descriptors = receive(line)
            send(line, message | {"files": len(descriptors)})
    except ConnectionError:
        os._exit(7)


@pytest.mark.parametrize("how", ["fork", "spawn"])
def test_messages_and_open_files_reach_a_child_and_replies_come_back(how: str) -> None:
    child = Child.fork(echo) if how == "fork" else Child.spawn([sys.executable, "-c", ECHO])
    with tempfile.TemporaryFile() as file:
        assert child.ask({"text": "\udc80 " * 100_000}) == {"text": "\udc80 " * 100_000, "files": 0}
        assert child.ask({"number": 1}, [file.fileno(), file.fileno()]) == {"number": 1, "files": 2}
    assert child.poll() is None
    assert child.reap(30) == (7 if how == "fork" else 1)
    assert child.poll() is not None


def test_a_killed_child_is_reported_by_its_signal() -> None:
    child = Child.fork(echo)
    child.kill()
    with pytest.raises(OSError):
        child.ask({})
    code = child.reap(30)
    assert (code, ending(code), ending(3)) == (-signal.SIGKILL, "signal 9", "exit code 3")
    child.kill()  # which does nothing


def test_a_child_that_does_not_end_is_killed_after_the_patience() -> None:
    child = Child.fork(lambda line: time.sleep(60))
    assert child.reap(0.01) == -signal.SIGKILL


def test_a_child_sees_that_its_parent_closed_the_socket_despite_its_siblings() -> None:
    first = Child.fork(echo)
    second = Child.fork(echo, [first])
    assert first.reap(30) == 7
    assert second.ask({"alive": True})["alive"] is True
    assert second.reap(30) == 7


@pytest.mark.parametrize(
    "content",
    [(LONGEST + 1).to_bytes(4, "little"), b"\x02\0\0\0[]", b"\x01\0\0\0{", b"\x01\0\0\0\xff"],
)
def test_a_malformed_message_is_refused(content: bytes) -> None:
    mine, theirs = socket.socketpair()
    with mine, theirs:
        theirs.sendall(content)
        with pytest.raises(ValueError):
            receive(mine)
