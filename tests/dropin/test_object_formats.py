"""llvm-symbolizer's options for Mach-O and PE files."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from tests.forge import pe
from tests.forge.macho import ARM64, X86_64, Symbol, fat, forge, text
from tests.helpers.drop_ins import link, tool
from tests.helpers.macho import BASE, dsym_of, program, put_dsym

ADDRESS = hex(BASE + 8)


def answers(*arguments: str, stdin: str = "") -> tuple[str, str, int]:
    done = subprocess.run(
        [link("llvm-symbolizer-19"), *arguments], input=stdin, capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout, done.stderr.rpartition("error: ")[2], done.returncode


@pytest.fixture
def both(tmp_path: Path) -> Path:
    path = tmp_path / "app"
    arm = forge([text()], symbols=[Symbol("_arm", BASE)], cpu=ARM64)
    path.write_bytes(fat((X86_64, program()), (ARM64, arm)))
    return path


def test_the_slice_of_a_fat_file_is_chosen_by_name_or_by_the_default(both: Path) -> None:
    assert answers(f"--obj={both}:arm64", ADDRESS)[0].split()[0] == "arm"
    assert answers("--default-arch=arm64", f"--obj={both}", ADDRESS)[0].split()[0] == "arm"
    assert answers("--default-arch=arm64", stdin=f"{both}:x86_64 {ADDRESS}\n")[0].split()[0] == "outer"


@pytest.mark.parametrize("arguments", [["--obj={}"], ["--obj={}:armv7"], ["--default-arch=i386", "--obj={}"]])
def test_without_such_a_slice_the_error_is_llvm_symbolizers(both: Path, arguments: list[str]) -> None:
    words = [word.format(both) for word in arguments]
    symbolizer = tool("llvm-symbolizer-19")
    theirs = subprocess.run([symbolizer, *words, ADDRESS], capture_output=True, text=True, check=False)
    assert answers(*words, ADDRESS) == (theirs.stdout, theirs.stderr.rpartition("error: ")[2], theirs.returncode)


def test_a_dsym_that_is_named_gives_lines_if_its_uuid_is_the_same(tmp_path: Path) -> None:
    app = tmp_path / "app"
    app.write_bytes(program())
    assert "a.c" not in answers(f"--obj={app}", ADDRESS)[0]
    bundle = put_dsym(tmp_path / "symbols", "any", dsym_of())
    assert answers(f"--dsym-hint={bundle}", f"--obj={app}", ADDRESS)[0].split()[:2] == ["inner", "a.c:3:0"]
    other = put_dsym(tmp_path / "others", "any", dsym_of(b"z" * 16))
    assert "a.c" not in answers(f"--dsym-hint={other}", f"--obj={app}", ADDRESS)[0]
    assert "outer" in answers("--dsym-hint=/nowhere.dSYM", f"--obj={app}", ADDRESS)[0]


def test_relative_addresses_count_from_the_image_base_of_pe_files_only(tmp_path: Path) -> None:
    path = tmp_path / "a.exe"
    path.write_bytes(pe.forge([pe.Section(".text", bytes(64), pe.CODE)], symbols=[pe.Symbol("f", 0)]))
    assert answers("--relative-address", f"--obj={path}", hex(pe.PAGE))[0].split()[0] == "f"
    assert answers(f"--obj={path}", hex(pe.BASE + pe.PAGE))[0].split()[0] == "f"
    app = tmp_path / "app"
    app.write_bytes(program())
    assert answers("--relative-address", f"--obj={app}", ADDRESS)[0].split()[0] == "outer"
