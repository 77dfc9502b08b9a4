"""`whence demo DIR` writes the files that the guides use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

import whence
from tools import demo_files
from whence.cli.demo_files import FILES
from whence.cli.main import main


def test_the_files_are_written_and_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "new" / "demo"
    assert main(["demo", str(folder)]) == 0
    assert [line.split()[0] for line in capsys.readouterr().out.splitlines()] == list(FILES)
    files = {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}
    assert files | {"image/"} == set(FILES)
    assert (folder / "image").is_dir()
    assert os.access(folder / "app", os.X_OK)
    with whence.open(folder / "app") as app:
        assert app.build_id in (folder / "samples.csv").read_text()
        assert [frame.function for frame in app.lookup(app.find("sum")[0].vaddr)] == ["sum"]


def test_files_are_never_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "app").write_text("mine")
    for folder in (tmp_path, tmp_path / "app"):
        assert main(["demo", str(folder)]) == 2
        assert "exists and is not an empty folder: give another one" in capsys.readouterr().err
    assert os.listdir(tmp_path) == ["app"]


def test_the_source_is_the_one_that_the_program_was_built_from(tmp_path: Path) -> None:
    assert main(["demo", str(tmp_path / "demo")]) == 0
    assert (tmp_path / "demo" / "app.c").read_text() == demo_files.SOURCE
    assert (tmp_path / "demo" / "perf.data").read_bytes() == (demo_files.DATA / "perf" / "plain.data").read_bytes()
