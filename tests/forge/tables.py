"""Small tables in every format that `whence columns` reads, with columns of every type, as seeds of damaged ones."""

from __future__ import annotations

import datetime
import decimal
import io
from collections.abc import Iterable
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet

from tests.helpers.archives import INNER_VADDR, ONE, OTHER, OUTER_VADDR

ROWS = 5
TEXTS = ["a", None, "a text that is longer than a view", "é", ""]
BYTES = [b"\0", None, b"\xff" * 20, b"", b"abc"]
NUMBERS = [1, None, 3, -4, 5]
TIMES = [datetime.datetime(2024, 1, day) if day != 2 else None for day in range(1, 6)]
LISTS = [[1, 2], None, [], [3, None], [4]]

COLUMNS: dict[str, pa.Array] = {
    "null": pa.nulls(ROWS),
    "bool": pa.array([True, None, False, True, True]),
    **{str(type): pa.array(NUMBERS, type) for type in (pa.int8(), pa.int16(), pa.int32(), pa.int64())},
    **{str(type): pa.array([1, None, 3, 4, 5], type) for type in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())},
    **{str(type): pa.array([1.5, None, 3, -4, 5], type) for type in (pa.float32(), pa.float64())},
    "date32": pa.array(TIMES, pa.date32()),
    "date64": pa.array(TIMES, pa.date64()),
    "time32": pa.array([*NUMBERS[:3], 4, 5], pa.time32("s")),
    "time64": pa.array([*NUMBERS[:3], 4, 5], pa.time64("ns")),
    "timestamp": pa.array(TIMES, pa.timestamp("us")),
    "zoned": pa.array(TIMES, pa.timestamp("ns", "UTC")),
    "duration": pa.array(NUMBERS, pa.duration("ms")),
    "decimal": pa.array([decimal.Decimal("1.5"), None, *map(decimal.Decimal, (3, -4, 5))], pa.decimal128(20, 2)),
    "wide": pa.array([decimal.Decimal("1.5"), None, *map(decimal.Decimal, (3, -4, 5))], pa.decimal256(50, 2)),
    **{str(type): pa.array(TEXTS, type) for type in (pa.string(), pa.large_string(), pa.string_view())},
    **{str(type): pa.array(BYTES, type) for type in (pa.binary(), pa.large_binary(), pa.binary_view())},
    "fixed": pa.array([b"abcd", None, b"\xff" * 4, b"efgh", b"ijkl"], pa.binary(4)),
    "list": pa.array(LISTS, pa.list_(pa.int16())),
    "large_list": pa.array(LISTS, pa.large_list(pa.int64())),
    "fixed_list": pa.array([[1, 2], None, [3, None], [4, 5], [6, 7]], pa.list_(pa.int32(), 2)),
    "texts": pa.array([["a", "b"], None, [], ["é", None], ["c"]], pa.list_(pa.string())),
    "map": pa.array([[("k", 1)], None, [], [("l", None)], [("m", 2)]], pa.map_(pa.string(), pa.int32())),
    "struct": pa.array([{"a": 1, "b": "x"}, None, {"a": None, "b": "y"}, {"a": 2}, {"b": "z"}]),
    "deep": pa.array([[{"a": [["x"]]}], None, [], [{"a": None}], [{"a": [[], None]}]]),
    "dictionary": pa.array(TEXTS).dictionary_encode(),
    "bytes": pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 0, 2], pa.int8()), pa.array(BYTES[2:])),
    "numbers": pa.DictionaryArray.from_arrays(pa.array([0, None, 1, 0, 2], pa.uint16()), pa.array([7, 8, 9])),
    "choices": pa.ListArray.from_arrays([0, 1, 1, 2, 3, 5], pa.array(TEXTS).dictionary_encode()),
}
IN_PARQUET = [name for name in COLUMNS if name not in ("duration",)]


def table(names: Iterable[str], rows: int = ROWS, *, stacks: bool = False) -> pa.Table:
    """Return build-ids, addresses and the columns of these names."""
    ids = [ONE, OTHER, None, ONE, ONE][:rows]
    vaddrs = [INNER_VADDR, 0x40, OUTER_VADDR, None, 5][:rows]
    addresses: Any = pa.array(vaddrs, pa.uint64())
    if stacks:
        addresses = pa.array([[each, OUTER_VADDR] for each in vaddrs], pa.list_(pa.uint64()))
    given = {name: COLUMNS[name].slice(0, rows) for name in names}
    return pa.table({"build_id": ids, "address": addresses, **given})


def arrow_stream(given: pa.Table, **options: Any) -> bytes:
    """Return a table as Arrow IPC's stream, in batches of two rows."""
    out = io.BytesIO()
    with pa.ipc.new_stream(out, given.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(given, max_chunksize=2)
    return out.getvalue()


def arrow_file(given: pa.Table, **options: Any) -> bytes:
    """Return a table as Arrow IPC's file form."""
    out = io.BytesIO()
    with pa.ipc.new_file(out, given.schema, options=pa.ipc.IpcWriteOptions(**options)) as writer:
        writer.write_table(given)
    return out.getvalue()


def growing_dictionaries() -> bytes:
    """Return a stream whose later batches add to the dictionaries of earlier ones."""
    out, values = io.BytesIO(), ["first", "second", "third", ONE, OTHER]
    schema = table(()).schema.append(pa.field("grows", pa.dictionary(pa.int32(), pa.string())))
    options = pa.ipc.IpcWriteOptions(emit_dictionary_deltas=True)
    with pa.ipc.new_stream(out, schema, options=options) as writer:
        for count in (2, 4, 5):
            grows = pa.DictionaryArray.from_arrays(pa.array([0, None, count - 1], pa.int32()), pa.array(values[:count]))
            given = table((), 3)
            writer.write_table(pa.table([*given.columns, grows], schema=schema))
    return out.getvalue()


def parquet_file(given: pa.Table, **options: Any) -> bytes:
    """Return a table as Parquet, two rows in a group."""
    out = io.BytesIO()
    options = {"compression": "none", "row_group_size": 2, **options}
    pa.parquet.write_table(given, out, **options)
    return out.getvalue()


def csv_file(given: pa.Table) -> bytes:
    """Return a table as CSV."""
    out = io.BytesIO()
    pa.csv.write_csv(given, out)
    return out.getvalue()


JSON_LINES = (
    b'{"build_id": "%b", "address": 4097, "n": 1, "f": 1.5, "t": "x", "l": [1, 2], "s": {"a": [{"b": null}]}}\n'
    b'{"build_id": null, "address": 5, "n": null, "f": -0.5, "t": "\\u00e9\xc3\xa9", "l": [], "s": {"a": []}}\n'
    b'{"build_id": "%b", "address": 64, "n": 2, "f": 1e9, "t": "2024-01-01", "l": [3], "s": null}\n'
) % (ONE.encode(), OTHER.encode())
JSON_STACKS = b'{"build_id": "%b", "address": [4097, 4096, 5], "ok": true}\n' % ONE.encode() * 3


def seeds(kind: str) -> list[bytes]:
    """Return small tables of a kind: arrow, parquet, csv, json."""
    names = list(COLUMNS)
    thirds = [names[start::3] for start in range(3)]
    nested = [each for each in IN_PARQUET if pa.types.is_nested(COLUMNS[each].type)]
    match kind:
        case "arrow":
            single = [arrow_stream(table([name], stacks=number % 2 == 0)) for number, name in enumerate(names)]
            full = [arrow_stream(table(part), emit_dictionary_deltas=True) for part in thirds]
            files = [arrow_file(table(part), compression=codec) for part in thirds for codec in (None, "lz4", "zstd")]
            return [*single, *full, *files, growing_dictionaries()]
        case "parquet":
            result = [parquet_file(table([name], stacks=number % 2 == 0)) for number, name in enumerate(IN_PARQUET)]
            some = [name for name in IN_PARQUET if name not in nested]
            for options in (
                {"use_dictionary": False}, {"data_page_version": "2.0"}, {"compression": "zstd"},
                {"compression": "snappy"}, {"store_schema": False}, {"write_page_index": True}, {"version": "1.0"},
            ):  # fmt: skip
                result += [parquet_file(table(part), **options) for part in (some[::4], nested)]
            for encoding, name in (
                ("DELTA_BYTE_ARRAY", "string"), ("DELTA_LENGTH_BYTE_ARRAY", "string"), ("DELTA_BINARY_PACKED", "int32"),
                ("BYTE_STREAM_SPLIT", "double"), ("DELTA_BYTE_ARRAY", "fixed"),
            ):  # fmt: skip
                result.append(parquet_file(table([name]), use_dictionary=False, column_encoding={name: encoding}))
            return result
        case "csv":
            flat = [name for name in names if not pa.types.is_nested(COLUMNS[name].type)]
            left_out = ("binary", "large_binary", "binary_view", "fixed", "bytes", "wide", "string_view")
            return [csv_file(table(each for each in flat[start::3] if each not in left_out)) for start in range(3)]
        case _:
            return [JSON_LINES, JSON_STACKS]
