"""Messages between the server and its confined processes: a length (4 bytes, little-endian), JSON, and descriptors."""

from __future__ import annotations

import json
import socket
import struct
from collections.abc import Mapping
from typing import Any

LENGTH = struct.Struct("<I")
LONGEST = 1 << 20  # bytes of a message
MOST_FILES = 8


def send(line: socket.socket, message: Mapping[str, Any], descriptors: list[int] | None = None) -> None:
    """Send a message. Raises OSError."""
    content = json.dumps(message).encode()
    packed = LENGTH.pack(len(content)) + content
    sent = socket.send_fds(line, [packed], descriptors) if descriptors else line.send(packed)
    if sent < len(packed):
        line.sendall(packed[sent:])


def receive(line: socket.socket) -> tuple[dict[str, Any], list[int]]:
    """A message and the descriptors that came with it. Raises OSError where the line ends, ValueError."""
    content, descriptors, _, _ = socket.recv_fds(line, LENGTH.size, MOST_FILES)
    while len(content) < LENGTH.size:
        content += more(line, LENGTH.size - len(content))
    (size,) = LENGTH.unpack(content)
    if size > LONGEST:
        raise ValueError("a message that is too long")
    content = b""
    while len(content) < size:
        content += more(line, size - len(content))
    message = json.loads(content)
    if not isinstance(message, dict):
        raise ValueError("a message that is no object")
    return message, list(descriptors)


def more(line: socket.socket, size: int) -> bytes:
    found = line.recv(size)
    if not found:
        raise ConnectionError("the other side has ended")
    return found
