"""Callers and callees of functions, and what go tool pprof says of them."""

from __future__ import annotations

import json
import re
import subprocess
from collections import Counter
from pathlib import Path
from random import Random

import pytest

from tests.helpers import golang
from tests.helpers.profiles import profile_of
from whence.cli import main
from whence.profiles import Profile
from whence.profiles.callers import CallEdge, callers

STACKS = [(["main", "parse", "alloc"], 5), (["main", "alloc"], 2), (["main", "parse"], 3), (["idle"], 4)]


def edges(found: list[CallEdge]) -> dict[str, int]:
    return {edge.function: edge.value for edge in found}


def test_values_are_of_the_stacks_in_which_one_calls_the_other() -> None:
    table = callers(profile_of(STACKS), "^alloc$")
    (row,) = table.rows
    assert (row.self, row.total, table.total) == (7, 7, 14)
    assert edges(row.callers) == {"parse": 5, "main": 2}
    assert row.callees == []
    (parse,) = callers(profile_of(STACKS), "^parse$").rows
    assert (parse.self, parse.total, edges(parse.callers), edges(parse.callees)) == (3, 8, {"main": 8}, {"alloc": 5})


def test_recursion_counts_once_per_stack() -> None:
    (row,) = callers(profile_of([(["main", "f", "f", "f", "g", "f"], 3)]), "^f$").rows
    assert (row.self, row.total) == (3, 3)
    assert edges(row.callers) == {"g": 3, "main": 3}
    assert edges(row.callees) == {"g": 3}


def test_more_functions_and_neighbours_than_requested_are_left_out() -> None:
    profile = profile_of([(["main", f"f{number}"], number + 1) for number in range(5)])
    table = callers(profile, "f", rows=2)
    assert [row.function for row in table.rows] == ["f4", "f3"]
    assert table.functions == 5
    (row,) = callers(profile, "main", neighbours=3).rows
    assert edges(row.callees) == {"f4": 5, "f3": 4, "f2": 3}


def test_a_pattern_that_is_no_expression_is_refused() -> None:
    with pytest.raises(ValueError, match="invalid regular expression"):
        callers(profile_of(STACKS), "(")


@pytest.mark.oracle
def test_go_tool_pprof_counts_the_same(tmp_path: Path) -> None:
    random = Random(7)
    stacks = [
        ([f"f{random.randrange(8)}" for _ in range(random.randrange(1, 7))], random.randrange(1, 9)) for _ in range(60)
    ]
    profile = Profile.of(profile_of(stacks))
    profile.write(tmp_path / "cpu.pb.gz")
    root = golang.goroot()
    command = [str(root / "bin" / "go"), "tool", "pprof", "-peek", "f[0-7]", "-nodefraction=0", "-edgefraction=0"]
    done = subprocess.run(
        [*command, "cpu.pb.gz"], cwd=tmp_path, env=golang.environment(root), capture_output=True, text=True, check=True
    )
    expected: dict[str, tuple[Counter[str], Counter[str]]] = {}
    for block in re.split(r"-{20,}\+-+", done.stdout):
        rows = [line for line in block.splitlines() if line.strip() and "flat%" not in line]
        middle = [number for number, line in enumerate(rows) if line.split("|")[0].count("%") == 3]
        if len(middle) == 1:
            name = rows[middle[0]].split("|")[1].split()[0]
            groups = rows[: middle[0]], rows[middle[0] + 1 :]
            expected[name] = tuple(  # type: ignore[assignment]
                Counter({row.split("|")[1].split()[0]: int(row.split()[0]) for row in group}) for group in groups
            )
    result = callers(profile, "f", rows=0, neighbours=0).rows
    assert len(expected) == len(result) == 8
    assert {row.function: (edges(row.callers), edges(row.callees)) for row in result} == expected


def test_the_command_prints_text_and_json(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folded = tmp_path / "stacks.folded"
    folded.write_text("".join(f"{';'.join(stack)} {value}\n" for stack, value in STACKS))
    assert main(["profile", str(folded), "--callers", "^parse$"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "parse"
    assert [line.split() for line in lines[2:]] == [
        ["called", "by", "8", "100.0%", "main"], ["calls", "5", "62.5%", "alloc"],
    ]  # fmt: skip
    assert main(["profile", str(folded), "--callers", "^alloc$", "--json"]) == 0
    row = json.loads(capsys.readouterr().out)
    assert [edge["function"] for edge in row["callers"]] == ["parse", "main"]
    assert main(["profile", str(folded), "--callers", "nothing"]) == 1
    assert "no function with samples matches 'nothing'" in capsys.readouterr().err
    assert main(["profile", str(folded), "--callers", "main", "--top", "5"]) == 2
    assert "--callers prints functions and cannot be used with --top" in capsys.readouterr().err
