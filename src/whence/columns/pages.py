"""Headers of Parquet's pages: what a row group decodes to, before it is decoded.

pyarrow decodes a page whole, and rows as many as it is asked for, whatever few bytes they are stored in. The headers
of pages say both: how large a page is when decompressed, and how many values it has. A footer may say something else.

Document: README.md, Encodings.md and src/main/thrift/parquet.thrift of apache/parquet-format; of Apache Thrift
doc/specs/thrift-compact-protocol.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from whence.columns.checks import broken

MOST_ROWS = 1 << 20  # of a batch
BATCH_BYTES = 1 << 26  # of a batch, dictionaries apart
PREFIXED_BYTES = 1 << 26  # of a batch with texts that may repeat the text before, at most
GROUP_TIMES, GROUP_ALLOWANCE = 1024, 1 << 28  # what a row group may need beside its rows
HEAD, MOST_HEAD = 1 << 13, 1 << 24  # bytes of a page's header
INDEX_SIZE = 4  # bytes of a row's place in a dictionary
OFFSET_SIZE = 12  # bytes of a text beside its own

# Thrift's compact protocol
STOP, TRUE, FALSE, I8, I16, I32, I64, DOUBLE, BINARY, LIST, SET, MAP, STRUCT, UUID = range(14)
FIXED_SIZES = {I8: 1, DOUBLE: 8, UUID: 16}
MOST_DEPTH = 16
LONG_LIST = 15
MORE = 0x80  # in a byte of a varint: another one follows
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


class Page(NamedTuple):
    """What a page's header says."""

    kind: int
    size: int  # decompressed
    values: int
    encoding: int


class Chunk(NamedTuple):
    """What the footer says of a column's part of a row group."""

    encodings: frozenset[int]
    values: int
    size: int  # of its pages as stored
    data_offset: int
    dictionary_offset: int  # 0: none


class Group(NamedTuple):
    """What the footer says of a row group."""

    rows: int
    chunks: list[Chunk]


class Column(NamedTuple):
    """A leaf of the schema."""

    path: str
    width: int  # bytes of a value; 0 for texts
    is_list: bool
    by_dictionary: bool  # texts are read as dictionaries


class Need(NamedTuple):
    """What decoding a row group takes: bytes of a row, bytes beside the rows, and the most rows at once."""

    row: int
    fixed: int
    rows: int


Read = Callable[[int, int], bytes]  # (offset, size): at most so many bytes
Fields = dict[tuple[int, int], Any]  # of a struct, by number and type


def groups_of(read: Read, size: int) -> list[Group]:
    """Return the row groups of a file of `size` bytes. Raises BrokenTable.

    pyarrow's own objects for what a footer says end the process (std::terminate) where it is damaged.
    """
    ending = read(max(size - FOOTER_END, 0), FOOTER_END)
    length = int.from_bytes(ending[:4], "little")
    if len(ending) < FOOTER_END or length + FOOTER_END > size:
        raise broken("damaged parquet: the file ends before its footer does")
    data = read(size - FOOTER_END - length, length)
    found: list[Group] = []
    try:
        struct_at(data, 0, 0, {ROW_GROUPS: lambda fields: found.append(group_of(fields))})
    except (IndexError, KeyError, TypeError):
        raise broken("damaged parquet: the footer is malformed") from None
    return found


def group_of(fields: Fields) -> Group:
    """Return what a RowGroup's fields say. Raises KeyError, TypeError."""
    chunks = []
    for chunk in fields[CHUNKS]:
        one = chunk[CHUNK_METADATA]
        encodings = frozenset(map(int, one[ENCODINGS]))
        chunks.append(
            Chunk(encodings, one[CHUNK_VALUES], one[CHUNK_SIZE], one[DATA_OFFSET], one.get(DICTIONARY_OFFSET, 0))
        )
    return Group(fields[ROWS], chunks)


def need_of(group: Group, columns: list[Column], read: Read, size: int) -> Need:
    """Return what decoding a row group takes. `size` is the file's. Raises BrokenTable."""
    per_row = stored = fixed = 0
    most = MOST_ROWS
    if len(group.chunks) != len(columns) or group.rows < 0:
        raise broken("damaged parquet: a row group does not fit the schema")
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
                most = min(most, max(PREFIXED_BYTES // prefixed, 1))
    limit = GROUP_TIMES * stored + GROUP_ALLOWANCE
    if fixed > limit:
        raise broken(
            f"a row group of {stored:,} bytes decodes to more than {limit:,}: "
            "write smaller row groups, or texts without DELTA_BYTE_ARRAY"
        )
    return Need(per_row, fixed, max(min(most, BATCH_BYTES // max(per_row, 1)), 1))


def pages_of(chunk: Chunk, read: Read, size: int, path: str) -> Iterator[Page]:
    """Yield the pages of a column's chunk as pyarrow walks them. Raises BrokenTable for what lies about its size."""
    start = chunk.data_offset
    if chunk.values <= 0:
        return
    if 0 < chunk.dictionary_offset < start:
        start = chunk.dictionary_offset
    end = start + chunk.size
    if not 0 < start <= end <= size:
        raise broken(f"damaged parquet: column {path!r}: its pages extend past the end of the file")
    seen = 0
    while seen < chunk.values and start < end:
        try:
            fields, length = header_at(read, start, end)
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


def page_of(fields: Fields) -> Page:
    """Return what a page's header says. Raises KeyError, TypeError."""
    kind = fields[PAGE_TYPE]
    if kind not in INNER:  # an index, or a kind of tomorrow: skipped by pyarrow
        return Page(kind, fields[UNCOMPRESSED], 0, 0)
    inner = fields[INNER[kind]]
    return Page(kind, fields[UNCOMPRESSED], inner[VALUES], inner[ENCODING[kind]])


def header_at(read: Read, start: int, end: int) -> tuple[Fields, int]:
    """Return the fields of the header at an offset, and its length. Raises IndexError."""
    size = HEAD
    while True:
        data = read(start, min(size, end - start))
        try:
            return struct_at(data, 0, 0)
        except IndexError:
            if size >= min(MOST_HEAD, end - start):
                raise
            size *= 8


def struct_at(
    data: bytes, at: int, depth: int, taken: dict[tuple[int, int], Callable[[Fields], object]] | None = None
) -> tuple[Fields, int]:
    """Return the integers, structs and lists among the fields of a struct, and its end. Raises IndexError.

    The structs of lists in `taken` are passed to its functions one by one in place of that.
    """
    fields: Fields = {}
    number = 0
    while head := data[at]:
        at += 1
        type = head & 15
        if head >> 4:
            number += head >> 4
        else:
            number, at = integer_at(data, at)
        take = taken.get((number, type)) if taken else None
        if take is None:
            fields[number, type], at = value_at(data, at, type, depth)
            continue
        count, item, at = list_head_at(data, at)
        if item != STRUCT:
            raise IndexError
        for _ in range(count):
            value, at = struct_at(data, at, depth + 1)
            take(value)
    return fields, at + 1


def list_head_at(data: bytes, at: int) -> tuple[int, int, int]:
    """Return the count and type of a list's items, and the offset of the first. Raises IndexError."""
    head = data[at]
    size, at = unsigned_at(data, at + 1) if head >> 4 == LONG_LIST else (head >> 4, at + 1)
    return size, head & 15, at


def value_at(data: bytes, at: int, type: int, depth: int, *, is_item: bool = False) -> tuple[Any, int]:
    if depth > MOST_DEPTH:
        raise IndexError
    if type in (TRUE, FALSE):
        return None, at + is_item
    if type in (I16, I32, I64):
        return integer_at(data, at)
    if type in FIXED_SIZES:
        return None, at + FIXED_SIZES[type]
    if type == BINARY:
        size, at = unsigned_at(data, at)
        return None, at + size
    if type == STRUCT:
        return struct_at(data, at, depth + 1)
    if type in (LIST, SET):
        size, item, at = list_head_at(data, at)
        types: tuple[int, ...] = (item,)
    elif type == MAP:
        size, at = unsigned_at(data, at)
        types = (data[at] >> 4, data[at] & 15) if size else ()
        at += bool(size)
    else:
        raise IndexError
    items = []
    for _ in range(size):
        for one in types:
            value, at = value_at(data, at, one, depth + 1, is_item=True)
            if at > len(data):
                raise IndexError
            items.append(value)
    return items, at


def unsigned_at(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        number |= (byte & ~MORE) << shift
        if not byte & MORE:
            return number, at
        shift += 7
    raise IndexError


def integer_at(data: bytes, at: int) -> tuple[int, int]:
    number, at = unsigned_at(data, at)
    return number >> 1 ^ -(number & 1), at
