"""Check messages of Arrow IPC before pyarrow decompresses their buffers.

Each buffer of a compressed message begins with its claimed decompressed size, and pyarrow allocates that much.
`CheckedMessages` adds up these sizes first.

Document: docs/source/format/Columnar.rst and format/Message.fbs of Apache Arrow.
"""

from __future__ import annotations

import struct
from typing import Any, BinaryIO

from whence.columns.checks import broken
from whence.columns.flatbuffers import BUFFERS, COMPRESSION, batch_of

PART = 1 << 20  # bytes read at once
CLAIM_TIMES, CLAIM_ALLOWANCE = 1024, 1 << 28  # limit of what a message decompresses to


class SteadyFile:
    """A file for pyarrow that allocates the bytes it reads, not the bytes requested; `count` is the bytes read."""

    closed = False

    def __init__(self, file: BinaryIO) -> None:
        self._file = file
        self.count = 0

    def read(self, size: int = -1) -> bytes:
        parts = []
        while size:
            part = self._file.read(min(size, PART) if size > 0 else PART)
            if not part:
                break
            parts.append(part)
            self.count += len(part)
            size -= len(part) if size > 0 else 0
        return b"".join(parts)

    def seek(self, offset: int, whence: int = 0) -> int:
        return self._file.seek(offset, whence)

    def tell(self) -> int:
        return self._file.tell()

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return self._file.seekable()

    def writable(self) -> bool:
        return False

    def flush(self) -> None: ...

    def close(self) -> None: ...


class CheckedMessages:
    """A stream of IPC messages that checks each message before it returns its bytes."""

    closed = False

    def __init__(self, messages: Any) -> None:
        self._messages = messages
        self._waiting = memoryview(b"")
        self.claimed = 0  # claimed decompressed bytes of all messages so far

    def read(self, size: int = -1) -> bytes:
        parts = []
        while size:
            if not self._waiting:
                try:
                    message = self._messages.read_next_message()
                except StopIteration:
                    break
                self.claimed += check_claims(message.metadata, message.body)
                self._waiting = memoryview(message.serialize())
            part = self._waiting[:size] if size > 0 else self._waiting
            self._waiting = self._waiting[len(part) :]
            size -= len(part) if size > 0 else 0
            parts.append(part)
        return b"".join(parts)

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return False

    def writable(self) -> bool:
        return False

    def flush(self) -> None: ...

    def close(self) -> None: ...


def check_claims(head: Any, body: Any) -> int:
    """Return the claimed decompressed bytes of a message. Raises BrokenTable if they are too many."""
    if body is None:
        return 0
    data = head.to_pybytes()
    try:
        claims = claimed(data, memoryview(body))
    except struct.error:
        raise broken("damaged arrow: the head of a message is cut off") from None
    limit = CLAIM_TIMES * (len(data) + body.size) + CLAIM_ALLOWANCE
    if claims > limit:
        raise broken(f"damaged arrow: a message of {body.size:,} bytes claims to decompress to {claims:,} bytes")
    return claims


def claimed(head: bytes, body: memoryview) -> int:
    """Return the claimed decompressed bytes of a message. Raises struct.error for a malformed head."""
    batch = batch_of(head)
    if batch is None or not batch.field(COMPRESSION):
        return 0
    sizes = (
        struct.unpack_from("<q", body, offset)[0]
        for offset, length in batch.buffers(BUFFERS)
        if length >= 8 and 0 <= offset <= len(body) - 8
    )
    return sum(max(size, 0) for size in sizes)
