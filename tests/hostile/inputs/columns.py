"""Tables whose buffers lie, and tables of few bytes that hold much."""

from __future__ import annotations

import io
import struct
from typing import Any

import pyarrow as pa
import pyarrow.parquet

from tests.helpers.archives import ONE

ROWS = 4
MEGABYTE = 1 << 20


def stream(columns: dict[str, Any]) -> bytes:
    """Return columns beside build-ids and addresses as Arrow IPC's stream."""
    rows = len(next(iter(columns.values())))
    given = pa.record_batch({"build_id": [ONE] * rows, "address": pa.array([0x1001] * rows, pa.uint64()), **columns})
    out = io.BytesIO()
    with pa.ipc.new_stream(out, given.schema) as writer:
        writer.write_batch(given)
    return out.getvalue()


def numbers(form: str, *values: int) -> pa.Buffer:
    return pa.py_buffer(struct.pack(f"<{len(values)}{form}", *values))


def lying(type: pa.DataType, buffers: list[pa.Buffer | None], children: list[pa.Array] | None = None) -> bytes:
    """Return a stream with a column x whose buffers were never checked."""
    return stream({"x": pa.Array.from_buffers(type, ROWS, buffers, children=children)})


def leak() -> bytes:
    """Return a text column whose offsets lead 4,000 bytes past its 8 bytes of data."""
    return lying(pa.string(), [None, numbers("i", 0, 4000, 1, 1, 8), pa.py_buffer(b"abcdefgh")])


def views(*items: tuple[int, int, int]) -> pa.Buffer:
    """Return views of texts: a length, a buffer's number, an offset in it."""
    return pa.py_buffer(
        b"".join(struct.pack("<i4sii", size, b"abcd", buffer, offset) for size, buffer, offset in items)
    )


DATA = pa.py_buffer(b"abcdefgh" * 4)
VALUES = pa.array(range(8), pa.int64())
DICTIONARY = pa.DictionaryArray.from_buffers(
    pa.dictionary(pa.int32(), pa.string()), ROWS, [None, numbers("i", 0, 1 << 24, -5, 1)], pa.array(["a", "b"])
)
TEXT = pa.Array.from_buffers(pa.string(), ROWS, [None, numbers("i", 0, 1 << 26, 1, 1, 8), DATA])

LYING: dict[str, bytes] = {
    "text": leak(),
    "large-text": lying(pa.large_string(), [None, numbers("q", 0, 1 << 40, -9, 1, 8), DATA]),
    "negative-text": lying(pa.string(), [None, numbers("i", 0, -1 << 30, 1, 1, 8), DATA]),
    "bytes": lying(pa.binary(), [None, numbers("i", 0, 1 << 26, 1, 1, 8), DATA]),
    "list": lying(pa.list_(pa.int64()), [None, numbers("i", 0, 1 << 26, 1, 1, 8)], [VALUES]),
    "large-list": lying(pa.large_list(pa.int64()), [None, numbers("q", 0, 1 << 40, -9, 1, 8)], [VALUES]),
    "list-of-texts": stream({"x": pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), TEXT)}),
    "struct": stream({"x": pa.StructArray.from_arrays([TEXT], names=["a"])}),
    "map": stream({"x": pa.MapArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), pa.array(list("abcd")), TEXT)}),
    "dictionary": stream({"x": DICTIONARY}),
    "dictionary-in-a-list": stream({"x": pa.ListArray.from_arrays(pa.array([0, 1, 2, 3, 4], pa.int32()), DICTIONARY)}),
    "dictionary's-texts": stream({"x": pa.DictionaryArray.from_arrays(pa.array([0, 1, 2, 3], pa.int32()), TEXT)}),
    "view": lying(pa.string_view(), [None, views((20, 0, 1 << 26), (20, 7, 0), (1 << 28, 0, 0), (4, 0, 0)), DATA]),
    "view-of-bytes": lying(pa.binary_view(), [None, views((20, 0, 1 << 26), (20, -3, 0), (20, 0, 0), (4, 0, 0)), DATA]),
    "not-utf8": lying(pa.string(), [None, numbers("i", 0, 1, 2, 3, 4), pa.py_buffer(b"a\xff\xfeb")]),
    "dictionary-not-utf8": stream(
        {
            "x": pa.DictionaryArray.from_arrays(
                pa.array([0, 1, 0, 1], pa.int32()),
                pa.Array.from_buffers(pa.string(), 2, [None, numbers("i", 0, 1, 2), pa.py_buffer(b"a\xff")]),
            )
        }
    ),
}


def claims_gigabytes() -> bytes:
    """Return a stream of some 800 bytes, one message of which says that its body has 1.7 GB."""
    data = stream({"x": pa.array(["abcdefgh"] * ROWS)})
    given = pa.ipc.MessageReader.open_stream(data)
    given.read_next_message()
    size = given.read_next_message().body.size
    offset = data.rindex(struct.pack("<q", size))
    return data[:offset] + struct.pack("<q", 1_700_000_000) + data[offset + 8 :]


def claims_a_large_head() -> bytes:
    """Return a stream whose first message says that its head has 2 GB."""
    data = stream({"x": pa.array(["abcdefgh"] * ROWS)})
    return data[:4] + struct.pack("<i", (1 << 31) - 8) + data[8:]


def compressed_claims() -> bytes:
    """Return a stream whose compressed buffers say that they decompress to 100 GB."""
    given = pa.record_batch({"build_id": [ONE] * 1000, "address": pa.array([0x1001] * 1000, pa.uint64())})
    out = io.BytesIO()
    with pa.ipc.new_stream(out, given.schema, options=pa.ipc.IpcWriteOptions(compression="zstd")) as writer:
        writer.write_batch(given)
    return out.getvalue().replace(struct.pack("<q", 8000), struct.pack("<q", 100_000_000_000))


def parquet(columns: dict[str, Any], **options: Any) -> bytes:
    out = io.BytesIO()
    pa.parquet.write_table(pa.table(columns), out, **{"compression": "zstd", "row_group_size": 1 << 20, **options})
    return out.getvalue()


def addresses(rows: int) -> pa.Array:
    return pa.repeat(pa.scalar(0x1001, pa.uint64()), rows)


def repeated(text: str, rows: int) -> pa.Array:
    return pa.DictionaryArray.from_arrays(pa.repeat(pa.scalar(0, pa.int32()), rows), [text])


def long_text() -> bytes:
    """Return Parquet with a text of 1 MB in 3,000 rows, stored once."""
    return parquet({"build_id": repeated(ONE, 3000), "address": addresses(3000), "x": repeated("a" * MEGABYTE, 3000)})


def long_lists() -> bytes:
    """Return Parquet with 600 lists of 100,000 equal addresses."""
    offsets = pa.array(range(0, 60_000_001, 100_000), pa.int32())
    return parquet(
        {"build_id": repeated(ONE, 600), "address": pa.ListArray.from_arrays(offsets, addresses(60_000_000))}
    )


def long_build_ids() -> bytes:
    """Return Parquet with a build-id of 1 MB in 50,000 rows."""
    return parquet({"build_id": repeated("ab" * (MEGABYTE // 2), 50_000), "address": addresses(50_000)})


def lists_of_long_texts() -> bytes:
    """Return Parquet with 1,000 lists of 100 texts of 1 MB, stored once."""
    offsets = pa.array(range(0, 100_001, 100), pa.int32())
    lists = pa.ListArray.from_arrays(offsets, repeated("a" * MEGABYTE, 100_000))
    return parquet({"build_id": repeated(ONE, 1000), "address": addresses(1000), "x": lists})


def texts_of_long_prefixes() -> bytes:
    """Return Parquet with 20,000 texts that each repeat 100,000 letters of the one before."""
    texts = pa.array(["a" * 100_000] * 20_000)
    given = {"build_id": repeated(ONE, 20_000), "address": addresses(20_000), "x": texts}
    return parquet(given, use_dictionary=False, column_encoding={"x": "DELTA_BYTE_ARRAY"})


def many_rows() -> bytes:
    """Return Parquet with 20 million equal rows."""
    return parquet({"build_id": repeated(ONE, 20_000_000), "address": addresses(20_000_000)})


def many_nulls() -> bytes:
    """Return Parquet with 1,000 columns of 200,000 nulls."""
    return parquet(
        {"build_id": repeated(ONE, 200_000), "address": addresses(200_000)}
        | {f"x{number}": pa.nulls(200_000, pa.int64()) for number in range(300)}
    )
