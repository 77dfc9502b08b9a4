"""Arrow streams of strangers: looked at before pyarrow unpacks them, and answered within bounds.

A message's head says how many rows it has and whether its buffers are packed (Arrow's IPC format, Message.fbs, in
flatbuffers' encoding). Packed ones are refused: a few bytes may unpack to any number.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from whence.server.bodies import Refusal

if TYPE_CHECKING:
    from whence.server.settings import RequestLimits

PIECE = 1 << 14  # rows that are named at once
# fields of the tables of Message.fbs
HEADER_TYPE, HEADER = 1, 2
DICTIONARY_BATCH, RECORD_BATCH = 2, 3
DICTIONARY_DATA = 1
LENGTH, COMPRESSION = 0, 3


def batches_of(body: bytes, limits: RequestLimits) -> tuple[Any, Iterator[Any]]:
    """The schema of a stream, and its batches, checked, at most PIECE rows at a time. Raises Refusal, pyarrow's
    errors, OSError."""
    import pyarrow as pa

    check(body, limits)
    reader = pa.ipc.open_stream(body)

    def pieces() -> Iterator[Any]:
        with reader:
            for batch in reader:
                batch.validate(full=True)
                if sum(elements(column) for column in batch.columns) > len(batch.columns) * limits.addresses:
                    raise Refusal(413, f"lists of more than {limits.addresses} addresses")
                for start in range(0, max(batch.num_rows, 1), PIECE):
                    yield batch.slice(start, PIECE)

    return reader.schema, pieces()


def elements(column: Any) -> int:
    """How many values a column has, those of lists counted each."""
    import pyarrow as pa

    return len(column.flatten()) if pa.types.is_nested(column.type) and hasattr(column, "flatten") else len(column)


def check(body: bytes, limits: RequestLimits) -> None:
    """Refuse a stream of more rows than allowed, or with packed buffers. Raises Refusal, pyarrow's errors."""
    import pyarrow as pa

    rows = 0
    for message in pa.ipc.MessageReader.open_stream(body):
        try:
            batch = batch_in(FlatbuffersTable.root(message.metadata.to_pybytes()))
        except struct.error:
            raise Refusal(400, "no Arrow stream: the head of a message is cut off") from None
        if batch is None:
            continue
        if batch.field(COMPRESSION):
            raise Refusal(415, "an Arrow stream with packed buffers: send plain ones, the whole body as gzip")
        rows += batch.number(LENGTH, "<q")
        if rows > limits.addresses:
            raise Refusal(413, f"more than {limits.addresses} rows")


def batch_in(message: FlatbuffersTable) -> FlatbuffersTable | None:
    """The record batch of a message, a dictionary's too; None where it is of another kind."""
    kind = message.number(HEADER_TYPE, "<B")
    if kind not in (DICTIONARY_BATCH, RECORD_BATCH) or not message.field(HEADER):
        return None
    header = message.table(HEADER)
    return header.table(DICTIONARY_DATA) if kind == DICTIONARY_BATCH else header


class FlatbuffersTable:
    """A table in flatbuffers' encoding: its fields are found by a row of offsets before it. Raises struct.error for
    what lies outside of the data."""

    def __init__(self, data: bytes, start: int) -> None:
        if start < 0:
            raise struct.error("before the beginning")
        self._data, self._start = data, start
        (back,) = struct.unpack_from("<i", data, start)
        self._offsets = start - back
        if self._offsets < 0:
            raise struct.error("before the beginning")
        (self._size,) = struct.unpack_from("<H", data, self._offsets)

    @classmethod
    def root(cls, data: bytes) -> FlatbuffersTable:
        return cls(data, *struct.unpack_from("<I", data, 0))

    def field(self, number: int) -> int:
        """Where a field is; 0 where it is absent."""
        at = 4 + 2 * number
        if at + 2 > self._size:
            return 0
        (offset,) = struct.unpack_from("<H", self._data, self._offsets + at)
        return self._start + offset if offset else 0

    def number(self, number: int, form: str) -> int:
        at = self.field(number)
        return int(struct.unpack_from(form, self._data, at)[0]) if at else 0

    def table(self, number: int) -> FlatbuffersTable:
        at = self.field(number)
        return FlatbuffersTable(self._data, at + int(struct.unpack_from("<I", self._data, at)[0]))
