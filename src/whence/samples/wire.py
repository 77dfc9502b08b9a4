"""Protocol buffers as columns: the part of the encoding that profiles need (protobuf.dev, "Encoding").

Messages are extents in the data (`Messages`), scalar fields become rows (`table`), and `splice` writes a profile again
with other names. Bytes that are not decoded are not copied.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import accumulate

from whence._base.budget import Budget
from whence._base.errors import ProfileError, shown
from whence._base.records import Record, field
from whence.kernels.columns import Column
from whence.samples import bounds
from whence.samples.kernels import encode as encode_kernel
from whence.samples.kernels import fields
from whence.samples.kernels import splice as splice_kernel
from whence.samples.kernels import wire as wire_kernel
from whence.samples.text import encodable, utf8

FAULTS = {
    fields.CUT_VARINT: "a varint extends past the end of its message",
    fields.LONG_VARINT: "a varint does not fit in 64 bits",
    fields.CUT_FIELD: "a field extends past the end of its message",
    fields.WIRE_TYPE: "unknown wire type",
    fields.FIELD_ZERO: "a field has the number 0",
    fields.NO_ROOM: "the data changed while it was read",
    fields.WRONG_TYPE: "a message field has no length",
    fields.UNKNOWN: "an id is not in its table",
}


def zeros(code: str, size: int) -> array[int]:
    """Return a column of zeros."""
    return array(code, (0,)) * size


class Messages(Record):
    """Messages in `data`: message i is data[start[i]:end[i]], a field of message parent[i] of its parents.

    Columns and texts are charged to `budget` before they are made.
    """

    data: bytes
    part: str
    start: array[int]
    end: array[int]
    parent: array[int]
    budget: Budget
    _texts: dict[int, str] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<{len(self)} messages of {self.part}>"

    def __len__(self) -> int:
        return len(self.start)

    @classmethod
    def from_bytes(cls, data: bytes, part: str, budget: Budget | None = None) -> Messages:
        """Return the data as one message (default budget: in proportion to `data`)."""
        budget = budget or bounds.reading(len(data))
        return cls(data, part, array("Q", [0]), array("Q", [len(data)]), array("I", [0]), budget)

    def item(self, index: int) -> Messages:
        """Return one of the messages."""
        start, end = self.start[index : index + 1], self.end[index : index + 1]
        return Messages(self.data, self.part, start, end, array("I", [0]), self.budget)

    def slice(self, low: int, high: int) -> Messages:
        """Return the messages [low, high)."""
        columns = self.start[low:high], self.end[low:high], self.parent[low:high]
        return Messages(self.data, self.part, *columns, self.budget)

    def empty(self) -> Messages:
        """Return no messages of the same part."""
        return Messages(self.data, self.part, array("Q"), array("Q"), array("I"), self.budget)

    def raw(self, index: int) -> bytes:
        """Return the bytes of a message."""
        return self.data[self.start[index] : self.end[index]]

    def text(self, index: int) -> str:
        """Return a message as text, which is decoded once."""
        text = self._texts.get(index)
        if text is None:
            raw = self.raw(index)
            self.budget.charge(bounds.STRING + (len(raw) if raw.isascii() else 4 * len(raw)))
            text = self._texts[index] = raw.decode("utf-8", "surrogateescape")
        return text

    def counts(self, numbers: Sequence[int]) -> array[int]:
        """Return the number of length-delimited fields of each field number."""
        rows = zeros("Q", len(numbers))
        self._messages(numbers, rows, zeros("Q", 0), zeros("Q", 0), zeros("I", 0))
        return rows

    def count(self, number: int) -> int:
        """Return the number of length-delimited fields `number`."""
        return self.counts([number])[0]

    def field(self, number: int, part: str) -> Messages:
        """Return the messages, strings or bytes in field `number` of these messages."""
        return self.fields({part: number})[0]

    def fields(self, numbers: Mapping[str, int]) -> list[Messages]:
        """Return the messages, strings or bytes in each field; `numbers` maps names for errors to field numbers."""
        counts = self.counts([*numbers.values()])
        rows = sum(counts)
        self.budget.charge(20 * rows)
        if len(numbers) > 1:
            self.budget.charge(20 * max(counts))  # while they are split
        ends = array("Q", accumulate(counts))
        next_row = array("Q", [end - count for end, count in zip(ends, counts)])
        start, end, parent = zeros("Q", rows), zeros("Q", rows), zeros("I", rows)
        if rows:
            self._messages([*numbers.values()], next_row, start, end, parent)
        if len(numbers) == 1:
            return [Messages(self.data, part, start, end, parent, self.budget) for part in numbers]
        return [
            Messages(self.data, part, start[low:high], end[low:high], parent[low:high], self.budget)
            for part, low, high in zip(numbers, [0, *ends], ends)
        ]

    def _messages(self, numbers: Sequence[int], rows: array[int], *out: array[int]) -> None:
        kinds = bytearray(max(numbers, default=0) + 1)
        for kind, number in enumerate(numbers, 1):
            kinds[number] = kind
        self.checked(wire_kernel.messages(self.data, self.start, self.end, kinds, rows, *out))

    def table(self, width: int) -> array[int]:
        """Return scalar fields with numbers below `width`: `width` values for each message, 0 if it has none."""
        self.budget.charge(8 * len(self) * width)
        rows = zeros("Q", len(self) * width)
        self.checked(wire_kernel.scalars(self.data, self.start, self.end, width, rows))
        return rows

    def numbers(self, number: int, fixed64: bool = False) -> tuple[array[int], array[int]]:
        """Return the values of a repeated scalar, and the index of each message's first value (one more at the end)."""
        self.budget.charge(8 * len(self))
        first = zeros("Q", len(self) + 1)
        rows = self.checked(wire_kernel.repeated(self.data, self.start, self.end, number, fixed64, array("Q"), first))
        self.budget.charge(2 * bounds.ENTRY * rows)  # columns of other types are made of them
        values = zeros("Q", rows)
        if rows:
            self.checked(wire_kernel.repeated(self.data, self.start, self.end, number, fixed64, values, first))
        return values, first

    def checked(self, result: tuple[int, int, int]) -> int:
        """Return the rows of a kernel's result (rows, fault, offset). Raise ProfileError if there is a fault."""
        rows, fault, offset = result
        if fault:
            data = self.data[offset : offset + 10]
            raise ProfileError(self.part, offset, f"{FAULTS[fault]}: {shown(data)}", found=data)
        return rows


class Ids:
    """The ids of a table: nonzero and distinct, in any order."""

    __slots__ = ("_order", "ids")

    def __init__(self, ids: array[int], part: str) -> None:
        self.ids = ids
        self._order = array("Q", range(len(ids)))
        if ids != array("Q", range(1, len(ids) + 1)):
            if 0 in ids:
                raise ProfileError(f"{part} {ids.index(0)}", None, "the id is 0")
            if len(set(ids)) < len(ids):
                duplicate = next(id for id, count in Counter(ids).items() if count > 1)
                raise ProfileError(part, None, f"duplicate id {duplicate}")
            self._order = array("Q", sorted(self._order, key=ids.__getitem__))

    def lists(self, messages: Messages, id_field: int, value_field: int, values: int) -> wire_kernel.IdLists:
        """Return a reader of ids of this table in one field of each message, and of `values` numbers in another."""
        extents = messages.data, messages.start, messages.end
        return wire_kernel.IdLists(extents, (self.ids, self._order), id_field, value_field, values)

    def positions(self, ids: array[int], part: str, field: str) -> array[int]:
        """Return the index of each id in the table. Raise ProfileError, naming `field`, for an unknown id."""
        out = zeros("I", len(ids))
        count, fault, _ = wire_kernel.positions(ids, self.ids, self._order, out)
        if fault:
            raise ProfileError(part, None, f"unknown {field} {ids[count]}")
        return out


def first_beyond(column: array[int], limit: int) -> int:
    """Return the first row of a column with a number of `limit` or more; -1 if all are less."""
    return int(wire_kernel.first_beyond(column, limit))


def check_string_indices(column: array[int], count: int, part: str, field: str) -> None:
    """Raise ProfileError unless every number of a column is an index into `count` strings."""
    row = first_beyond(column, count)
    if row >= 0:
        problem = f"{field} {column[row]} is out of range: string_table has {count} strings"
        raise ProfileError(f"{part} {row}", None, problem, found=column[row])


MORE = 0x80  # in a byte of a varint: another byte follows


def varint(value: int) -> bytes:
    """Encode a number with seven bits a byte, low bits first; negative numbers as 64-bit two's complement.

    >>> varint(300).hex(), varint(-1).hex()
    ('ac02', 'ffffffffffffffffff01')
    """
    value &= 0xFFFFFFFFFFFFFFFF
    out = bytearray()
    while value >= MORE:
        out.append(value & (MORE - 1) | MORE)
        value >>= 7
    out.append(value)
    return bytes(out)


def number(field: int, value: int) -> bytes:
    """Encode a varint field; b"" for 0, the value of an absent field."""
    return varint(field << 3 | fields.VARINT) + varint(value) if value else b""


def fixed64(field: int, value: int) -> bytes:
    """Encode a field of 64 bits; b"" for 0."""
    return varint(field << 3 | fields.FIXED64) + (value & 0xFFFFFFFFFFFFFFFF).to_bytes(8, "little") if value else b""


def tag(field: int) -> bytes:
    """Encode the tag of a length-delimited field."""
    return varint(field << 3 | fields.LENGTH)


def payload(field: int, body: bytes) -> bytes:
    """Encode a length-delimited field: a message, bytes or text."""
    return tag(field) + varint(len(body)) + body


def text(field: int, value: str) -> bytes:
    """Encode a string field."""
    return payload(field, utf8(value))


def packed(field: int, values: Iterable[int]) -> bytes:
    """Encode a repeated scalar in packed form; b"" if there are no values."""
    body = b"".join(map(varint, values))
    return payload(field, body) if body else b""


def texts(field: int, values: list[str]) -> bytes:
    """Encode a repeated string field."""
    try:
        return bytes(encode_kernel.texts(tag(field), values))
    except UnicodeEncodeError:
        return bytes(encode_kernel.texts(tag(field), list(map(encodable, values))))


def rows(field: int, table: array[int], width: int) -> bytearray:
    """Encode a repeated message with the rows of a table as varint fields 1 to `width`."""
    out = bytearray(len(table) // width * (24 + 12 * width))
    size, _, _ = splice_kernel.emit(table, width, field, out)
    del out[size:]
    return out


class NewNames(Record):
    """The names that `splice` writes into a message, and the field numbers.

    If functions/lines[first[i]:first[i + 1]] has lines, they replace the lines of location i. Mapping j gets a true
    field `flag` + k for each set bit k of flags[j]; `mapping` is 0 in formats without mappings.
    """

    location: int
    line: int  # of a location
    line_function: int  # of a line: its function, its line
    line_line: int
    first: memoryview
    functions: memoryview
    lines: memoryview
    mapping: int = 0
    flag: int = 0
    flags: bytes = b""


def splice(message: Messages, new: NewNames) -> Column:
    """Return a copy of a single message with new lines of locations and new flags of mappings."""
    start, end = message.start[0], message.end[0]
    out = Column("B")
    message.checked(splice_kernel.splice(message.data, start, end, new, out))
    return out
