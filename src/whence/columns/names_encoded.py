"""Columns of names encoded for Parquet: for each a chunk of pages of one row group, as row_groups.py joins them.

    chunk             dictionary page │ data page │ data page ...       a data page for each batch
    page              PageHeader (Thrift) │ its bytes, compressed

pyarrow could write these columns, too, but takes more than twice as long: names come as numbers of texts, and stay
numbers here (kernels/pages.py).

Document: README.md and src/main/thrift/parquet.thrift of apache/parquet-format.
"""

from __future__ import annotations

import enum
from collections.abc import Collection, Iterator
from typing import NamedTuple

from whence.columns.kernels.batch import RecordBatch
from whence.columns.kernels.pages import ColumnPages
from whence.columns.row_groups import MAGIC, Chunk, Element, Group, Meta, Stored, StoredTable, end_of_element
from whence.columns.thrift import Field, Items, Struct, Type, written
from whence.errors import WrongUse

LARGEST_PAGE = (1 << 31) - 1  # bytes: PageHeader has 32 bits for them


class PhysicalType(enum.IntEnum):
    """Parquet's Type, of what columns of names have."""

    BOOLEAN = 0
    INT32 = 1
    BYTE_ARRAY = 6


class Encoding(enum.IntEnum):
    PLAIN = 0
    RLE = 3
    RLE_DICTIONARY = 8


class Codec(enum.IntEnum):
    """CompressionCodec: the names are pyarrow's words for them."""

    SNAPPY = 1
    GZIP = 2
    ZSTD = 6


class PageType(enum.IntEnum):
    DATA = 0
    DICTIONARY = 2


class Page(enum.IntEnum):
    """Fields of PageHeader."""

    TYPE = 1
    UNCOMPRESSED_SIZE = 2
    COMPRESSED_SIZE = 3
    DATA = 5
    DICTIONARY = 7


class DataPage(enum.IntEnum):
    """Fields of DataPageHeader; the first two are DictionaryPageHeader's, too."""

    NUM_VALUES = 1
    ENCODING = 2
    DEFINITION_LEVELS = 3
    REPETITION_LEVELS = 4


class NameColumn(NamedTuple):
    """A column of names: which of a batch's columns, which field of the structs in its lists (0 for others), and what
    Parquet's schema says of it."""

    column: int
    field: int
    path: tuple[bytes, ...]
    type: PhysicalType

    @property
    def codec(self) -> Codec:
        """zstd for texts; numbers hardly shrink."""
        return Codec.ZSTD if self.type is PhysicalType.BYTE_ARRAY else Codec.SNAPPY


def columns_of(table: StoredTable, added: Collection[str]) -> list[NameColumn]:
    """The columns of names of a table's schema."""
    elements = table.schema
    found = []
    at, column = 1, 0
    while at < len(elements):
        end = end_of_element(elements, at)
        if elements[at][Element.NAME].value.decode() in added:
            for field, (path, type) in enumerate(_leaves(elements[at:end])):
                found.append(NameColumn(column, field, path, PhysicalType(type)))
            column += 1
        at = end
    return found


def _leaves(elements: list[Struct]) -> Iterator[tuple[tuple[bytes, ...], int]]:
    """The path and the type of each column below the first element of a schema."""
    path: list[tuple[bytes, int]] = []  # names, and how many children are still to come
    for one in elements:
        children = one.get(Element.NUM_CHILDREN)
        path.append((one[Element.NAME].value, children.value if children is not None else 0))
        if children is None:
            yield tuple(name for name, _ in path), one[Element.TYPE].value
        while path and not path[-1][1]:
            path.pop()
            if path:
                path[-1] = path[-1][0], path[-1][1] - 1


def encoded(columns: list[NameColumn], batches: list[RecordBatch]) -> Stored:
    """A row group of these columns of the batches."""
    batches = [one for one in batches if len(one)]  # readers stop at a page without values
    data = bytearray(MAGIC)  # no chunk may begin where a file does
    chunks = [_chunk(data, column, batches) for column in columns]
    metas = [one[Chunk.META_DATA].value for one in chunks]
    group: Struct = {
        Group.COLUMNS: Field(Type.LIST, Items(Type.STRUCT, chunks)),
        Group.TOTAL_BYTE_SIZE: Field(Type.I64, sum(one[Meta.TOTAL_UNCOMPRESSED_SIZE].value for one in metas)),
        Group.NUM_ROWS: Field(Type.I64, sum(map(len, batches))),
    }
    view = memoryview(data)
    return Stored(group, lambda start, size: view[start : start + size])


def _chunk(data: bytearray, column: NameColumn, batches: list[RecordBatch]) -> Struct:
    """Append the pages of a column; its ColumnChunk."""
    pages = ColumnPages()
    made = [pages.add(batch, column.column, column.field) for batch in batches]
    is_plain = column.type is PhysicalType.BOOLEAN
    values = Encoding.PLAIN if is_plain else Encoding.RLE_DICTIONARY
    start = len(data)
    plain_size = 0 if is_plain else _add_page(data, pages.dictionary(), len(pages), column.codec, None)
    data_start = len(data)
    for page, levels in made:
        plain_size += _add_page(data, page, levels, column.codec, values)
    meta = {
        Meta.TYPE: Field(Type.I32, column.type),
        Meta.ENCODINGS: Field(Type.LIST, Items(Type.I32, sorted({Encoding.PLAIN, Encoding.RLE, values}))),
        Meta.PATH_IN_SCHEMA: Field(Type.LIST, Items(Type.BINARY, list(column.path))),
        Meta.CODEC: Field(Type.I32, column.codec),
        Meta.NUM_VALUES: Field(Type.I64, sum(levels for _, levels in made)),
        Meta.TOTAL_UNCOMPRESSED_SIZE: Field(Type.I64, plain_size),
        Meta.TOTAL_COMPRESSED_SIZE: Field(Type.I64, len(data) - start),
        Meta.DATA_PAGE_OFFSET: Field(Type.I64, data_start),
    }
    if not is_plain:
        meta[Meta.DICTIONARY_PAGE_OFFSET] = Field(Type.I64, start)
    return {Chunk.FILE_OFFSET: Field(Type.I64, 0), Chunk.META_DATA: Field(Type.STRUCT, meta)}


def _add_page(data: bytearray, page: bytes, values: int, codec: Codec, encoding: Encoding | None) -> int:
    """Append a page, a dictionary's without `encoding`; its bytes before compression, with the header's. WrongUse."""
    import pyarrow

    if len(page) > LARGEST_PAGE:
        raise WrongUse("the names of a row group take more than 2 GiB: give a table with smaller row groups")
    stored = pyarrow.compress(page, codec.name.lower())
    about: Struct = {
        DataPage.NUM_VALUES: Field(Type.I32, values),
        DataPage.ENCODING: Field(Type.I32, Encoding.PLAIN if encoding is None else encoding),
    }
    if encoding is not None:
        about[DataPage.DEFINITION_LEVELS] = about[DataPage.REPETITION_LEVELS] = Field(Type.I32, Encoding.RLE)
    header = written(
        {
            Page.TYPE: Field(Type.I32, PageType.DICTIONARY if encoding is None else PageType.DATA),
            Page.UNCOMPRESSED_SIZE: Field(Type.I32, len(page)),
            Page.COMPRESSED_SIZE: Field(Type.I32, stored.size),
            Page.DICTIONARY if encoding is None else Page.DATA: Field(Type.STRUCT, about),
        }
    )
    data += header
    data += stored
    return len(header) + len(page)
