"""Parquet's row groups copied and joined: read by pyarrow, DuckDB and Polars; refused where it would be wrong."""

from __future__ import annotations

import datetime
import io
import random
import struct
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.archives import INNER_VADDR, ONE, OTHER, OUTER_VADDR, small_archives
from whence.cli.main import main
from whence.columns import names_encoded, row_groups, tables
from whence.columns.row_groups import Chunk, File, Group, Meta, StoredTable, extent
from whence.columns.tables import TableKind, TableWriter
from whence.columns.thrift import Field, Items, Pairs, Struct, Type, read_struct, written
from whence.errors import WrongUse

ROWS = 3000
GROUP = 1000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "archives").mkdir()
    return small_archives(tmp_path / "archives").parent


@pytest.fixture(autouse=True)
def _small_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "FEWEST_COPIED", 1)


def table(lists: bool = False) -> pa.Table:
    """Columns of many kinds beside the two that are read."""
    draw = random.Random(1)
    ids = [draw.choice([ONE, OTHER, None]) for _ in range(ROWS)]
    vaddrs = [draw.choice([INNER_VADDR, OUTER_VADDR, 0x40, 1 << 63]) for _ in range(ROWS)]
    kind = pa.list_(pa.uint64()) if lists else pa.uint64()
    addresses = pa.array([[one, OUTER_VADDR] for one in vaddrs] if lists else vaddrs, kind)
    return pa.table(
        {
            "before": pa.array(range(ROWS), pa.int16()),
            "build_id": ids,
            "labels": [[("key", str(at))] if at % 3 else None for at in range(ROWS)],
            "address": addresses,
            "nested": [{"a": at, "b": [str(at)] * (at % 3)} for at in range(ROWS)],
            "when": [datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=at) for at in range(ROWS)],
            "text": [f"é{at % 7}" if at % 5 else None for at in range(ROWS)],
            "real": [at / 7 for at in range(ROWS)],
        },
        schema=pa.schema(
            {
                "before": pa.int16(),
                "build_id": pa.string(),
                "labels": pa.map_(pa.string(), pa.string()),
                "address": addresses.type,
                "nested": pa.struct({"a": pa.int64(), "b": pa.list_(pa.string())}),
                "when": pa.timestamp("us"),
                "text": pa.string(),
                "real": pa.float64(),
            }
        ),
    )


def columns(folder: Path, source: Path, target: Path, *words: str) -> int:
    return main(
        ["columns", str(source), "-o", str(target), *words, "--archive-dir", str(folder / "archives"), "--no-cache"]
    )


@pytest.mark.parametrize("shape", ["--leaf", "--stacks"])
@pytest.mark.parametrize("lists", [False, True], ids=["single", "lists"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "gzip", "data_page_version": "2.0"},
        {"compression": "none", "write_page_index": True, "use_dictionary": False},
        {"version": "1.0", "store_schema": False, "use_deprecated_int96_timestamps": True},
    ],
    ids=["plain", "gzip-v2", "index", "old"],
)
def test_a_copied_table_is_read_by_everyone_as_one_that_is_encoded(
    folder: Path, shape: str, lists: bool, options: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    source, copied, encoded = (folder / f"{name}.parquet" for name in ("in", "copied", "encoded"))
    pa.parquet.write_table(table(lists), source, row_group_size=GROUP, **options)
    assert columns(folder, source, copied, shape) == 0
    monkeypatch.setattr(tables, "FEWEST_COPIED", 1 << 16)
    assert columns(folder, source, encoded, shape) == 0
    file = pa.parquet.ParquetFile(copied)
    assert file.metadata.num_row_groups == ROWS // GROUP
    assert chunks(copied, len(pa.parquet.read_metadata(source).schema)) == chunks(source)
    wanted = pa.parquet.read_table(encoded).to_pylist()
    assert pa.parquet.read_table(copied).to_pylist() == wanted
    assert len(wanted) == ROWS
    for read in (read_by_duckdb, read_by_polars):
        assert read(copied) == read(encoded)
    found = duckdb.sql(f"select count(*) from '{copied}' where before >= {GROUP} and before < {GROUP + 10}").fetchall()
    assert found == [(10,)]  # statistics of copied columns are theirs


def chunks(path: Path, most: int | None = None) -> list[bytes]:
    """The first columns of each row group as they are stored."""
    data = path.read_bytes()
    stored = StoredTable.of_bytes(memoryview(data))
    found = [extent(one) for group in stored.groups for one in group.columns[:most]]
    return [data[start : start + size] for start, size in found]


def read_by_duckdb(path: Path) -> list[Any]:
    return duckdb.sql(f"select * from '{path}'").fetchall()


def read_by_polars(path: Path) -> list[Any]:
    return polars.read_parquet(path, use_pyarrow=False).rows()


def test_row_groups_of_several_threads_come_out_in_order(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "GROUP", 64)
    monkeypatch.setattr(tables, "FEWEST_COPIED", 1 << 16)
    monkeypatch.setattr(tables, "rows_at_once", lambda *_: 64)
    monkeypatch.setattr(tables, "available", lambda: 3)
    source, target = folder / "in.parquet", folder / "out.parquet"
    pa.parquet.write_table(table(), source, row_group_size=GROUP)
    assert columns(folder, source, target, "--leaf") == 0
    out = pa.parquet.read_table(target)
    assert pa.parquet.read_metadata(target).num_row_groups == -(-ROWS // 64)
    assert out["before"].to_pylist() == list(range(ROWS))
    for read in (read_by_duckdb, read_by_polars):
        assert [row[0] for row in read(target)] == list(range(ROWS))


# Encoded names


FRAME = pa.struct({"text": pa.dictionary(pa.int32(), pa.string()), "line": pa.uint32(), "truth": pa.bool_()})
NAMES = {
    "text": pa.dictionary(pa.int32(), pa.string()),
    "word": pa.dictionary(pa.int8(), pa.string()),
    "line": pa.uint32(),
    "truth": pa.bool_(),
    "frames": pa.list_(FRAME),
}


def columns_of_names(draw: random.Random, rows: int, shape: str) -> dict[str, list[Any]]:
    """Values for columns of NAMES: all alike, all different, in runs, or any of these; with nulls or without."""
    kinds = {
        "alike": lambda at: 7, "different": lambda at: at, "runs": lambda at: at // 11 % 5,
        "any": lambda at: draw.choice([7, at % 100, 7 * at]),
    }  # fmt: skip
    number, nulls = kinds[shape], draw.choice([0.0, 0.3, 1.0])
    numbers = [None if draw.random() < nulls else number(at) for at in range(rows)]

    def frame(at: int) -> dict[str, Any] | None:
        value = numbers[at]
        if draw.random() < nulls / 4:
            return None
        if value is None:
            return {"text": None, "line": None, "truth": None}
        return {"text": f"n{value}", "line": value, "truth": value % 2 == 0}

    return {
        "text": [None if one is None else f"name {one}é" for one in numbers],
        "word": [None if one is None else "abc"[one % 3] for one in numbers],
        "line": [one if one is None else one * 40_000_001 % (1 << 32) for one in numbers],
        "truth": [one if one is None else one % 3 == 0 for one in numbers],
        "frames": [
            None if draw.random() < nulls / 4 else [frame(at)] * draw.choice([0, 1, 1, 2, 9]) for at in range(rows)
        ],
    }


@pytest.mark.parametrize("shape", ["alike", "different", "runs", "any"])
@pytest.mark.parametrize("rows", [1, 7, 8, 9, 1000])
def test_columns_of_names_are_read_by_everyone_as_they_were(tmp_path: Path, shape: str, rows: int) -> None:
    schema, path = pa.schema({"row": pa.int64(), **NAMES}), tmp_path / "out.parquet"
    for seed in range(4):
        draw = random.Random(seed)
        values = {"row": list(range(rows)), **columns_of_names(draw, rows, shape)}
        whole = pa.record_batch([pa.array(values[one.name], one.type) for one in schema], schema=schema)
        middle = draw.randrange(rows)
        with TableWriter(str(path), TableKind.PARQUET, schema, [*NAMES]) as writer:
            for batch in (whole.slice(0, middle), whole.slice(middle)):  # one group of two pages, dictionaries joined
                writer.write(batch)
        assert pa.parquet.read_table(path).to_pylist() == whole.to_pylist()
        assert read_by_duckdb(path) == read_by_polars(path) == [tuple(row.values()) for row in whole.to_pylist()]
        assert pa.parquet.read_metadata(path).row_group(0).column(1).path_in_schema == "text"


def test_names_beyond_what_a_page_can_hold_are_wrong_use_without_output(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(names_encoded, "LARGEST_PAGE", 100)
    path, schema = tmp_path / "out.parquet", pa.schema({"row": pa.int64(), "text": NAMES["text"]})
    texts = pa.array([f"name {one}" for one in range(100)]).dictionary_encode()
    writer = TableWriter(str(path), TableKind.PARQUET, schema, ["text"])
    with pytest.raises(WrongUse, match="smaller row groups"), writer:
        writer.write(pa.record_batch([pa.array(range(100)), texts], schema=schema))
    assert not path.exists()


def test_names_shrink_to_a_few_bits_each_and_runs_to_nothing(tmp_path: Path) -> None:
    schema, path, rows = pa.schema({"row": pa.int64(), **NAMES}), tmp_path / "out.parquet", 100_000
    draw = random.Random(1)
    few = [draw.randrange(16) for _ in range(rows)]
    texts = pa.array([f"name {one}" for one in few]).dictionary_encode()
    columns = [
        pa.array(range(rows)), texts, pa.array(["a"] * rows).cast(NAMES["word"]), pa.array(few, pa.uint32()),
        pa.array([None] * rows, pa.bool_()), pa.array([[]] * rows, NAMES["frames"]),
    ]  # fmt: skip
    with TableWriter(str(path), TableKind.PARQUET, schema, [*NAMES]) as writer:
        writer.write(pa.record_batch(columns, schema=schema))
    group = pa.parquet.read_metadata(path).row_group(0)
    sizes = [group.column(at).total_uncompressed_size for at in range(1, 5)]
    assert [size // (rows // 8) for size in sizes] == [4, 0, 4, 0]  # bits a row
    assert max(sizes[1], sizes[3]) < 100


def test_a_table_without_rows_is_copied(folder: Path) -> None:
    source, target = folder / "in.parquet", folder / "out.parquet"
    pa.parquet.write_table(table().slice(0, 0), source)
    assert columns(folder, source, target) == 0
    assert pa.parquet.read_table(target).num_rows == 0
    assert pa.parquet.read_schema(target).names == [*table().schema.names, "frames", "reason"]
    assert read_by_duckdb(target) == read_by_polars(target) == []


def test_what_was_said_of_a_copied_table_stays(folder: Path) -> None:
    source, target = folder / "in.parquet", folder / "out.parquet"
    with_metadata = table().replace_schema_metadata({"who": "me"})
    sorting = [pa.parquet.SortingColumn(0)]
    pa.parquet.write_table(with_metadata, source, row_group_size=GROUP, sorting_columns=sorting)
    assert columns(folder, source, target, "--leaf") == 0
    before, after = pa.parquet.read_metadata(source), pa.parquet.read_metadata(target)
    assert after.metadata[b"who"] == b"me"
    assert after.row_group(2).sorting_columns == tuple(sorting)
    assert [after.row_group(2).column(at).statistics for at in range(before.num_columns)] == [
        before.row_group(2).column(at).statistics for at in range(before.num_columns)
    ]
    assert pa.parquet.read_schema(target).field("build_id").type == pa.string()


# What is not copied


def changed(path: Path, change: Callable[[Struct], None]) -> None:
    """Write another footer to a Parquet file."""
    data = path.read_bytes()
    (length,) = struct.unpack("<I", data[-8:-4])
    footer = read_struct(data[-8 - length : -8])
    change(footer)
    new = written(footer)
    path.write_bytes(data[: -8 - length] + new + struct.pack("<I", len(new)) + data[-4:])


def each_chunk(change: Callable[[Struct], None]) -> Callable[[Struct], None]:
    def change_all(footer: Struct) -> None:
        for group in footer[File.ROW_GROUPS].value.items:
            for chunk in group[Group.COLUMNS].value.items:
                change(chunk)

    return change_all


def set_meta(number: Meta, value: int) -> Callable[[Struct], None]:
    return each_chunk(lambda chunk: chunk[Chunk.META_DATA].value.update({number: Field(Type.I64, value)}))


NOT_COPIED: dict[str, Callable[[Struct], None]] = {
    "in another file": each_chunk(lambda chunk: chunk.update({Chunk.FILE_PATH: Field(Type.BINARY, b"other")})),
    "encrypted": lambda footer: footer.update({File.ENCRYPTION_ALGORITHM: Field(Type.STRUCT, {})}),
    "one over the other": set_meta(Meta.DATA_PAGE_OFFSET, 4),
    "beyond the end": set_meta(Meta.TOTAL_COMPRESSED_SIZE, 1 << 40),
    "before the start": set_meta(Meta.TOTAL_COMPRESSED_SIZE, -1),
    "with an index page": set_meta(Meta.INDEX_PAGE_OFFSET, 4),
    "of an old writer": lambda footer: footer.update(
        {File.CREATED_BY: Field(Type.BINARY, b"parquet-mr version 1.2.8 (build 1)")}
    ),
    "of wrong types": lambda footer: footer.update({File.ROW_GROUPS: Field(Type.BINARY, b"")}),
}


@pytest.mark.parametrize("change", NOT_COPIED.values(), ids=NOT_COPIED.keys())
def test_chunks_that_can_not_be_copied_are_not(change: Callable[[Struct], None], tmp_path: Path) -> None:
    path = tmp_path / "in.parquet"
    pa.parquet.write_table(table(), path, row_group_size=GROUP)
    with path.open("rb") as file:
        assert StoredTable.to_copy(file) is not None
    changed(path, change)
    with path.open("rb") as file:
        assert StoredTable.to_copy(file) is None


@pytest.mark.parametrize("size", [0, 7, 8, 11, 500])
def test_a_file_that_is_no_parquet_is_not_copied(size: int, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(random.Random(size).randbytes(size) + row_groups.MAGIC)
    with (tmp_path / "in").open("rb") as file:
        assert StoredTable.to_copy(file) is None


def test_a_file_that_is_cut_meanwhile_is_an_error_without_output(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = folder / "in.parquet", folder / "out.parquet"
    pa.parquet.write_table(table(), source, row_group_size=GROUP, compression="none", use_dictionary=False)

    def cut(reader: tables.TableReader, names: list[str]) -> Iterator[list[Any]]:
        groups = list(batches_of_groups(reader, names))
        with source.open("r+b") as file:
            file.truncate(100)
        return iter(groups)

    batches_of_groups = tables.TableReader.batches_of_groups
    monkeypatch.setattr(tables.TableReader, "batches_of_groups", cut)
    assert columns(folder, source, target) == 3
    assert "the file ends before its row groups do" in capsys.readouterr().err
    assert not target.exists()


def test_large_or_many_groups_are_encoded_anew(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, long = tmp_path / "in.parquet", tmp_path / "lists.parquet"
    pa.parquet.write_table(table(), path, row_group_size=GROUP)
    pa.parquet.write_table(table(lists=True), long, row_group_size=GROUP)

    def is_copied(path: Path) -> bool:
        with tables.TableReader(str(path), None, build_id="build_id", address="address") as reader:
            return reader.stored() is not None

    assert is_copied(path)
    assert is_copied(long)
    monkeypatch.setattr(tables, "MOST_IN_LISTS", 2 * GROUP - 1)
    assert (is_copied(path), is_copied(long)) == (True, False)
    monkeypatch.setattr(tables, "MOST_COPIED", GROUP - 1)
    assert not is_copied(path)
    monkeypatch.setattr(tables, "MOST_COPIED", GROUP)
    monkeypatch.setattr(tables, "FEWEST_COPIED", GROUP + 1)
    assert not is_copied(path)


# Thrift


VALUES: dict[Type, st.SearchStrategy[Any]] = {
    Type.I8: st.integers(0, 255),
    Type.I16: st.integers(-(1 << 15), (1 << 15) - 1),
    Type.I32: st.integers(-(1 << 31), (1 << 31) - 1),
    Type.I64: st.integers(-(1 << 63), (1 << 63) - 1),
    Type.DOUBLE: st.binary(min_size=8, max_size=8),
    Type.BINARY: st.binary(max_size=20),
    Type.UUID: st.binary(min_size=16, max_size=16),
    Type.TRUE: st.integers(1, 2),
}


def fields(values: st.SearchStrategy[tuple[Type, Any]]) -> st.SearchStrategy[Struct]:
    truths = st.sampled_from([Field(Type.TRUE, True), Field(Type.FALSE, False)])
    others = values.filter(lambda one: one[0] > Type.FALSE).map(lambda one: Field(*one))
    return st.dictionaries(st.integers(-5, 300), truths | others, max_size=5)


SIMPLE = st.sampled_from(list(VALUES)).flatmap(lambda type: st.tuples(st.just(type), VALUES[type]))
LISTS = st.sampled_from(list(VALUES)).flatmap(
    lambda type: st.lists(VALUES[type], max_size=20).map(lambda items: (Type.LIST, Items(type, items)))
)
MAPS = st.lists(st.tuples(VALUES[Type.BINARY], VALUES[Type.I32]), min_size=1, max_size=3).map(
    lambda items: (Type.MAP, Pairs(Type.BINARY, Type.I32, items))
)
STRUCTS = fields(SIMPLE | LISTS | MAPS).map(lambda one: (Type.STRUCT, one))


@given(fields(SIMPLE | LISTS | MAPS | STRUCTS))
def test_a_struct_is_read_as_it_was_written(value: Struct) -> None:
    assert read_struct(written(value)) == value


@given(st.binary(max_size=200))
def test_no_bytes_are_more_than_a_value_error(data: bytes) -> None:
    with suppress(ValueError):
        read_struct(data)


def test_the_footers_of_pyarrow_come_out_byte_for_byte() -> None:
    out = io.BytesIO()
    pa.parquet.write_table(table(), out, row_group_size=GROUP)
    data = out.getvalue()
    (length,) = struct.unpack("<I", data[-8:-4])
    assert written(read_struct(data[-8 - length : -8])) == data[-8 - length : -8]


@pytest.mark.parametrize(
    "data", [b"\x1c" * 10_000, b"\x19\x19" + b"\x19" * 10_000, b"\x19\xfc\xff\xff\xff\xff\x0f", b"\x15" + b"\xff" * 11]
)
def test_structs_that_claim_too_much_are_refused_at_once(data: bytes) -> None:
    with pytest.raises(ValueError, match="Thrift"):
        read_struct(data)
