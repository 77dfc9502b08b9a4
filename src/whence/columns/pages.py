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
# Fields of PageHeader and of the headers in it
PAGE_TYPE, UNCOMPRESSED, COMPRESSED = 1, 2, 3
DATA_PAGE, INDEX_PAGE, DICTIONARY_PAGE, DATA_PAGE_V2 = range(4)
INNER = {DATA_PAGE: 5, DICTIONARY_PAGE: 7, DATA_PAGE_V2: 8}
VALUES = 1
ENCODING = {DATA_PAGE: 2, DICTIONARY_PAGE: 2, DATA_PAGE_V2: 4}
BY_DICTIONARY = (2, 8)  # PLAIN_DICTIONARY, RLE_DICTIONARY
DELTA_BYTE_ARRAY = 7
WIDTHS = {"BOOLEAN": 1, "INT32": 4, "INT64": 8, "INT96": 12, "FLOAT": 4, "DOUBLE": 8}


class Page(NamedTuple):
    """What a page's header says."""

    kind: int
    size: int  # decompressed
    values: int
    encoding: int


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


Read = Callable[[int, int], bytes]  # at most so many bytes, from an offset on


def need_of(group: Any, columns: list[Column], read: Read, size: int) -> Need:
    """Return what decoding a row group of pyarrow's metadata takes. `size` is the file's. Raises BrokenTable."""
    rows = group.num_rows
    per_row = stored = fixed = 0
    most = MOST_ROWS
    if group.num_columns != len(columns) or rows < 0:
        raise broken("damaged parquet: a row group does not fit the schema")
    for number, column in enumerate(columns):
        chunk = group.column(number)
        stored += max(chunk.total_compressed_size, 0)
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


def pages_of(chunk: Any, read: Read, size: int, path: str) -> Iterator[Page]:
    """Yield the pages of a column's chunk as pyarrow walks them. Raises BrokenTable for what lies about its size."""
    start, end = chunk.data_page_offset, chunk.total_compressed_size
    if chunk.num_values <= 0:
        return
    if chunk.dictionary_page_offset is not None and 0 < chunk.dictionary_page_offset < start:
        start = chunk.dictionary_page_offset
    end += start
    if not 0 < start <= end <= size:
        raise broken(f"damaged parquet: column {path!r}: its pages extend past the end of the file")
    seen = 0
    while seen < chunk.num_values and start < end:
        try:
            fields, length = header_at(read, start, end)
            page = page_of(fields)
            compressed = int(fields[COMPRESSED])
        except (IndexError, KeyError, TypeError):
            raise broken(f"damaged parquet: column {path!r}: a page's header at {start} is malformed") from None
        start += length + compressed
        if compressed < 0 or page.size < 0 or page.values < 0 or start > end:
            raise broken(f"damaged parquet: column {path!r}: a page extends past the end of its column")
        if page.kind in (DATA_PAGE, DATA_PAGE_V2):
            seen += page.values
        yield page


def page_of(fields: dict[int, Any]) -> Page:
    """Return what a page's header says. Raises KeyError, TypeError."""
    kind = fields[PAGE_TYPE]
    if kind not in INNER:  # an index, or a kind of tomorrow: skipped by pyarrow
        return Page(kind, int(fields[UNCOMPRESSED]), 0, 0)
    inner = fields[INNER[kind]]
    return Page(kind, int(fields[UNCOMPRESSED]), int(inner[VALUES]), int(inner[ENCODING[kind]]))


def header_at(read: Read, start: int, end: int) -> tuple[dict[int, Any], int]:
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


def struct_at(data: bytes, at: int, depth: int) -> tuple[dict[int, Any], int]:
    """Return the integers and structs among the fields of a struct, and its end. Raises IndexError."""
    fields: dict[int, Any] = {}
    number = 0
    while head := data[at]:
        at += 1
        if head >> 4:
            number += head >> 4
        else:
            number, at = integer_at(data, at)
        fields[number], at = value_at(data, at, head & 15, depth)
    return fields, at + 1


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
        head = data[at]
        size, at = unsigned_at(data, at + 1) if head >> 4 == LONG_LIST else (head >> 4, at + 1)
        types = (head & 15,)
    elif type == MAP:
        size, at = unsigned_at(data, at)
        types = (data[at] >> 4, data[at] & 15) if size else ()
        at += bool(size)
    else:
        raise IndexError
    for _ in range(size):
        for one in types:
            _, at = value_at(data, at, one, depth + 1, is_item=True)
            if at > len(data):
                raise IndexError
    return None, at


def unsigned_at(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while shift < 70:
        byte = data[at]
        at += 1
        number |= (byte & 0x7F) << shift
        if byte < 0x80:
            return number, at
        shift += 7
    raise IndexError


def integer_at(data: bytes, at: int) -> tuple[int, int]:
    number, at = unsigned_at(data, at)
    return number >> 1 ^ -(number & 1), at
