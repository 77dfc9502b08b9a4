"""Messages of Arrow IPC, checked before pyarrow decompresses their buffers.

A message is a head in the encoding of flatbuffers (Message.fbs) and a body. The buffers of a compressed body begin with
the size that they claim to have, and pyarrow allocates what they claim: `CheckedMessages` adds up the claims first.

Document: docs/source/format/Columnar.rst and format/Message.fbs of Apache Arrow.
"""

from __future__ import annotations

import struct
from typing import Any, BinaryIO

from whence.columns.checks import broken

PART = 1 << 20  # bytes read at once
CLAIM_TIMES, CLAIM_ALLOWANCE = 1024, 1 << 28  # what a message may decompress to

# Fields of the tables of Message.fbs
HEADER_TYPE, HEADER = 1, 2
DICTIONARY_BATCH, RECORD_BATCH = 2, 3
DICTIONARY_DATA = 1
BUFFERS, COMPRESSION = 2, 3
BUFFER_SIZE = 16  # an offset and a length


class SteadyFile:
    """A file for pyarrow that allocates what arrives, not what is asked for. `count` is the bytes read so far."""

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
    """The messages of a stream as a stream, each checked before it is passed on."""

    closed = False

    def __init__(self, messages: Any) -> None:
        self._messages = messages
        self._waiting = memoryview(b"")
        self.claimed = 0  # bytes that compressed buffers claim to have, of all messages

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
    """Return how many bytes the compressed buffers of a message claim. Raises BrokenTable if that is too much."""
    if body is None:
        return 0
    data = head.to_pybytes()
    try:
        claims = claimed(data, memoryview(body))
    except struct.error:
        raise broken("damaged arrow: the head of a message is cut off") from None
    most = CLAIM_TIMES * (len(data) + body.size) + CLAIM_ALLOWANCE
    if claims > most:
        raise broken(f"damaged arrow: the buffers of a message of {body.size:,} bytes claim to have {claims:,}")
    return claims


def claimed(head: bytes, body: memoryview) -> int:
    """Return the sum of the sizes that compressed buffers claim. Raises struct.error."""
    message = FlatbuffersTable.root(head)
    kind = message.number(HEADER_TYPE, "<B")
    if kind not in (DICTIONARY_BATCH, RECORD_BATCH) or not message.field(HEADER):
        return 0
    batch = message.table(HEADER)
    if kind == DICTIONARY_BATCH:
        if not batch.field(DICTIONARY_DATA):
            return 0
        batch = batch.table(DICTIONARY_DATA)
    if not batch.field(COMPRESSION) or not batch.field(BUFFERS):
        return 0
    start, count = batch.vector(BUFFERS)
    if count * BUFFER_SIZE > len(head):
        raise struct.error("a vector ends past the end")
    claims = 0
    for number in range(count):
        offset, length = struct.unpack_from("<qq", head, start + BUFFER_SIZE * number)
        if length >= 8 and 0 <= offset <= len(body) - 8:
            claims += max(struct.unpack_from("<q", body, offset)[0], 0)
    return claims


class FlatbuffersTable:
    """A table in the encoding of flatbuffers, whose fields are found by a row of offsets. Raises struct.error."""

    def __init__(self, data: bytes, start: int) -> None:
        if start < 0:
            raise struct.error("a table begins before the start")
        self.data, self._start = data, start
        (back,) = struct.unpack_from("<i", data, start)
        self._offsets = start - back
        if self._offsets < 0:
            raise struct.error("a table begins before the start")
        (self._size,) = struct.unpack_from("<H", data, self._offsets)

    @classmethod
    def root(cls, data: bytes) -> FlatbuffersTable:
        return cls(data, *struct.unpack_from("<I", data, 0))

    def field(self, number: int) -> int:
        """Return the offset of a field, 0 if it is absent."""
        entry = 4 + 2 * number
        if entry + 2 > self._size:
            return 0
        (offset,) = struct.unpack_from("<H", self.data, self._offsets + entry)
        return self._start + offset if offset else 0

    def number(self, number: int, form: str) -> int:
        offset = self.field(number)
        return int(struct.unpack_from(form, self.data, offset)[0]) if offset else 0

    def table(self, number: int) -> FlatbuffersTable:
        offset = self.field(number)
        return FlatbuffersTable(self.data, offset + int(struct.unpack_from("<I", self.data, offset)[0]))

    def vector(self, number: int) -> tuple[int, int]:
        """Return the offset of the first element of a vector that is present, and the number of elements."""
        offset = self.field(number)
        offset += int(struct.unpack_from("<I", self.data, offset)[0])
        (count,) = struct.unpack_from("<I", self.data, offset)
        return offset + 4, count
