"""Tables keep their values and types, and other programs can read them."""

from __future__ import annotations

import datetime
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import pandas
import polars
import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.helpers.archives import INNER_VADDR, ONE, OTHER, OUTER_VADDR, small_archives
from whence.cli.main import main
from whence.columns import lines, pages
from whence.columns.tables import TableKind, TableWriter

ROWS = 3000
GROUP = 1000


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "archives").mkdir()
    return small_archives(tmp_path / "archives").parent


def table(lists: bool = False) -> pa.Table:
    """Columns of many kinds beside the two that are read."""
    draw = random.Random(1)
    ids = [draw.choice([ONE, OTHER, None]) for _ in range(ROWS)]
    vaddrs = [draw.choice([INNER_VADDR, OUTER_VADDR, 0x40, 1 << 63]) for _ in range(ROWS)]
    kind = pa.list_(pa.uint64()) if lists else pa.uint64()
    addresses = pa.array([[each, OUTER_VADDR] for each in vaddrs] if lists else vaddrs, kind)
    columns = {
        "before": (pa.array(range(ROWS), pa.int16()), pa.int16()),
        "build_id": (ids, pa.string()),
        "labels": (
            [[("key", str(index))] if index % 3 else None for index in range(ROWS)],
            pa.map_(pa.string(), pa.string()),
        ),
        "address": (addresses, addresses.type),
        "nested": (
            [{"a": index, "b": [str(index)] * (index % 3)} for index in range(ROWS)],
            pa.struct({"a": pa.int64(), "b": pa.list_(pa.string())}),
        ),
        "when": (
            [datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=index) for index in range(ROWS)],
            pa.timestamp("us"),
        ),
        "text": ([f"é{index % 7}" if index % 5 else None for index in range(ROWS)], pa.large_string()),
        "real": ([index / 7 for index in range(ROWS)], pa.float64()),
    }
    schema = pa.schema({name: type for name, (_, type) in columns.items()}, metadata={"who": "me"})
    return pa.table({name: values for name, (values, _) in columns.items()}, schema=schema)


def columns(folder: Path, source: Path, target: Path, *words: str) -> int:
    return main(
        ["columns", str(source), "-o", str(target), *words, "--archive-dir", str(folder / "archives"), "--no-cache"]
    )


def read_by_duckdb(path: Path) -> list[Any]:
    return duckdb.sql(f"select * from '{path}'").fetchall()


def read_by_polars(path: Path) -> list[Any]:
    return polars.read_parquet(path, use_pyarrow=False).rows()


@pytest.mark.parametrize("shape", ["--leaf", "--stacks"])
@pytest.mark.parametrize("lists", [False, True], ids=["single", "lists"])
@pytest.mark.parametrize(
    "options",
    [
        {},
        {"compression": "gzip", "data_page_version": "2.0"},
        {"use_dictionary": False, "column_encoding": {"text": "DELTA_BYTE_ARRAY"}},
        {"compression": "none", "write_page_index": True, "use_dictionary": False},
        {"version": "1.0", "store_schema": False, "use_deprecated_int96_timestamps": True},
    ],
    ids=["plain", "v2", "delta", "index", "old"],
)  # fmt: skip
def test_a_table_keeps_its_values_types_and_metadata(
    folder: Path, shape: str, lists: bool, options: dict[str, Any]
) -> None:
    source, target = folder / "in.parquet", folder / "out.parquet"
    pa.parquet.write_table(table(lists), source, row_group_size=GROUP, **options)
    assert columns(folder, source, target, shape) == 0
    given, result = pa.parquet.read_table(source), pa.parquet.read_table(target)
    assert result.select(given.schema.names).to_pylist() == given.to_pylist()
    assert result.schema.types[: len(given.schema)] == given.schema.types
    assert (result.schema.metadata or None) == given.schema.metadata
    full = [tuple(row.values()) for row in result.drop_columns(["labels"]).to_pylist()]
    for read in (read_by_duckdb, read_by_polars):
        assert [row[:2] + row[3:] for row in read(target)] == full
    assert pa.parquet.read_metadata(target).row_group(0).column(0).is_stats_set


@pytest.mark.parametrize("ending", ["parquet", "arrow", "arrows"])
@pytest.mark.parametrize("kind", ["parquet", "arrows"])
def test_metadata_of_the_table_and_its_fields_stays(folder: Path, kind: str, ending: str) -> None:
    frame = pandas.DataFrame(
        {"build_id": [ONE] * 2, "address": [INNER_VADDR] * 2}, index=pandas.Index([7, 9], name="i")
    )
    given = pa.Table.from_pandas(frame)
    given = given.replace_schema_metadata({**given.schema.metadata, b"who": b"me"})
    given = given.cast(given.schema.set(1, given.schema.field(1).with_metadata({b"unit": b"vaddr"})))
    source, target = folder / f"in.{kind}", folder / f"out.{ending}"
    if kind == "parquet":
        pa.parquet.write_table(given, source)
    else:
        with pa.ipc.new_stream(source, given.schema) as writer:
            writer.write_table(given)
    assert columns(folder, source, target, "--leaf") == 0
    if ending == "parquet":
        result = pa.parquet.read_table(target)
    else:
        result = (pa.ipc.open_file if ending == "arrow" else pa.ipc.open_stream)(target).read_all()
    assert result.schema.metadata[b"who"] == b"me"
    assert result.schema.field(1).metadata[b"unit"] == b"vaddr"
    assert list(result.to_pandas().index) == [7, 9]


NAMES = {
    "text": pa.dictionary(pa.int32(), pa.string()),
    "word": pa.dictionary(pa.int8(), pa.string()),
    "line": pa.uint32(),
    "truth": pa.bool_(),
    "frames": pa.list_(pa.struct({"text": pa.dictionary(pa.int32(), pa.string()), "line": pa.uint32()})),
}


@pytest.mark.parametrize("nulls", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("shape", ["alike", "different", "runs"])
@pytest.mark.parametrize("rows", [1, 8, 1000])
def test_other_programs_read_columns_of_names_unchanged(tmp_path: Path, rows: int, shape: str, nulls: float) -> None:
    schema, path, draw = pa.schema({"row": pa.int64(), **NAMES}), tmp_path / "out.parquet", random.Random(rows)
    number = {"alike": lambda index: 7, "different": lambda index: index, "runs": lambda index: index // 11 % 5}[shape]
    result = [None if draw.random() < nulls else number(index) for index in range(rows)]
    frames = [{"text": None if each is None else f"n{each}", "line": each} for each in result]
    values: dict[str, list[Any]] = {
        "row": list(range(rows)),
        "text": [None if each is None else f"name {each}é" for each in result],
        "word": [None if each is None else "abc"[each % 3] for each in result],
        "line": [None if each is None else each * 40_000_001 % (1 << 32) for each in result],
        "truth": [None if each is None else each % 3 == 0 for each in result],
        "frames": [None if draw.random() < nulls / 4 else [each] * draw.choice([0, 1, 9]) for each in frames],
    }
    full = pa.record_batch([pa.array(values[each.name], each.type) for each in schema], schema=schema)
    middle = rows // 3
    with TableWriter(str(path), TableKind.PARQUET, schema, [*NAMES]) as writer:
        for batch in (full.slice(0, middle), full.slice(middle)):  # whose dictionaries are joined
            writer.write(batch)
    assert pa.parquet.read_table(path).to_pylist() == full.to_pylist()
    assert read_by_duckdb(path) == read_by_polars(path) == [tuple(row.values()) for row in full.to_pylist()]


def test_a_file_that_is_cut_while_it_is_read_is_an_error_without_output(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    source, target = folder / "in.parquet", folder / "out.parquet"
    pa.parquet.write_table(table(), source, row_group_size=GROUP, compression="none", use_dictionary=False)
    decoded_size, calls = pages.decoded_size, []

    def cut(*arguments: Any) -> pages.DecodedSize:
        need = decoded_size(*arguments)
        calls.append(need)
        if len(calls) == 2:
            with source.open("r+b") as file:
                file.truncate(100)
        return need

    monkeypatch.setattr(pages, "decoded_size", cut)
    assert columns(folder, source, target) == 3
    error = capsys.readouterr().err
    assert error.startswith(f"whence: {source}: damaged parquet: ")
    assert error.count("\n") == 1
    assert not target.exists()


@pytest.mark.parametrize("encoding", ["DELTA_BYTE_ARRAY", "DELTA_LENGTH_BYTE_ARRAY"])
def test_texts_in_delta_encodings_are_read(folder: Path, encoding: str) -> None:
    source, target = folder / "in.parquet", folder / "out.parquet"
    given = table()
    pa.parquet.write_table(given, source, use_dictionary=False, column_encoding={"text": encoding})
    assert columns(folder, source, target, "--leaf") == 0
    assert pa.parquet.read_table(target)["text"].to_pylist() == given["text"].to_pylist()


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl"])
def test_views_of_texts_are_repeated_and_written(folder: Path, ending: str) -> None:
    source, target = folder / "in.arrows", folder / f"out.{ending}"
    given = pa.table(
        {
            "build_id": pa.array([ONE, OTHER], pa.string_view()),
            "address": pa.array([INNER_VADDR, 0x40], pa.uint64()),
            "kept": pa.array(["a text that is longer than a view", None], pa.string_view()),
        }
    )
    with pa.ipc.new_stream(source, given.schema) as writer:
        writer.write_table(given)
    assert columns(folder, source, target, "--exploded") == 0
    readers: dict[str, Callable[[Path], Any]] = {
        "parquet": polars.read_parquet, "csv": polars.read_csv, "jsonl": polars.read_ndjson,
    }  # fmt: skip
    result = readers[ending](target)
    assert result["kept"].to_list() == [given["kept"][0].as_py()] * 2 + [None]


def test_small_row_groups_are_joined_in_order(folder: Path) -> None:
    source, target = folder / "in.parquet", folder / "out.parquet"
    pa.parquet.write_table(table(), source, row_group_size=64)
    assert columns(folder, source, target, "--leaf") == 0
    assert pa.parquet.read_metadata(target).num_row_groups == 1
    assert pa.parquet.read_table(target)["before"].to_pylist() == list(range(ROWS))


def test_a_table_without_rows_gets_columns(folder: Path) -> None:
    source, target = folder / "in.parquet", folder / "out.parquet"
    pa.parquet.write_table(table().slice(0, 0), source)
    assert columns(folder, source, target) == 0
    assert pa.parquet.read_table(target).num_rows == 0
    assert pa.parquet.read_schema(target).names == [*table().schema.names, "frames", "reason"]
    assert read_by_duckdb(target) == read_by_polars(target) == []


def test_names_of_several_batches_share_a_dictionary(tmp_path: Path) -> None:
    path, schema = tmp_path / "out.parquet", pa.schema({"kept": pa.int64(), "name": pa.dictionary(pa.int32(), "utf8")})
    with TableWriter(str(path), TableKind.PARQUET, schema, ["name"]) as writer:
        for letter in "abc":
            names = pa.array([letter * 200] * 5000).dictionary_encode()
            writer.write(pa.record_batch([pa.array(range(5000)), names], schema=schema))
    file = pa.parquet.ParquetFile(path)
    kept, name = (file.metadata.row_group(0).column(number) for number in (0, 1))
    assert file.metadata.num_row_groups == 1
    assert name.total_uncompressed_size < 20_000
    assert (kept.is_stats_set, name.is_stats_set) == (True, False)
    assert file.read()["name"].to_pylist()[::5000] == ["a" * 200, "b" * 200, "c" * 200]


def test_json_lines_of_several_blocks_are_one_table(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "BLOCK", 1 << 10)
    source, target = folder / "in.jsonl", folder / "out.parquet"
    source.write_text("".join(f'{{"build_id": "{ONE}", "address": {index + (1 << 63)}}}\n' for index in range(500)))
    assert columns(folder, source, target, "--leaf") == 0
    assert pa.parquet.read_table(target)["address"].to_pylist() == [index + (1 << 63) for index in range(500)]
