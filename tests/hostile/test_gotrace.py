"""Traces of many small generations, of texts that every event repeats, of lines without an end."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile import bounded, interrupted
from tests.hostile.inputs.gotrace import V, batch, empty_generations, event, generations, repeated_text

Make = Callable[[], bytes]


def command(action: str, path: Path, folder: Path) -> list[str | Path]:
    written: list[str | Path] = ["-o", folder / ("out.csv" if action == "events" else "out")]
    return ["whence", "trace", action, path, *([] if action in ("info", "verify") else written)]


def written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "hostile.trace"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize("action", ["info", "verify", "events", "anonymize", "salvage", "pprof"])
@pytest.mark.parametrize("make", [generations, empty_generations])
def test_many_small_generations_take_time_in_proportion(tmp_path: Path, action: str, make: Make) -> None:
    outcome = bounded(command(action, written(tmp_path, make()), tmp_path), seconds=5, megabytes=100)
    assert outcome.code in (0, 1, 3), outcome.error


def test_info_of_twenty_thousand_generations_is_not_quadratic(tmp_path: Path) -> None:
    path = written(tmp_path, generations(20_000))
    outcome = bounded(["whence", "trace", "info", path], seconds=4, megabytes=120)
    assert b"generations  20000" in outcome.out


def test_texts_of_a_megabyte_are_cut_in_rows(tmp_path: Path) -> None:
    path = written(tmp_path, repeated_text(events=20))
    outcome = bounded(["whence", "trace", "events", path, "--format", "jsonl"], seconds=2, megabytes=100)
    assert outcome.code == 0, outcome.error
    row = json.loads(outcome.out.splitlines()[0])
    assert all(frame.startswith("x" * 4095 + "\u2026 ") for frame in row["stack"])


def test_texts_that_every_event_repeats_are_bounded(tmp_path: Path) -> None:
    path = written(tmp_path, repeated_text(events=2000, size=4000))
    command: list[str | Path] = ["whence", "trace", "events", path, "--format", "jsonl", "-o", "/dev/null"]
    outcome = bounded(command, seconds=5, megabytes=100)
    assert outcome.code == 3
    assert "rows of text take more than 4096 times" in outcome.error


def test_a_search_after_damage_takes_time_in_proportion(tmp_path: Path) -> None:
    data = V.header + b"\xff" + b"\x01" * 200_000
    outcome = bounded(
        ["whence", "trace", "salvage", written(tmp_path, data), "-o", tmp_path / "out"], seconds=4, megabytes=60
    )
    assert outcome.code == 3


@pytest.mark.parametrize(
    "line", [b"String id=1 data=" + b"x" * 5_000_000, b"GoStart dt=" + b"0" * 5_000_000, b"\n" * 5_000_000]
)
def test_a_line_without_an_end_is_an_error_at_once(tmp_path: Path, line: bytes) -> None:
    path = written(tmp_path, b"Trace Go1.26\n" + line)
    outcome = bounded(["whence", "trace", "wire", path, "-o", tmp_path / "out"], seconds=3, megabytes=100)
    assert outcome.code in (0, 3)


@pytest.mark.parametrize("action", ["text", "info", "verify", "events", "anonymize"])
def test_ctrl_c_ends_work_on_a_long_trace(tmp_path: Path, action: str) -> None:
    path = written(tmp_path, V.header + b"".join(batch(1, event("GoStart", 1, 5, 1) * 10_000) for _ in range(3000)))
    interrupted(command(action, path, tmp_path), after=0.1)
    assert sorted(tmp_path.iterdir()) == [path]
