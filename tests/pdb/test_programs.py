"""Programs that real compilers and linkers made: whole chains against symbolic and llvm-symbolizer."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import whence
from tests.helpers.windows import program
from tests.oracle import pdb_records
from whence.objects.opening import open_object
from whence.objects.pe import PeFile

BUILDS = [("x86_64", "-O1"), ("x86_64", "-O2 -gcolumn-info"), ("x86_64", "-O0"), ("aarch64", "-O2")]
Chain = list[tuple[str, int]]


def code_of(path: Path) -> tuple[int, list[int]]:
    """Return the image base and every RVA of code."""
    with open_object(path) as file:
        assert isinstance(file, PeFile)
        base = file.header.base
        return base, [vaddr - base for start, end in file.code_ranges() for vaddr in range(start, end)]


def ours(path: Path, vaddrs: list[int]) -> list[Chain]:
    with whence.open(path) as binary:
        assert not binary.problems
        return [[(Path(frame.file).name, frame.line) for frame in binary.lookup(vaddr)] for vaddr in vaddrs]


@pytest.mark.parametrize(("machine", "flags"), BUILDS)
def test_whole_chains_are_those_of_symbolic(machine: str, flags: str) -> None:
    symbolic = pytest.importorskip("symbolic")
    path = program(machine, flags)
    base, rvas = code_of(path)
    table = next(symbolic.Archive.open(str(path.with_suffix(".pdb"))).iter_objects()).make_symcache()
    theirs = [[(Path(each.full_path or "").name, each.line) for each in table.lookup(rva)] for rva in rvas]
    from_program = ours(path, [base + rva for rva in rvas])
    compared = [(mine, other) for mine, other in zip(from_program, theirs, strict=True) if other]  # not padding
    assert [mine for mine, _ in compared] == [other for _, other in compared]
    assert len(compared) > 0.9 * len(rvas)
    assert (sum(len(other) > 1 for _, other in compared) > 100) == (flags != "-O0")
    assert ours(path.with_suffix(".pdb"), rvas) == from_program


@pytest.mark.parametrize(("machine", "flags"), BUILDS)
def test_names_are_those_of_llvm_symbolizer(machine: str, flags: str) -> None:
    symbolizer = shutil.which("llvm-symbolizer-19") or shutil.which("llvm-symbolizer")
    if symbolizer is None:
        pytest.skip("llvm-symbolizer is not installed")
    path = program(machine, flags)
    base, rvas = code_of(path)
    done = subprocess.run(
        [symbolizer, f"--obj={path}", "--output-style=JSON", "--no-demangle"],
        input="\n".join(hex(base + rva) for rva in rvas), capture_output=True, text=True, check=True,
    )  # fmt: skip
    with whence.open(path, names="linkage", columns=True) as binary:
        for line, rva in zip(done.stdout.splitlines(), rvas, strict=True):
            chain = [frame for frame in json.loads(line)["Symbol"] if frame["FunctionName"]]
            mine = binary.lookup(base + rva)
            assert [frame.function for frame in mine] == [frame["FunctionName"] for frame in chain], hex(rva)
            if len(chain) == 1 and machine == "x86_64":  # of two rows at one address LLVM takes the first
                assert (mine[0].line, mine[0].column) == (chain[0]["Line"], chain[0]["Column"]), hex(rva)


def test_an_archive_answers_like_the_program(tmp_path: Path) -> None:
    path = program(*BUILDS[0])
    base, rvas = code_of(path)
    vaddrs = [base + rva for rva in rvas]
    created = whence.lidia.create(path, tmp_path / "program.lidia")
    assert created.debug_file == str(path.with_suffix(".pdb"))
    assert created.sources["pdb"] > 100
    assert ours(tmp_path / "program.lidia", vaddrs) == ours(path, vaddrs)


def test_commands_read_the_program_and_the_pdb_file() -> None:
    path = program(*BUILDS[0])
    base, _ = code_of(path)
    with whence.open(path) as binary:
        rva = binary.find("step<24>")[0].vaddr - base

    def run(*words: str) -> str:
        full = [sys.executable, "-m", "whence", *words]
        return subprocess.run(full, capture_output=True, text=True, check=True).stdout

    pdb = str(path.with_suffix(".pdb"))
    assert "step<24>" in run("addr", str(path), hex(base + rva)) == run("addr", pdb, hex(rva))
    assert "next to the file" in run("explain", str(path), hex(base + rva))
    assert "PDB: " in run("explain", str(path))
    assert "public symbols: " in run("explain", pdb)
    assert f"{base + rva:016x}" in run("symbols", str(path))
    assert run("build-id", str(path)).split()[0] == run("build-id", pdb).split()[0]


@pytest.mark.parametrize(("machine", "flags"), BUILDS)
def test_whole_chains_are_those_of_the_records_that_llvm_pdbutil_prints(machine: str, flags: str) -> None:
    if not any(map(shutil.which, pdb_records.TOOLS)):
        pytest.skip("llvm-pdbutil is not installed")
    result = pdb_records.compare(program(machine, flags).with_suffix(".pdb"))
    assert (result.differing, result.examples) == ({}, {})
    assert result.compared > 5000
