"""`whence columns`: a table in, the same table with names out."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet
import pytest

from tests.helpers.archives import INNER_VADDR, ONE, OTHER, OUTER_VADDR, small_archives
from whence.cli.main import main

VADDRS = [INNER_VADDR, OUTER_VADDR, 0x40]
CHAINS = [["inner", "app::outer()"], ["app::outer()"], ["other"]]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "archives").mkdir()
    return small_archives(tmp_path / "archives").parent


def table() -> pa.Table:
    return pa.table({"build_id": [ONE, ONE, OTHER], "address": pa.array(VADDRS, pa.uint64()), "kept": ["a", "b", "c"]})


def written(folder: Path, kind: str) -> Path:
    path = folder / f"in.{kind}"
    match kind:
        case "parquet":
            pa.parquet.write_table(table(), path, row_group_size=2)
        case "csv":
            pa.csv.write_csv(table(), path)
        case "arrow":
            with pa.ipc.new_file(path, table().schema) as writer:
                writer.write_table(table())
        case "arrows":
            with pa.ipc.new_stream(path, table().schema) as writer:
                writer.write_table(table())
        case "jsonl":
            path.write_text("".join(json.dumps(row) + "\n" for row in table().to_pylist()))
    return path


def run(folder: Path, *words: str) -> int:
    return main(["columns", *words, "--archive-dir", str(folder / "archives"), "--no-cache"])


def functions(rows: list[dict[str, Any]]) -> list[list[str]]:
    return [[frame["function"] for frame in row["frames"]] for row in rows]


@pytest.mark.parametrize("kind", ["parquet", "csv", "arrow", "arrows", "jsonl"])
@pytest.mark.parametrize("out", ["parquet", "arrow", "arrows", "jsonl"])
def test_every_kind_of_table_is_read_and_written(
    folder: Path, kind: str, out: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = folder / f"out.{out}"
    assert run(folder, str(written(folder, kind)), "-o", str(target)) == 0
    if out == "parquet":
        rows = pa.parquet.read_table(target).to_pylist()
    elif out == "arrow":
        rows = pa.ipc.open_file(target).read_all().to_pylist()
    elif out == "arrows":
        rows = pa.ipc.open_stream(target).read_all().to_pylist()
    else:
        rows = [json.loads(line) for line in target.read_text().splitlines()]
    assert functions(rows) == CHAINS
    assert [row["kept"] for row in rows] == ["a", "b", "c"]
    assert "3 of 3 addresses named, 3 rows, 2 build-ids" in capsys.readouterr().err


def test_csv_has_columns_of_the_innermost_frame(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = str(written(folder, "csv"))
    assert run(folder, source, "-o", str(folder / "out.csv"), "--leaf") == 0
    rows = pa.csv.read_csv(folder / "out.csv").to_pylist()
    assert [row["function"] for row in rows] == ["inner", "app::outer()", "other"]
    capsys.readouterr()
    assert run(folder, source, "-o", str(folder / "lists.csv")) == 2
    assert "a CSV file can't have lists: use --leaf or --exploded" in capsys.readouterr().err
    assert not (folder / "lists.csv").exists()


def test_texts_of_csv_are_decimal_where_none_has_a_letter(folder: Path) -> None:
    (folder / "hex.csv").write_text(f"build_id,address\n{ONE},1048\n{ONE},10ff\n")
    assert run(folder, str(folder / "hex.csv"), "-o", str(folder / "out.jsonl"), "--leaf") == 0
    rows = [json.loads(line) for line in (folder / "out.jsonl").read_text().splitlines()]
    assert [row["function"] for row in rows] == ["inner", "app::outer()"]
    (folder / "plain.csv").write_text(f"build_id,address\n{ONE},1048\n")
    assert run(folder, str(folder / "plain.csv"), "-o", str(folder / "out.jsonl"), "--leaf", "--hex") == 0
    assert json.loads((folder / "out.jsonl").read_text())["function"] == "inner"


def test_the_suggested_command_for_a_csv_table_works(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = folder / "plain.csv"
    path.write_text(f"build_id,address\n{ONE},1048\n")
    assert run(folder, str(path)) == 0
    suggestion = capsys.readouterr().out.partition("to name them: whence columns ")[2].partition(" (")[0]
    words = suggestion.replace("named.csv", str(folder / "named.csv")).split()
    assert run(folder, *words) == 0
    assert (folder / "named.csv").exists()


def test_pipes(folder: Path) -> None:
    data = written(folder, "parquet").read_bytes()
    done = subprocess.run(
        [sys.executable, "-m", "whence", "columns", "-", "-o", "-", "--format", "json", "--exploded", "--json",
         "--archive-dir", str(folder / "archives"), "--no-cache"],
        input=data, capture_output=True, check=True,
    )  # fmt: skip
    rows = [json.loads(line) for line in done.stdout.splitlines()]
    assert [row["function"] for row in rows] == ["inner", "app::outer()", "app::outer()", "other"]
    coverage = json.loads(done.stderr)
    assert coverage["rows"] == 3
    assert {each["build_id"]: each["named"] for each in coverage["build_ids"]} == {ONE: 2, OTHER: 1}


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("empty.parquet", b"", "the file is empty"),
        ("cut.parquet", b"PAR1 and no more", "damaged parquet"),
        ("cut.arrow", b"ARROW1\0\0 and no more", "damaged arrow"),
        ("bad.csv", b"build_id,address\n1,2,3\n", "damaged csv"),
        ("bad.jsonl", b'{"build_id": ', "damaged json"),
        ("other.csv", b"a,b\n1,2\n", "no column build_id of build-ids: the columns are a, b"),
    ],
)
def test_a_bad_table_is_one_line_and_no_output(
    folder: Path, name: str, data: bytes, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (folder / name).write_bytes(data)
    assert run(folder, str(folder / name), "-o", str(folder / "out.parquet")) in (2, 3)
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not (folder / "out.parquet").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full")
@pytest.mark.parametrize("kind", ["parquet", "arrow", "json"])
def test_a_full_disk_is_an_error_of_the_output(kind: str, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, str(written(folder, "csv")), "-o", "/dev/full", "--format", kind) == 3
    assert capsys.readouterr().err.startswith("whence: /dev/full: No space left on device")


def test_an_unknown_ending_is_wrong_use(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(folder, str(written(folder, "csv")), "-o", str(folder / "out.txt")) == 2
    assert "unknown ending: use one of" in capsys.readouterr().err
