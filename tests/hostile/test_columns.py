"""`whence columns`: tables whose buffers lie, that claim or hold much in few bytes, or that are damaged."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import fuzz.columns
from tests.forge.mutations import mutated
from tests.forge.tables import parquet_file, seeds, table
from tests.helpers.archives import small_archives
from tests.hostile import bounded
from tests.hostile.bounds import Outcome
from tests.hostile.inputs import columns as inputs
from whence._base.errors import FormatError, WhenceError
from whence.cli.main import main
from whence.columns.pages import decoded_size, groups_of

MUTATED = 300


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "archives").mkdir()
    return small_archives(tmp_path / "archives").parent


def words(folder: Path, source: Path, ending: str) -> list[str]:
    shape = ["--leaf"] if ending == "csv" else []
    target = folder / f"out.{ending}"
    return [
        "columns", str(source), "-o", str(target), *shape, "--archive-dir", str(folder / "archives"), "--no-cache",
    ]  # fmt: skip


def run(folder: Path, data: bytes, ending: str, *, seconds: float, megabytes: float) -> Outcome:
    """Name a table in a process of its own, and expect no output where that fails."""
    source = folder / "in"
    source.write_bytes(data)
    command: list[str | Path] = ["whence", *words(folder, source, ending)]
    outcome = bounded(command, seconds=seconds, megabytes=megabytes, stored=len(data))
    assert (folder / f"out.{ending}").exists() == (outcome.code == 0)
    assert "Traceback" not in outcome.error
    return outcome


def codes(folder: str, ending: str) -> dict[str, int]:
    """Return the exit code for each table whose buffers lie."""
    result = {}
    for name, data in inputs.LYING.items():
        source = Path(folder) / "in"
        source.write_bytes(data)
        result[name] = main(words(Path(folder), source, ending))
        assert not (Path(folder) / f"out.{ending}").exists()
    return result


@pytest.mark.parametrize("ending", ["parquet", "csv", "jsonl", "arrow", "arrows"])
def test_invalid_offsets_and_indices_are_refused_in_every_type(folder: Path, ending: str) -> None:
    result = bounded(codes, str(folder), ending, seconds=6, megabytes=150).answer
    assert set(result) == set(inputs.LYING)
    assert set(result.values()) <= ({2, 3} if ending == "csv" else {3})  # CSV has no lists


def test_memory_of_the_process_does_not_leak_into_a_text(folder: Path) -> None:
    outcome = run(folder, inputs.leak(), "csv", seconds=3, megabytes=120)
    assert outcome.code == 3
    assert "column x: Offset invariant failure: offset for slot 1 out of bounds: 4000 > 8" in outcome.error


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (inputs.claims_gigabytes, "Expected to be able to read 1700000000 bytes for message body, got"),
        (inputs.claims_a_large_head, "Expected to read 2147483640 metadata bytes, but only read"),
        (inputs.compressed_claims, "bytes claims to decompress to 100,0"),
    ],
)
def test_a_head_that_claims_gigabytes_is_the_files_fault(folder: Path, make: object, message: str) -> None:
    outcome = run(folder, make(), "csv", seconds=3, megabytes=120)  # type: ignore[operator]
    assert outcome.code == 3
    assert "damaged arrow" in outcome.error
    assert message in outcome.error


@pytest.mark.parametrize(
    ("ending", "data"),
    [
        ("csv", b"build_id,address,t\xff\nab,1,x\n"),
        ("csv", b"build_id,address,t\nab,1,\xff\n"),
        ("csv", b"build_id,address,t\nab,\xff,x\n"),
        ("csv", b"build_id,address,t\n" + b"ab,1,x\n" * 700_000 + b"ab,1,\xff\n"),
        ("jsonl", b'{"build_id": "ab", "address": 1, "t\xff": "x"}\n'),
        ("jsonl", b'{"build_id": "ab", "address": 1, "t": "\xff"}\n'),
        ("jsonl", b'{"build_id": "ab", "address": 1, "t": {"\xff": [1]}}\n'),
        ("jsonl", b'{"build_id": "\\ud800", "address": 1}\n'),
    ],
)
@pytest.mark.parametrize("to", ["jsonl", "parquet"])
def test_text_that_is_not_utf8_is_an_error_of_the_file(
    folder: Path, ending: str, data: bytes, to: str, capsys: pytest.CaptureFixture[str]
) -> None:
    source = folder / f"in.{ending}"
    source.write_bytes(data)
    assert main(words(folder, source, to)) == 3
    error = capsys.readouterr().err
    assert error.count("\n") == 1
    assert error.startswith(f"whence: {source}: ")
    assert not (folder / f"out.{to}").exists()


# Few bytes that hold much

DONE = 0
REFUSED = 3


@pytest.mark.parametrize(
    ("make", "ending", "code", "megabytes"),
    [
        (inputs.long_text, "parquet", DONE, 300),
        (inputs.long_text, "csv", REFUSED, 400),
        (inputs.long_text, "arrow", REFUSED, 400),
        (inputs.long_lists, "parquet", REFUSED, 200),
        (inputs.long_lists, "arrows", REFUSED, 200),
        (inputs.long_build_ids, "parquet", DONE, 300),
        (inputs.long_build_ids, "csv", REFUSED, 400),
        (inputs.lists_of_long_texts, "parquet", REFUSED, 300),
        (inputs.texts_of_long_prefixes, "parquet", REFUSED, 1000),
        (inputs.many_nulls, "arrow", DONE, 700),
    ],
)
def test_few_bytes_that_hold_much_are_written_as_such_or_refused(
    folder: Path, make: object, ending: str, code: int, megabytes: int
) -> None:
    outcome = run(folder, make(), ending, seconds=12, megabytes=megabytes)  # type: ignore[operator]
    assert outcome.code == code, outcome.error
    assert "damaged" not in outcome.error
    assert "not enough memory" not in outcome.error


def test_lists_that_hold_too_much_are_not_called_damaged(folder: Path) -> None:
    outcome = run(folder, inputs.long_lists(), "parquet", seconds=3, megabytes=200)
    assert "a row group of 1,5" in outcome.error
    assert "write smaller row groups" in outcome.error


# Damaged tables


def outcomes(kind: str, count: int) -> list[int]:
    """Return how many damaged tables were named, and how many refused."""
    given, result = seeds(kind), [0, 0]
    dice = random.Random(kind)
    for _ in range(count):
        try:
            fuzz.columns.target(mutated(dice.choice(given), dice))
            result[0] += 1
        except WhenceError:
            result[1] += 1
    return result


@pytest.mark.parametrize("kind", ["arrow", "parquet", "csv", "json"])
def test_damaged_tables_are_named_or_refused(kind: str) -> None:
    outcome = bounded(outcomes, kind, MUTATED, seconds=60, megabytes=700, stored=0)
    assert outcome.answer is not None, outcome.error
    assert sum(outcome.answer) == MUTATED
    assert min(outcome.answer) > 0


def exits(folder: str, data: bytes) -> str:
    """Return the error of a table."""
    source = Path(folder) / "in"
    source.write_bytes(data)
    try:
        fuzz.columns.named(str(source), str(Path(folder) / "out"))
    except WhenceError as error:
        return str(error)
    return ""


def damaged_levels() -> bytes:
    """Return Parquet whose schema says of build-ids that they are optional in a sixth way.

    Their histogram of levels then has one too many, for which pyarrow's object of the column ends the process.
    """
    data = parquet_file(table(["string"]))
    assert data.count(b"\x15\x0c\x25\x02\x18\x08build_id") == 1
    return data.replace(b"\x15\x0c\x25\x02\x18\x08build_id", b"\x15\x0c\x25\x0a\x18\x08build_id")


def size_that_is_true() -> bytes:
    """Return Parquet with a page whose compressed size is a truth value."""
    data = parquet_file(table(["string"]))
    assert data[9:12] == b"\x15\xb0\x01"  # the header's third field, 88 bytes
    return data[:9] + b"\x11" + data[12:]


@pytest.mark.parametrize(
    ("make", "message"),
    [(damaged_levels, "histogram size mismatch"), (size_that_is_true, "is malformed")],
)
def test_a_damaged_parquet_file_that_once_ended_the_process_is_an_error(
    tmp_path: Path, make: object, message: str
) -> None:
    outcome = bounded(exits, str(tmp_path), make(), seconds=3, megabytes=200)  # type: ignore[operator]
    assert message in outcome.answer


@pytest.mark.parametrize("size", range(13))
def test_a_footer_that_is_cut_is_an_error(size: int) -> None:
    data = parquet_file(table([]))[:-8][-size:] if size else b""
    with pytest.raises(FormatError, match=r"the file ends before its footer does|the footer is malformed"):
        groups_of(lambda start, most: data[start : start + most], len(data))


def test_a_row_group_of_more_columns_than_the_schema_is_an_error() -> None:
    data = parquet_file(table([]))
    (group, *_) = groups_of(lambda start, most: data[start : start + most], len(data))
    with pytest.raises(FormatError, match="does not match the schema"):
        decoded_size(group, [], lambda start, most: data[start : start + most], len(data))
