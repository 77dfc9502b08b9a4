"""Thrift's compact protocol without a schema: what was read is written again byte for byte, known fields or not.

A struct is a dict of its fields by number; a field knows its type, so that nothing of it is lost. Parquet's footers are
such structs (`columns.row_groups`): a library generated from today's schema would drop the fields of tomorrow's.

    15        field 1, type 5 (i32)
      02      1, in zigzag
    29 1c     field 3 (2 further on), type 9 (list); of 1 element of type 12 (struct)
      18 01 61      field 1, type 8 (binary), of 1 byte
      00            the end of the struct in the list
    00        the end

>>> data = bytes.fromhex("1502291c1801610000")
>>> found = read_struct(data)
>>> found[1].value, found[3].value.items[0][1].value
(1, b'a')
>>> written(found) == data
True

Document: doc/specs/thrift-compact-protocol.md of Apache Thrift.
"""

from __future__ import annotations

import enum
from typing import Any, NamedTuple

DEEPEST = 32  # structs and lists in one another
LONGEST_VARINT = 10  # bytes
MORE = 0x80  # in a byte of a varint: another follows
DOUBLE_SIZE, UUID_SIZE = 8, 16
SHORT_DELTA = 15  # the farthest field whose number is part of its type's byte
LONG_LIST = 15  # the size that says that another follows


class Type(enum.IntEnum):
    """What a field or element is; a field's truth is its type."""

    TRUE = 1
    FALSE = 2
    I8 = 3
    I16 = 4
    I32 = 5
    I64 = 6
    DOUBLE = 7
    BINARY = 8
    LIST = 9
    SET = 10
    MAP = 11
    STRUCT = 12
    UUID = 13


INTEGERS = (Type.I16, Type.I32, Type.I64)
STOP = 0


class Field(NamedTuple):
    type: Type
    value: Any


class Items(NamedTuple):
    """A list's or set's elements; those of a list of structs may be bytes, structs that are written already."""

    type: Type
    items: list[Any]


class Pairs(NamedTuple):
    """A map's keys and values."""

    key: Type
    value: Type
    items: list[tuple[Any, Any]]


Struct = dict[int, Field]


def read_struct(data: bytes) -> Struct:
    """The struct that these bytes are. ValueError for bytes that are none."""
    reader = _Reader(data)
    try:
        found = reader.struct(0)
    except IndexError:
        raise ValueError("a struct of Thrift ends in the middle") from None
    return found


class _Reader:
    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def take(self, size: int) -> bytes:
        if size > len(self.data) - self.at:
            raise IndexError
        self.at += size
        return self.data[self.at - size : self.at]

    def varint(self) -> int:
        out = 0
        for number in range(LONGEST_VARINT):
            byte = self.byte()
            out |= (byte & ~MORE) << (7 * number)
            if not byte & MORE:
                return out
        raise ValueError(f"a number of Thrift has more than {LONGEST_VARINT} bytes")

    def signed(self) -> int:
        number = self.varint()
        return number >> 1 ^ -(number & 1)

    def struct(self, depth: int) -> Struct:
        if depth > DEEPEST:
            raise ValueError(f"structs of Thrift lie more than {DEEPEST} deep in one another")
        out: Struct = {}
        number = 0
        while head := self.byte():
            number = number + (head >> 4) if head >> 4 else self.signed()
            type = Type(head & 0x0F)
            out[number] = Field(type, type is Type.TRUE if type <= Type.FALSE else self.value(type, depth + 1))
        return out

    def value(self, type: Type, depth: int) -> Any:
        """A value of a type that is no field's truth."""
        if type in INTEGERS:
            return self.signed()
        match type:
            case Type.BINARY:
                return self.take(self.varint())
            case Type.STRUCT:
                return self.struct(depth)
            case Type.LIST | Type.SET:
                head = self.byte()
                size = self.varint() if head >> 4 == LONG_LIST else head >> 4
                self._check(size, depth)
                element = Type(head & 0x0F)
                return Items(element, [self.value(element, depth + 1) for _ in range(size)])
            case Type.MAP:
                size = self.varint()
                self._check(size, depth)
                if not size:
                    return Pairs(Type.TRUE, Type.TRUE, [])
                head = self.byte()
                key, value = Type(head >> 4), Type(head & 0x0F)
                return Pairs(
                    key, value, [(self.value(key, depth + 1), self.value(value, depth + 1)) for _ in range(size)]
                )
            case Type.DOUBLE:
                return self.take(DOUBLE_SIZE)
            case Type.UUID:
                return self.take(UUID_SIZE)
        return self.byte()  # I8, and truths in lists

    def _check(self, size: int, depth: int) -> None:
        """Every element takes a byte at least."""
        if size > len(self.data) - self.at or depth > DEEPEST:
            raise IndexError


def written(struct: Struct) -> bytes:
    """The struct's bytes, its fields in order."""
    out = bytearray()
    _write_struct(out, struct)
    return bytes(out)


def _write_varint(out: bytearray, number: int) -> None:
    while number >= MORE:
        out.append(number & ~MORE & 0xFF | MORE)
        number >>= 7
    out.append(number)


def _write_signed(out: bytearray, number: int) -> None:
    _write_varint(out, number << 1 if number >= 0 else (-number << 1) - 1)


def _write_struct(out: bytearray, struct: Struct) -> None:
    before = 0
    for number, (type, value) in sorted(struct.items()):
        if 0 < number - before <= SHORT_DELTA:
            out.append(number - before << 4 | type)
        else:
            out.append(type)
            _write_signed(out, number)
        before = number
        if type > Type.FALSE:
            _write_value(out, type, value)
    out.append(STOP)


def _write_value(out: bytearray, type: Type, value: Any) -> None:
    if type in INTEGERS:
        _write_signed(out, value)
        return
    match type:
        case Type.BINARY:
            _write_varint(out, len(value))
            out += value
        case Type.STRUCT:
            if isinstance(value, bytes):
                out += value
            else:
                _write_struct(out, value)
        case Type.LIST | Type.SET:
            size = len(value.items)
            out.append(min(size, LONG_LIST) << 4 | value.type)
            if size >= LONG_LIST:
                _write_varint(out, size)
            for one in value.items:
                _write_value(out, value.type, one)
        case Type.MAP:
            _write_varint(out, len(value.items))
            if value.items:
                out.append(value.key << 4 | value.value)
            for key, one in value.items:
                _write_value(out, value.key, key)
                _write_value(out, value.value, one)
        case Type.DOUBLE | Type.UUID:
            out += value
        case _:
            out.append(value)
