"""Heads of Arrow's IPC messages, read before pyarrow sees them.

The head of a message is in the encoding of flatbuffers: a table has a row of offsets, one for each of its fields.

Document: format/Message.fbs and docs/source/format/Columnar.rst of Apache Arrow.
"""

from __future__ import annotations

import struct

# Fields of the tables of Message.fbs
HEADER_TYPE, HEADER = 1, 2
DICTIONARY_BATCH, RECORD_BATCH = 2, 3  # values of HEADER_TYPE
DICTIONARY_DATA = 1
LENGTH, BUFFERS, COMPRESSION = 0, 2, 3  # of a RecordBatch
BUFFER_SIZE = 16  # bytes of a Buffer: an offset and a length


class FlatbuffersTable:
    """A table in the encoding of flatbuffers. Raises struct.error if it extends past the data."""

    def __init__(self, data: bytes, start: int) -> None:
        if start < 0:
            raise struct.error("a table begins before the start")
        self._data, self._start = data, start
        (distance,) = struct.unpack_from("<i", data, start)
        self._offsets = start - distance
        if self._offsets < 0:
            raise struct.error("a table begins before the start")
        (self._size,) = struct.unpack_from("<H", data, self._offsets)

    @classmethod
    def root(cls, data: bytes) -> FlatbuffersTable:
        """Return the outermost table."""
        return cls(data, *struct.unpack_from("<I", data, 0))

    def field(self, number: int) -> int:
        """Return the offset of a field, 0 if the field is absent."""
        entry = 4 + 2 * number
        if entry + 2 > self._size:
            return 0
        (offset,) = struct.unpack_from("<H", self._data, self._offsets + entry)
        return self._start + offset if offset else 0

    def number(self, number: int, form: str) -> int:
        """Return an integer field, unpacked by the struct format `form`; 0 if the field is absent."""
        offset = self.field(number)
        return int(struct.unpack_from(form, self._data, offset)[0]) if offset else 0

    def table(self, number: int) -> FlatbuffersTable:
        """Return the table that a field refers to."""
        return FlatbuffersTable(self._data, self._target(self.field(number)))

    def buffers(self, number: int) -> list[tuple[int, int]]:
        """Return the (offset, length) pairs of a vector of Buffers, none if the field is absent."""
        offset = self.field(number)
        if not offset:
            return []
        start = self._target(offset)
        (count,) = struct.unpack_from("<I", self._data, start)
        end = start + 4 + BUFFER_SIZE * count
        if end > len(self._data):
            raise struct.error("a vector extends past the end")
        return list(struct.iter_unpack("<qq", self._data[start + 4 : end]))

    def _target(self, offset: int) -> int:
        return offset + int(struct.unpack_from("<I", self._data, offset)[0])


def batch_of(head: bytes) -> FlatbuffersTable | None:
    """Return the RecordBatch table of a message's head, that of a dictionary too; None for other kinds of messages.

    Raises struct.error for a malformed head.
    """
    message = FlatbuffersTable.root(head)
    kind = message.number(HEADER_TYPE, "<B")
    if kind not in (DICTIONARY_BATCH, RECORD_BATCH) or not message.field(HEADER):
        return None
    header = message.table(HEADER)
    if kind == RECORD_BATCH:
        return header
    return header.table(DICTIONARY_DATA) if header.field(DICTIONARY_DATA) else None
