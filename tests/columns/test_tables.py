"""Tables written by pyarrow: read by others as they were, with the types that they had."""

from __future__ import annotations

import datetime
import random
from pathlib import Path
from typing import Any

import duckdb
import polars
import pyarrow as pa
import pyarrow.parquet
import pytest

from tests.helpers.archives import INNER_VADDR, ONE, OTHER, OUTER_VADDR, small_archives
from whence.cli.main import main
from whence.columns import lines
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
    addresses = pa.array([[one, OUTER_VADDR] for one in vaddrs] if lists else vaddrs, kind)
    columns = {
        "before": (pa.array(range(ROWS), pa.int16()), pa.int16()),
        "build_id": (ids, pa.string()),
        "labels": ([[("key", str(at))] if at % 3 else None for at in range(ROWS)], pa.map_(pa.string(), pa.string())),
        "address": (addresses, addresses.type),
        "nested": (
            [{"a": at, "b": [str(at)] * (at % 3)} for at in range(ROWS)],
            pa.struct({"a": pa.int64(), "b": pa.list_(pa.string())}),
        ),
        "when": (
            [datetime.datetime(2024, 1, 1) + datetime.timedelta(seconds=at) for at in range(ROWS)],
            pa.timestamp("us"),
        ),
        "text": ([f"é{at % 7}" if at % 5 else None for at in range(ROWS)], pa.large_string()),
        "real": ([at / 7 for at in range(ROWS)], pa.float64()),
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
    given, found = pa.parquet.read_table(source), pa.parquet.read_table(target)
    assert found.select(given.schema.names).to_pylist() == given.to_pylist()
    assert found.schema.types[: len(given.schema)] == given.schema.types
    whole = [tuple(row.values()) for row in found.drop_columns(["labels"]).to_pylist()]
    for read in (read_by_duckdb, read_by_polars):
        assert [row[:2] + row[3:] for row in read(target)] == whole
    assert pa.parquet.read_metadata(target).row_group(0).column(0).is_stats_set


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
    source.write_text("".join(f'{{"build_id": "{ONE}", "address": {at + (1 << 63)}}}\n' for at in range(500)))
    assert columns(folder, source, target, "--leaf") == 0
    assert pa.parquet.read_table(target)["address"].to_pylist() == [at + (1 << 63) for at in range(500)]
