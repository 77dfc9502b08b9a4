"""`whence explain`: every step of the chain for one address, and what to do when it ends early."""

from __future__ import annotations

import ctypes
import json
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.helpers.programs import compiled
from whence.archive.create import create
from whence.cli import main
from whence.objects.elf import ElfFile

Said = pytest.CaptureFixture[str]


def address_of(path: Path, name: str) -> int:
    with ElfFile.open(path) as elf:
        symbols = elf.symbols(".symtab")
        return next(symbols.value[i] for i in range(len(symbols)) if symbols.name(i) == name)


def steps(capfd: Said, *words: str) -> tuple[int, list[tuple[str, str]]]:
    status = main(["explain", *words, "--json"])
    said = json.loads(capfd.readouterr().out)
    assert said["answered"] is (status == 0)
    return status, [(step["what"], step["outcome"]) for step in said["steps"]]


def test_a_named_address_shows_each_source_the_ranges_and_the_answer(capfd: Said) -> None:
    status, chain = steps(capfd, str(compiled()), hex(address_of(compiled(), "sum")))
    said = dict(chain)
    assert status == 0
    assert "executable" in said["segment"]
    assert said["section"].startswith(".text + ")
    assert "(itself): the file is used" in said["debug file"]
    assert "sum" in said["DWARF"]
    assert said["symbols"] == "sum"
    assert said[".gopclntab"] == "none: not a Go program"
    assert "depth 0 sum; line row" in said["range"]
    assert said["answer"].endswith("by dwarf")


def test_a_stripped_file_says_which_debug_files_were_looked_for(tmp_path: Path, capfd: Said) -> None:
    if not shutil.which("strip"):
        pytest.skip("no strip on this machine (binutils)")
    bare = tmp_path / "bare"
    subprocess.run(["strip", "-o", str(bare), str(compiled())], check=True)
    status, chain = steps(capfd, str(bare), hex(address_of(compiled(), "sum")), "--debug-dir", str(tmp_path))
    said = [outcome for what, outcome in chain if what == "debug file"]
    assert status == 1
    assert any(str(tmp_path / ".build-id") in each and "does not exist" in each for each in said)
    assert "the file is stripped" in dict(chain)["answer"]
    assert "--binary FILE.debug" in dict(chain)["to do"]
    assert "debuginfod" not in dict(chain)["to do"]


def test_names_from_elsewhere_are_shown_with_where_they_came_from(tmp_path: Path, capfd: Said) -> None:
    if not shutil.which("strip"):
        pytest.skip("no strip on this machine (binutils)")
    bare, archive = tmp_path / "bare", tmp_path / "full.lidia"
    subprocess.run(["strip", "-o", str(bare), str(compiled())], check=True)
    create(compiled(), archive)
    status, chain = steps(capfd, str(bare), hex(address_of(compiled(), "sum")), "--archive-dir", str(tmp_path))
    assert status == 0
    assert ("elsewhere", f"archive folder {archive}") in chain
    assert any(what == "answer" and "sum" in outcome for what, outcome in chain)


def test_an_address_outside_the_code_is_explained(capfd: Said) -> None:
    status, chain = steps(capfd, str(compiled()), "0x7fffffffff")
    assert status == 1
    assert dict(chain)["segment"] == "none loads 0x7fffffffff"
    assert "runtime address or a file offset" in dict(chain)["to do"]


def test_an_archive_answers_with_its_ranges(tmp_path: Path, capfd: Said) -> None:
    create(compiled(), tmp_path / "a.lidia")
    status, chain = steps(capfd, str(tmp_path / "a.lidia"), hex(address_of(compiled(), "sum")))
    assert status == 0
    assert "sum" in dict(chain)["answer"]


def test_a_runtime_address_is_followed_from_mapping_to_answer(capfd: Said) -> None:
    malloc = ctypes.cast(ctypes.CDLL(None).malloc, ctypes.c_void_p).value
    assert malloc is not None
    status, chain = steps(capfd, str(os.getpid()), hex(malloc))
    said = dict(chain)
    assert status == 0
    assert "r-xp file" in said["mapping"]
    assert said["opened"].startswith("/")
    assert "malloc" in said["answer"]


def test_a_runtime_address_that_nothing_maps_has_its_reason(capfd: Said) -> None:
    status, chain = steps(capfd, str(os.getpid()), "0x10")
    assert status == 1
    assert "no mapping of the process" in dict(chain)["answer"]


def test_text_is_a_line_a_step_and_wrong_words_are_refused(capfd: Said) -> None:
    assert main(["explain", str(compiled()), hex(address_of(compiled(), "sum"))]) == 0
    assert capfd.readouterr().out.splitlines()[-1].startswith("+ answer ")
    assert main(["explain", str(compiled()), "zzz"]) == 2
    assert main(["explain", "/not/there", "1"]) == 3


def test_an_address_of_the_kernel_is_said_to_be_one(capfd: Said) -> None:
    status, chain = steps(capfd, str(os.getpid()), "ffffffff81001000")
    assert dict(chain)["mapping"] == "an address of the kernel"
    assert status == (0 if "kallsyms" in dict(chain)["answer"] else 1)
