"""`whence listing`: what people see."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.programs import compiled
from whence.cli import main

pytest.importorskip("capstone")


def run(capsys: pytest.CaptureFixture[str], *words: str | Path) -> tuple[int, str, str]:
    status = main(["listing", *map(str, words)])
    captured = capsys.readouterr()
    return status, captured.out, captured.err


def test_source_and_instructions_are_printed(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, compiled(), "sum", "main")
    assert (status, err) == (0, "")
    assert re.search(r"^sum at .*program\.c:7 \[0x[0-9a-f]+, 0x[0-9a-f]+\)$", out, re.MULTILINE)
    assert re.search(r"^main at .*program\.c:13 ", out, re.MULTILINE)
    assert "    program.c:5 twice (inlined) |     return square(x) + square(x + 1);" in out
    assert re.search(r"^ +[0-9a-f]+  call 0x[0-9a-f]+ <sum>$", out, re.MULTILINE)


def test_syntax_and_bytes_are_options(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, compiled(), "main", "--att", "--raw-bytes")
    assert re.search(r"^ +[0-9a-f]+  e8 .. .. .. .. +callq? 0x[0-9a-f]+ <sum>$", out, re.MULTILINE)


def test_json_has_instructions_lines_and_origins(capsys: pytest.CaptureFixture[str]) -> None:
    _, out, _ = run(capsys, compiled(), "sum", "--json")
    result = json.loads(out)
    assert result["function"] == "sum"
    assert result["instructions"][0]["vaddr"] == result["spans"][0][0]
    assert {line["function"] for line in result["lines"]} == {"sum", "twice", "square"}
    assert [source["origin"] for source in result["sources"].values()] == ["its own path"]


def test_unknown_functions_are_reported_and_the_rest_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    status, out, err = run(capsys, compiled(), "sum", "no_such")
    assert status == 1
    assert "sum at " in out
    assert err == f"whence listing: {compiled()}: no function 'no_such'\n"
    assert run(capsys, compiled(), "no_such")[0] == 2
    status, _, err = run(capsys, compiled(), "0x20,0x10")
    assert (status, err) == (2, "whence: 0x20,0x10: the end is not after the start\n")


def test_an_archive_gets_code_from_the_executable(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    archive = tmp_path / "app.lidia"
    assert main(["lidia", "create", str(compiled()), "-o", str(archive)]) == 0
    capsys.readouterr()
    status, out, _ = run(capsys, archive, "sum", "--no-cache")
    assert status == 0
    assert "note: no instructions: the file has no code, give the executable" in out
    _, with_code, _ = run(capsys, archive, "sum", "--no-cache", "--binary", compiled())
    assert with_code == run(capsys, compiled(), "sum")[1]


def test_missing_sources_are_found_elsewhere(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    (tmp_path / "moved").mkdir()
    source = tmp_path / "a.c"
    source.write_text("int main(void) { return 3; }  // \x1b[2J\n")
    subprocess.run(["gcc", "-g", source, "-o", tmp_path / "a"], check=True)
    source.rename(tmp_path / "moved" / "a.c")
    _, out, _ = run(capsys, tmp_path / "a", "main")
    assert "note: no source of " in out
    assert "give --source-dir, --path-prefix OLD=NEW, --git REPO@REV, --store or --debuginfod" in out
    for option in (["--source-dir", tmp_path / "moved"], ["--path-prefix", f"{tmp_path}={tmp_path}/moved"]):
        _, out, _ = run(capsys, tmp_path / "a", "main", *option)
        assert "a.c:1 | int main(void) { return 3; }  // \\x1b[2J" in out
        assert f"from {tmp_path}/moved" in out


def test_a_store_has_the_sources(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    source = tmp_path / "a.c"
    source.write_text("int main(void) { return 3; }\n")
    subprocess.run(["gcc", "-g", source, "-o", tmp_path / "a"], check=True)
    store = tmp_path / "store"
    assert main(["store", "add", str(store), str(tmp_path / "a"), "--sources", str(tmp_path)]) == 0
    source.unlink()
    capsys.readouterr()
    _, out, _ = run(capsys, tmp_path / "a", "main", "--store", store, "--no-cache")
    assert "a.c:1 | int main(void) { return 3; }" in out
    assert f"from the store {store}" in out


def test_without_capstone_the_command_says_how_to_install_it(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "capstone", None)
    status, _, err = run(capsys, compiled(), "sum")
    assert status == 2
    assert "pip install 'whence[asm]'" in err
    assert run(capsys, compiled(), "sum", "--lines")[0] == 0
