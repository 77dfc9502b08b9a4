"""Check CSV and JSON lines before pyarrow parses them: the number of columns and the depth.

pyarrow makes a builder for each column, with a slot for each row of a block, and recurses for each level of nested
JSON. A few bytes can demand many of both.
"""

from __future__ import annotations

import csv
import io
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

from whence.columns.arrow import pa
from whence.columns.checks import MAX_COLUMNS, broken, check_schema

BLOCK = 1 << 22  # bytes parsed at a time; the limit of a line
MAX_DEPTH = 64  # of nested objects and lists
CELLS_TIMES, CELLS_ALLOWANCE = 64, 1 << 22  # limit of rows times distinct keys of a block
STRING = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
KEY = re.compile(rb'("(?:[^"\\]|\\.)*")[ \t]*:', re.DOTALL)
BRACKETS = b"[]{}"
NOT_BRACKETS = bytes(set(range(256)) - set(BRACKETS))


def check_csv_header(head: bytes) -> None:
    """Raise BrokenTable if the first line of a CSV file is malformed or has too many columns."""
    text = head.lstrip(b"\r\n")
    if text.count(b",") < MAX_COLUMNS:
        return
    try:
        names = next(csv.reader(io.StringIO(text.decode("latin-1"))), [])
    except csv.Error as error:
        raise broken(f"damaged csv: the header: {error}") from None
    if len(names) > MAX_COLUMNS:
        raise broken(f"the table has {len(names):,} columns, more than {MAX_COLUMNS:,}")


def check_json(block: bytes) -> None:
    """Raise BrokenTable for lines that are nested too deeply or have too many distinct keys."""
    brackets = STRING.sub(b"", block).translate(None, NOT_BRACKETS)
    for _ in range(MAX_DEPTH):
        if not brackets:
            break
        brackets = brackets.replace(b"[]", b"").replace(b"{}", b"")
    else:
        raise broken(f"damaged json: objects and lists are not closed, or nested more than {MAX_DEPTH} deep")
    keys = len(set(KEY.findall(block)))
    rows = block.count(b"\n") + 1
    if keys > MAX_COLUMNS or keys * rows > CELLS_TIMES * len(block) + CELLS_ALLOWANCE:
        raise broken(f"damaged json: {rows:,} lines have {keys:,} distinct keys, too many for their size")


def json_blocks(file: BinaryIO) -> Iterator[bytes]:
    """Yield complete lines, about a block at a time. Raises BrokenTable for a line longer than a block."""
    rest = b""
    while part := file.read(BLOCK):
        data = rest + part
        end = data.rfind(b"\n") + 1
        rest = data[end:]
        if end:
            yield data[:end]
        if len(rest) > BLOCK:
            raise broken(f"damaged json: a line has more than {BLOCK:,} bytes")
    if rest.strip():
        yield rest


def read_json(file: BinaryIO, address: str) -> tuple[Any, Iterator[Any]]:
    """Return the schema of the first block, and an iterator of all batches. Raises BrokenTable and pyarrow's errors."""
    blocks = (block for block in json_blocks(file) if block.strip())
    block = next(blocks, b"{}\n")
    first = _parsed(block, None)
    check_schema(first.schema)
    schema = _unsigned(first.schema, address)
    if schema is not None:
        first = _parsed(block, schema)

    def batches() -> Iterator[Any]:
        yield from first.to_batches()
        for block in blocks:
            yield from _parsed(block, first.schema).to_batches()

    return first.schema, batches()


def _parsed(block: bytes, schema: Any) -> Any:
    """Parse lines as a table; they must fit the schema if one is given."""
    from pyarrow import json

    check_json(block)
    return json.read_json(
        io.BytesIO(block),
        read_options=json.ReadOptions(block_size=2 * len(block) + 1),
        parse_options=json.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "error"
        ),
    )


def _unsigned(schema: Any, address: str) -> Any:
    """Return a schema with unsigned addresses if pyarrow inferred floating-point numbers, else None.

    pyarrow does so for numbers >= 2^63, such as addresses of a kernel.
    """
    number = schema.get_field_index(address)
    if number < 0:
        return None
    type = schema.field(number).type
    if pa.types.is_float64(type):
        return schema.set(number, pa.field(address, pa.uint64()))
    if pa.types.is_list(type) and pa.types.is_float64(type.value_type):
        return schema.set(number, pa.field(address, pa.list_(pa.uint64())))
    return None
