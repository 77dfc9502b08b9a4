"""whence size: tables, JSON, growth and the check for CI."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.forge.elf import Section, forge
from tests.helpers.programs import compiled
from whence.cli import main
from whence.cli.size import amount

OLD = "int f(int x) { return x * 3; }\nint g(int x) { return x - 1; }\nint main(void) { return f(1) + g(2); }\n"
NEW = OLD.replace("int g(int x) { return x - 1; }", "double h(double x) { return x / 3 + 2; }\n")
NEW = NEW.replace("f(1) + g(2)", "f(1) + f(2) * (int)h(3) + f(4) * f(5)")


@pytest.fixture(scope="module")
def builds(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, str]:
    compiled()  # skips without a compiler
    paths = []
    for name, text in (("old", OLD), ("new", NEW)):
        folder = tmp_path_factory.mktemp(name)
        (folder / "program.cc").write_text(text)
        subprocess.run(["g++", "-O0", "-g", "program.cc", "-o", "program"], cwd=folder, check=True)
        paths.append(str(folder / "program"))
    return paths[0], paths[1]


def rows(output: str) -> dict[str, dict[str, Any]]:
    return {row["name"]: row for row in map(json.loads, output.splitlines())}


def test_the_largest_rows_are_printed_and_the_rest_is_summed(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", str(compiled()), "-n", "2"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["bytes", "share", "function"]
    assert "others]" in lines[3]
    numbers = [int(line.split()[0].replace(",", "")) for line in lines[1:]]
    assert sum(numbers[:3]) == numbers[3]
    assert numbers[0] >= numbers[1]


def test_json_has_every_row(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", str(compiled()), "--json", "--section", ".text"]) == 0
    result = rows(capsys.readouterr().out)
    assert result["main"]["kind"] == "name"
    assert main(["size", str(compiled()), "--json", "--by", "section"]) == 0
    assert sum(row["bytes"] for row in result.values()) == rows(capsys.readouterr().out)[".text"]["bytes"]


def test_growth_names_what_is_new_gone_and_grown(builds: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    old, new = builds
    assert main(["size", new, "--base", old, "--json"]) == 0
    result = rows(capsys.readouterr().out)
    assert {name: result[name]["change"] for name in ("main", "h(double)", "g(int)")} == {
        "main": "grown", "h(double)": "new", "g(int)": "gone",
    }  # fmt: skip
    assert "f(int)" not in result
    totals = []
    for path in builds:
        assert main(["size", path, "--json"]) == 0
        totals.append(sum(row["bytes"] for row in rows(capsys.readouterr().out).values()))
    assert sum(row["growth"] for row in result.values()) == totals[1] - totals[0] > 0
    assert main(["size", new, "--base", old, "-n", "1"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0].split() == ["growth", "bytes", "change", "function"]
    assert lines[-1].split()[0] == f"+{totals[1] - totals[0]}"
    assert f"was {totals[0]:,}" in lines[-1]


def test_growth_by_file_needs_the_same_paths(builds: tuple[str, str], capsys: pytest.CaptureFixture[str]) -> None:
    old, new = builds
    prefixes = [word for path in builds for word in ("--path-prefix", f"{Path(path).parent}=src")]
    assert main(["size", new, "--base", old, "--by", "file", "--json", *prefixes]) == 0
    assert rows(capsys.readouterr().out)["src/program.cc"]["change"] == "grown"


@pytest.mark.parametrize(("limit", "code"), [("0", 4), ("1", 4), ("1MiB", 0), ("0.1%", 4), ("1000%", 0)])
def test_growth_beyond_the_limit_has_an_exit_code_of_its_own(
    builds: tuple[str, str], capsys: pytest.CaptureFixture[str], limit: str, code: int
) -> None:
    old, new = builds
    assert main(["size", new, "--base", old, "--max-growth", limit]) == code
    assert ("more than --max-growth allows" in capsys.readouterr().err) == (code == 4)
    assert main(["size", old, "--base", new, "--max-growth", "0"]) == 0


def test_a_limit_needs_a_build_to_compare_with(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["size", str(compiled()), "--max-growth", "1%"]) == 2
    assert "--max-growth needs the build to compare with: --base OLD" in capsys.readouterr().err


@pytest.mark.parametrize("word", ["", "x", "1 TB", "-1", "1%%", "1e9"])
def test_a_limit_is_bytes_or_a_percentage(word: str) -> None:
    with pytest.raises(ValueError):
        amount(word)


def test_code_without_any_name_is_told_by_the_exit_code(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stripped = tmp_path / "stripped"
    stripped.write_bytes(forge([Section(".text", b"\xc3" * 16, flags=6, vaddr=0x1000)]))
    assert main(["size", str(stripped)]) == 1
    assert "no code has a name" in capsys.readouterr().err
    assert main(["size", str(stripped), "--by", "section"]) == 0
