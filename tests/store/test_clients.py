"""Other programs with a store served by a plain web server: python -m http.server."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.stores import Files, web_server
from whence.store import Store


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory, files: Files) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("served")
    with Store(folder) as store:
        store.add(files.debug, files.stripped)
    with web_server(folder) as address:
        yield address


def run(url: str, cache: Path, *command: object) -> str:
    """Return the output of a program that gets files from the server only."""
    words = [str(word) for word in command]
    if shutil.which(words[0]) is None:
        pytest.skip(f"{words[0]} is not on this machine")
    environment = {"PATH": os.environ["PATH"], "HOME": str(cache), "DEBUGINFOD_URLS": url,
                   "DEBUGINFOD_CACHE_PATH": str(cache)}  # fmt: skip
    done = subprocess.run(words, env=environment, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("kind", ["debuginfo", "executable"])
@pytest.mark.parametrize("program", ["debuginfod-find", "llvm-debuginfod-find-14"])
def test_debuginfod_clients_find_both_kinds(url: str, files: Files, tmp_path: Path, program: str, kind: str) -> None:
    words = [kind, files.build_id] if program == "debuginfod-find" else [f"--{kind}", files.build_id]
    result = run(url, tmp_path, program, *words).strip()
    expected = files.debug if kind == "debuginfo" else files.stripped
    assert Path(result).read_bytes() == expected.read_bytes()


def test_eu_addr2line_names_a_stripped_program(url: str, files: Files, tmp_path: Path) -> None:
    out = run(url, tmp_path, "eu-addr2line", "-f", "-e", files.stripped, hex(files.vaddr))
    assert out.splitlines()[0] == "sum"
    assert "program.c:" in out


def test_llvm_symbolizer_names_a_stripped_program(url: str, files: Files, tmp_path: Path) -> None:
    out = run(url, tmp_path, "llvm-symbolizer-14", f"--obj={files.stripped}", hex(files.vaddr))
    assert "sum" in out
    assert "program.c:" in out


def test_gdb_names_a_stripped_program(url: str, files: Files, tmp_path: Path) -> None:
    out = run(url, tmp_path, "gdb", "-nx", "-batch", "-iex", "set debuginfod enabled on", "-ex",
              f"info line *{files.vaddr:#x}", files.stripped)  # fmt: skip
    assert "program.c" in out
    assert "<sum>" in out


def test_gdb_takes_debug_files_from_the_copies_of_its_layout(files: Files, tmp_path: Path) -> None:
    with Store(tmp_path / "store") as store:
        store.add(files.debug, layouts=["gdb"])
    out = run("", tmp_path, "gdb", "-nx", "-batch", "-iex", f"set debug-file-directory {tmp_path / 'store'}", "-ex",
              f"info line *{files.vaddr:#x}", files.stripped)  # fmt: skip
    assert "program.c" in out
