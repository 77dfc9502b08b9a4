"""Row groups of Parquet as they are stored: joined to one file, without decoding what is there already.

    PAR1 │ row group: a chunk of pages for each column │ row group ... │ footer: FileMetaData │ its length │ PAR1

A chunk holds no offsets: wherever it lies, the footer alone says so. So row groups that several threads encoded into
memory become one file, and the columns of a table that only gets more columns are copied. Indexes of pages and Bloom
filters, which lie elsewhere in a file and do hold offsets, are left out; they are optional.

Document: README.md and src/main/thrift/parquet.thrift of apache/parquet-format.
"""

from __future__ import annotations

import enum
import os
import re
from collections.abc import Callable, Iterator
from typing import Any, BinaryIO, NamedTuple

from whence.columns.thrift import Field, Items, Struct, Type, read_struct, written

MAGIC = b"PAR1"
LENGTH_SIZE = 4  # of the footer, as it is written
MOST_FOOTER = 1 << 22  # bytes of a footer of a table whose columns are copied
BLOCK = 1 << 22  # bytes that are copied at once
MOST_ORDINAL = (1 << 15) - 1  # of a row group that has a number
# Writers that leave the header of the dictionary out of the size of a chunk (PARQUET-816)
SHORT_CHUNKS = re.compile(rb"parquet-mr( version (0\.|1\.[01]\.|1\.2\.[0-8]\b)|$)")
ARROW_SCHEMA = b"ARROW:schema"


class BrokenGroup(Exception):
    """A stored row group that is not what its footer said."""


class File(enum.IntEnum):
    """Fields of FileMetaData."""

    VERSION = 1
    SCHEMA = 2
    NUM_ROWS = 3
    ROW_GROUPS = 4
    KEY_VALUE_METADATA = 5
    CREATED_BY = 6
    COLUMN_ORDERS = 7
    ENCRYPTION_ALGORITHM = 8
    FOOTER_SIGNING_KEY_METADATA = 9


class Group(enum.IntEnum):
    """Fields of RowGroup."""

    COLUMNS = 1
    TOTAL_BYTE_SIZE = 2
    NUM_ROWS = 3
    SORTING_COLUMNS = 4
    FILE_OFFSET = 5
    TOTAL_COMPRESSED_SIZE = 6
    ORDINAL = 7


class Chunk(enum.IntEnum):
    """Fields of ColumnChunk."""

    FILE_PATH = 1
    FILE_OFFSET = 2
    META_DATA = 3
    OFFSET_INDEX_OFFSET = 4
    OFFSET_INDEX_LENGTH = 5
    COLUMN_INDEX_OFFSET = 6
    COLUMN_INDEX_LENGTH = 7
    CRYPTO_METADATA = 8
    ENCRYPTED_COLUMN_METADATA = 9


class Meta(enum.IntEnum):
    """Fields of ColumnMetaData."""

    TYPE = 1
    ENCODINGS = 2
    PATH_IN_SCHEMA = 3
    CODEC = 4
    NUM_VALUES = 5
    TOTAL_UNCOMPRESSED_SIZE = 6
    TOTAL_COMPRESSED_SIZE = 7
    DATA_PAGE_OFFSET = 9
    INDEX_PAGE_OFFSET = 10
    DICTIONARY_PAGE_OFFSET = 11
    BLOOM_FILTER_OFFSET = 14
    BLOOM_FILTER_LENGTH = 15


class Element(enum.IntEnum):
    """Fields of SchemaElement."""

    TYPE = 1
    NAME = 4
    NUM_CHILDREN = 5


class KeyValue(enum.IntEnum):
    KEY = 1


OUTSIDE = (
    Chunk.OFFSET_INDEX_OFFSET, Chunk.OFFSET_INDEX_LENGTH, Chunk.COLUMN_INDEX_OFFSET, Chunk.COLUMN_INDEX_LENGTH,
)  # fmt: skip
NOT_COPIED = (Chunk.FILE_PATH, Chunk.CRYPTO_METADATA, Chunk.ENCRYPTED_COLUMN_METADATA)


class Stored(NamedTuple):
    """A row group that is stored somewhere: its RowGroup, and what reads bytes from an offset on (fewer at the end)."""

    group: Struct
    read: Callable[[int, int], bytes | memoryview]

    @property
    def rows(self) -> int:
        return int(self.group[Group.NUM_ROWS].value)

    @property
    def columns(self) -> list[Struct]:
        return list(self.group[Group.COLUMNS].value.items)


class StoredTable(NamedTuple):
    """A Parquet file by its footer."""

    footer: Struct
    groups: list[Stored]

    @property
    def schema(self) -> list[Struct]:
        """Its SchemaElements: the root, then each column with what is below it."""
        return list(self.footer[File.SCHEMA].value.items)

    @classmethod
    def of_bytes(cls, data: memoryview) -> StoredTable:
        """The table that these bytes are. ValueError."""
        return cls._of(lambda start, size: data[start : start + size], len(data))

    @classmethod
    def to_copy(cls, file: BinaryIO) -> StoredTable | None:
        """The table in a file on disk; None for one whose chunks can't be copied: encrypted, in other files, beyond
        the file's end or over one another, of a writer that wrote wrong sizes, or with a very long footer."""
        if not hasattr(os, "pread"):
            return None
        descriptor = file.fileno()
        try:
            found = cls._of(lambda start, size: os.pread(descriptor, size, start), os.fstat(descriptor).st_size)
            return found if found._is_whole(os.fstat(descriptor).st_size) else None
        except (KeyError, TypeError, AttributeError, ValueError):  # no footer, or one of other types
            return None

    @classmethod
    def _of(cls, read: Callable[[int, int], bytes | memoryview], size: int) -> StoredTable:
        tail = bytes(read(max(size - LENGTH_SIZE - len(MAGIC), 0), LENGTH_SIZE + len(MAGIC)))
        length = int.from_bytes(tail[:LENGTH_SIZE], "little")
        start = size - len(tail) - length
        if tail[LENGTH_SIZE:] != MAGIC or start < len(MAGIC) or length > MOST_FOOTER:
            raise ValueError("no footer of Parquet")
        footer = read_struct(bytes(read(start, length)))
        return cls(footer, [Stored(one, read) for one in footer[File.ROW_GROUPS].value.items])

    def _is_whole(self, size: int) -> bool:
        """Whether every chunk lies in the file, none twice, and can be read by nothing but this file."""
        created_by = self.footer.get(File.CREATED_BY)
        if File.ENCRYPTION_ALGORITHM in self.footer or File.FOOTER_SIGNING_KEY_METADATA in self.footer:
            return False
        if created_by is not None and SHORT_CHUNKS.match(created_by.value):
            return False
        chunks = [one for group in self.groups for one in group.columns]
        if any(number in one for one in chunks for number in NOT_COPIED):
            return False
        if any(Meta.INDEX_PAGE_OFFSET in one[Chunk.META_DATA].value for one in chunks):
            return False
        end = len(MAGIC)
        for start, length in sorted(extent(one) for one in chunks):
            if start < end or length < 0:
                return False
            end = start + length
        return end <= size and all(isinstance(group.rows, int) for group in self.groups)

    def most_values(self, column: str) -> int:
        """The most values that a column has in a row group, those of its lists counted each; its rows if there is no
        such column."""
        first = column.encode()
        most = max((group.rows for group in self.groups), default=0)
        for group in self.groups:
            for one in group.columns:
                meta = one[Chunk.META_DATA].value
                if meta[Meta.PATH_IN_SCHEMA].value.items[0] == first:
                    most = max(most, meta[Meta.NUM_VALUES].value)
        return most


def extent(chunk: Struct) -> tuple[int, int]:
    """Where a chunk starts, and how many bytes it takes."""
    meta = chunk[Chunk.META_DATA].value
    start = meta[Meta.DATA_PAGE_OFFSET].value
    dictionary = meta.get(Meta.DICTIONARY_PAGE_OFFSET)
    if dictionary is not None and 0 < dictionary.value < start:
        start = dictionary.value
    return start, meta[Meta.TOTAL_COMPRESSED_SIZE].value


def moved(chunk: Struct, start: int) -> Struct:
    """The same chunk where it starts elsewhere, without what lies outside of it."""
    delta = start - extent(chunk)[0]
    meta = dict(chunk[Chunk.META_DATA].value)
    for number in (Meta.DATA_PAGE_OFFSET, Meta.DICTIONARY_PAGE_OFFSET):
        if number in meta and meta[number].value > 0:
            meta[number] = Field(Type.I64, meta[number].value + delta)
    for number in (Meta.BLOOM_FILTER_OFFSET, Meta.BLOOM_FILTER_LENGTH):
        meta.pop(number, None)
    out = {number: one for number, one in chunk.items() if number not in OUTSIDE}
    if out[Chunk.FILE_OFFSET].value > 0:
        out[Chunk.FILE_OFFSET] = Field(Type.I64, out[Chunk.FILE_OFFSET].value + delta)
    out[Chunk.META_DATA] = Field(Type.STRUCT, meta)
    return out


def widened(stored: StoredTable, whole: StoredTable) -> Struct:
    """The footer of a table, without its row groups, when the last columns of `whole` come to its own.

    ValueError if the tables do not have the other columns in common.
    """
    footer = dict(stored.footer)
    elements, others = stored.schema, whole.schema
    own = elements[0][Element.NUM_CHILDREN].value
    at = 1
    for _ in range(own):
        at = end_of_element(others, at)
    added = others[at:]
    leaves = sum(Element.NUM_CHILDREN not in one for one in added)
    if not added or end_of_element(others, 0) != len(others) or end_of_element(elements, 0) != len(elements):
        raise ValueError("the schemas do not belong together")
    root = {**elements[0], Element.NUM_CHILDREN: others[0][Element.NUM_CHILDREN]}
    footer[File.SCHEMA] = Field(Type.LIST, Items(Type.STRUCT, [root, *elements[1:], *added]))
    footer[File.VERSION] = max(footer[File.VERSION], whole.footer[File.VERSION])
    kept = [one for one in _metadata(stored) if one[KeyValue.KEY].value != ARROW_SCHEMA]
    renewed = [one for one in _metadata(whole) if one[KeyValue.KEY].value == ARROW_SCHEMA]
    footer[File.KEY_VALUE_METADATA] = Field(Type.LIST, Items(Type.STRUCT, kept + renewed))
    if File.COLUMN_ORDERS in footer:
        orders = footer[File.COLUMN_ORDERS].value.items + whole.footer[File.COLUMN_ORDERS].value.items[-leaves:]
        footer[File.COLUMN_ORDERS] = Field(Type.LIST, Items(Type.STRUCT, orders))
    return footer


def end_of_element(elements: list[Struct], at: int) -> int:
    """Where the element of a schema ends that starts here, with all below it. ValueError."""
    waiting = 1
    while waiting:
        if at >= len(elements):
            raise ValueError("a schema of Parquet ends in the middle")
        children = elements[at].get(Element.NUM_CHILDREN)
        waiting += (children.value if children is not None else 0) - 1
        at += 1
    return at


def _metadata(table: StoredTable) -> list[Struct]:
    found = table.footer.get(File.KEY_VALUE_METADATA)
    return list(found.value.items) if found is not None else []


class JoinedFile:
    """A Parquet file that is written row group by row group, never backwards. `footer` is that of the whole table."""

    def __init__(self, file: BinaryIO, footer: Struct) -> None:
        self._file, self._footer = file, footer
        self._groups: list[bytes] = []
        self._rows = 0
        file.write(MAGIC)
        self._at = len(MAGIC)

    def add(self, *parts: Stored) -> None:
        """A row group of the columns of all parts. BrokenGroup for parts that have not the same rows or end early."""
        if len({part.rows for part in parts}) > 1:
            raise BrokenGroup("a row group has other rows than its footer says")
        group = dict(parts[0].group)
        began = self._at
        columns = [moved(one, self._copied(part, *extent(one))) for part in parts for one in part.columns]
        group[Group.COLUMNS] = Field(Type.LIST, Items(Type.STRUCT, columns))
        group[Group.TOTAL_BYTE_SIZE] = Field(Type.I64, sum(part.group[Group.TOTAL_BYTE_SIZE].value for part in parts))
        group[Group.TOTAL_COMPRESSED_SIZE] = Field(Type.I64, self._at - began)
        group[Group.FILE_OFFSET] = Field(Type.I64, began)
        group.pop(Group.ORDINAL, None)
        if len(self._groups) <= MOST_ORDINAL:
            group[Group.ORDINAL] = Field(Type.I16, len(self._groups))
        self._groups.append(written(group))
        self._rows += parts[0].rows

    def _copied(self, part: Stored, start: int, size: int) -> int:
        """Where these bytes of a part are now."""
        at = self._at
        for block in _blocks(part.read, start, size):
            self._file.write(block)
            self._at += len(block)
        return at

    def close(self) -> None:
        """Write the footer. The file stays open."""
        footer: dict[int, Any] = dict(self._footer)
        footer[File.NUM_ROWS] = Field(Type.I64, self._rows)
        footer[File.ROW_GROUPS] = Field(Type.LIST, Items(Type.STRUCT, list(self._groups)))
        data = written(footer)
        self._file.write(data + len(data).to_bytes(LENGTH_SIZE, "little") + MAGIC)


def _blocks(read: Callable[[int, int], bytes | memoryview], start: int, size: int) -> Iterator[bytes | memoryview]:
    end = start + size
    while start < end:
        block = read(start, min(BLOCK, end - start))
        if not block:
            raise BrokenGroup("the file ends before its row groups do")
        yield block
        start += len(block)
