"""Read the headers of Parquet's pages, to bound what a row group decodes to before pyarrow decodes it.

pyarrow decodes a complete page, and all requested rows, even if a few bytes represent many values. The header of a page
has its decompressed size and its number of values. The footer may disagree with the headers, which pyarrow follows.

Document: README.md, Encodings.md and src/main/thrift/parquet.thrift of apache/parquet-format; of Apache Thrift
doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from whence._base.window import uleb
from whence.columns.checks import broken

MAX_ROWS = 1 << 20  # of a batch
BATCH_BYTES = 1 << 26  # of a batch, without dictionaries
PREFIXED_BYTES = 1 << 26  # of a batch with texts that may repeat the previous text
GROUP_TIMES, GROUP_ALLOWANCE = 1024, 1 << 28  # limit of the memory of a row group in addition to its rows
FIRST_READ, MAX_HEADER = 1 << 13, 1 << 24  # bytes of a page's header: read first, and the limit
INDEX_SIZE = 4  # bytes of a row's index in a dictionary
OFFSET_SIZE = 12  # bytes of a text in addition to its characters

# Thrift's compact protocol
STOP, TRUE, FALSE, I8, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(14)
FIXED_SIZES = {I8: 1, DOUBLE: 8, UUID: 16}
MAX_DEPTH = 16
LONG_LIST = 15
# Fields, by number and type: one of another type counts as absent, as in Thrift
ROW_GROUPS = 4, LIST
CHUNKS, ROWS = (1, LIST), (3, I64)
CHUNK_METADATA = 3, STRUCT
ENCODINGS, CHUNK_VALUES, CHUNK_SIZE = (2, LIST), (5, I64), (7, I64)
DATA_OFFSET, DICTIONARY_OFFSET = (9, I64), (11, I64)
PAGE_TYPE, UNCOMPRESSED, COMPRESSED = (1, I32), (2, I32), (3, I32)
DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = range(4)
INNER = {DATA_PAGE: (5, STRUCT), DICTIONARY_PAGE: (7, STRUCT), DATA_PAGE_V2: (8, STRUCT)}
VALUES = 1, I32
ENCODING = {DATA_PAGE: (2, I32), DICTIONARY_PAGE: (2, I32), DATA_PAGE_V2: (4, I32)}
BY_DICTIONARY = (2, 8)  # PLAIN_DICTIONARY, RLE_DICTIONARY
DELTA_LENGTH_BYTE_ARRAY, DELTA_BYTE_ARRAY = 6, 7
FOOTER_END = 8  # bytes after the footer: its length, and the magic
WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}


class PageHeader(NamedTuple):
    """The fields of a page's header that are used."""

    kind: int
    size: int  # bytes, decompressed
    values: int
    encoding: int


class ColumnChunk(NamedTuple):
    """A column's part of a row group, from the footer."""

    encodings: frozenset[int]
    values: int
    size: int  # stored bytes of its pages
    data_offset: int
    dictionary_offset: int  # 0: none


class RowGroup(NamedTuple):
    """A row group, from the footer."""

    rows: int
    chunks: list[ColumnChunk]


class LeafColumn(NamedTuple):
    """A leaf of the schema."""

    path: str
    width: int  # bytes of a value; 0 for texts
    is_list: bool
    by_dictionary: bool  # texts are read as dictionaries


class DecodedSize(NamedTuple):
    """The memory to decode a row group, in bytes, and how many rows to decode at a time."""

    row: int  # of each row
    fixed: int  # in addition to the rows
    rows: int  # to decode at a time


Read = Callable[[int, int], bytes]  # (offset, size): at most `size` bytes
Fields = dict[tuple[int, int], Any]  # of a struct, by number and type


def groups_of(read: Read, size: int) -> list[RowGroup]:
    """Return the row groups of a file of `size` bytes. Raises BrokenTable.

    pyarrow's own objects for the footer abort the process (std::terminate) if it is damaged.
    """
    ending = read(max(size - FOOTER_END, 0), FOOTER_END)
    length = int.from_bytes(ending[:4], "little")
    if len(ending) < FOOTER_END or length + FOOTER_END > size:
        raise broken("damaged parquet: the file ends before its footer does")
    data = read(size - FOOTER_END - length, length)
    groups: list[RowGroup] = []
    try:
        read_struct(data, 0, 0, {ROW_GROUPS: lambda fields: groups.append(group_of(fields))})
    except (IndexError, KeyError, TypeError):
        raise broken("damaged parquet: the footer is malformed") from None
    return groups


def group_of(fields: Fields) -> RowGroup:
    """Make a RowGroup from Thrift fields. Raises KeyError, TypeError."""
    chunks = []
    for chunk in fields[CHUNKS]:
        data = chunk[CHUNK_METADATA]
        dictionary = data.get(DICTIONARY_OFFSET, 0)
        encodings = frozenset(map(int, data[ENCODINGS]))
        chunks.append(ColumnChunk(encodings, data[CHUNK_VALUES], data[CHUNK_SIZE], data[DATA_OFFSET], dictionary))
    return RowGroup(fields[ROWS], chunks)


def decoded_size(group: RowGroup, columns: list[LeafColumn], read: Read, size: int) -> DecodedSize:
    """Return the memory to decode a row group. `size` is the file's. Raises BrokenTable."""
    per_row = stored = fixed = 0
    max_rows = MAX_ROWS
    if len(group.chunks) != len(columns) or group.rows < 0:
        raise broken("damaged parquet: a row group does not match the schema")
    for chunk, column in zip(group.chunks, columns, strict=True):
        stored += max(chunk.size, 0)
        count = dictionary = largest = plain = prefixed = 0
        for page in pages_of(chunk, read, size, column.path):
            largest = max(largest, page.size)
            if page.kind == DICTIONARY_PAGE:
                dictionary += page.size
                continue
            count += page.values
            if column.width == 0 and page.encoding not in BY_DICTIONARY:
                plain += page.size
            if page.encoding == DELTA_BYTE_ARRAY:
                prefixed = max(prefixed, page.size)
        width = column.width or OFFSET_SIZE
        if not column.width and dictionary and not column.by_dictionary:
            prefixed = max(prefixed, dictionary)  # a value may be as long as the dictionary
        fixed += 3 * dictionary + 2 * largest + plain
        if column.is_list:
            fixed += count * ((width if column.width else width + prefixed) + INDEX_SIZE)
        else:
            per_row += width
            if prefixed and not column.width:
                max_rows = min(max_rows, max(PREFIXED_BYTES // prefixed, 1))
    limit = GROUP_TIMES * stored + GROUP_ALLOWANCE
    if fixed > limit:
        raise broken(
            f"a row group of {stored:,} bytes decodes to more than {limit:,}: "
            "write smaller row groups, or texts without DELTA_BYTE_ARRAY"
        )
    return DecodedSize(per_row, fixed, max(min(max_rows, BATCH_BYTES // max(per_row, 1)), 1))


def pages_of(chunk: ColumnChunk, read: Read, size: int, path: str) -> Iterator[PageHeader]:
    """Yield the headers of a column's pages in the order in which pyarrow reads them. Raises BrokenTable."""
    start = chunk.data_offset
    if chunk.values <= 0:
        return
    if 0 < chunk.dictionary_offset < start:
        start = chunk.dictionary_offset
    end = start + chunk.size
    if not 0 < start <= end <= size:
        raise broken(f"damaged parquet: column {path!r}: the pages extend past the end of the file")
    seen = 0
    while seen < chunk.values and start < end:
        try:
            fields, length = read_header(read, start, end)
            page = page_of(fields)
            compressed = fields[COMPRESSED]
        except (IndexError, KeyError, TypeError):
            raise broken(f"damaged parquet: column {path!r}: a page's header at {start} is malformed") from None
        start += length + compressed
        if compressed < 0 or page.size < 0 or page.values < 0 or start > end:
            raise broken(f"damaged parquet: column {path!r}: a page extends past the end of its column")
        if page.kind in (DATA_PAGE, DATA_PAGE_V2):
            seen += page.values
        yield page


def page_of(fields: Fields) -> PageHeader:
    """Make a PageHeader from Thrift fields. Raises KeyError, TypeError."""
    kind = fields[PAGE_TYPE]
    if kind not in INNER:  # an index, or an unknown kind: pyarrow skips the page
        return PageHeader(kind, fields[UNCOMPRESSED], 0, 0)
    inner = fields[INNER[kind]]
    return PageHeader(kind, fields[UNCOMPRESSED], inner[VALUES], inner[ENCODING[kind]])


def read_header(read: Read, start: int, end: int) -> tuple[Fields, int]:
    """Return the fields of the header at an offset, and its length. Raises IndexError."""
    size = FIRST_READ
    while True:
        data = read(start, min(size, end - start))
        try:
            return read_struct(data, 0, 0)
        except IndexError:
            if size >= min(MAX_HEADER, end - start):
                raise
            size *= 8


def read_struct(
    data: bytes, offset: int, depth: int, handlers: dict[tuple[int, int], Callable[[Fields], object]] | None = None
) -> tuple[Fields, int]:
    """Return the integers, structs and lists among the fields of a struct, and its end. Raises IndexError.

    For lists of structs in `handlers`, each struct is passed to the function instead, so that not all are in memory.
    """
    fields: Fields = {}
    number = 0
    while head := data[offset]:
        offset += 1
        type = head & 15
        if head >> 4:
            number += head >> 4
        else:
            number, offset = read_zigzag(data, offset)
        handler = handlers.get((number, type)) if handlers else None
        if handler is None:
            fields[number, type], offset = read_value(data, offset, type, depth)
            continue
        count, item, offset = read_list_head(data, offset)
        if item != STRUCT:
            raise IndexError
        for _ in range(count):
            value, offset = read_struct(data, offset, depth + 1)
            handler(value)
    return fields, offset + 1


def read_list_head(data: bytes, offset: int) -> tuple[int, int, int]:
    """Return the count and type of a list's items, and the offset of the first. Raises IndexError."""
    head = data[offset]
    size, offset = read_varint(data, offset + 1) if head >> 4 == LONG_LIST else (head >> 4, offset + 1)
    return size, head & 15, offset


def read_value(data: bytes, offset: int, type: int, depth: int, *, is_item: bool = False) -> tuple[Any, int]:
    if depth > MAX_DEPTH:
        raise IndexError
    if type in (TRUE, FALSE):
        return None, offset + is_item
    if type in (I16, I32, I64):
        return read_zigzag(data, offset)
    if type in FIXED_SIZES:
        return None, offset + FIXED_SIZES[type]
    if type == BINARY:
        size, offset = read_varint(data, offset)
        return None, offset + size
    if type == STRUCT:
        return read_struct(data, offset, depth + 1)
    if type in (LIST, SET):
        size, item, offset = read_list_head(data, offset)
        types: tuple[int, ...] = (item,)
    elif type == MAP:
        size, offset = read_varint(data, offset)
        types = (data[offset] >> 4, data[offset] & 15) if size else ()
        offset += bool(size)
    else:
        raise IndexError
    items = []
    for _ in range(size):
        for item_type in types:
            value, offset = read_value(data, offset, item_type, depth + 1, is_item=True)
            if offset > len(data):
                raise IndexError
            items.append(value)
    return items, offset


def read_varint(data: bytes, offset: int) -> tuple[int, int]:
    """Return the varint at an offset, and its end. Raises IndexError."""
    try:
        return uleb(data, offset, len(data))
    except (EOFError, OverflowError):
        raise IndexError from None


def read_zigzag(data: bytes, offset: int) -> tuple[int, int]:
    number, offset = read_varint(data, offset)
    return number >> 1 ^ -(number & 1), offset
