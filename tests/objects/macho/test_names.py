"""Names of Mach-O files through what people use: `whence.open` and the commands, with and without a dSYM."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

import whence
from tests.forge.macho import ARM64, UUID, X86_64, fat, forge, starts, text
from tests.helpers.macho import BASE, dsym_of, program, put_dsym
from tests.helpers.objects import SOURCE, chains_of, code_of, llvm_chains, tools
from whence._base.errors import MachoError

PROGRAM = """
#include <stdio.h>
static inline __attribute__((always_inline)) int square(int x) { return x * x + (x > 99 ? puts("large") : 1); }
__attribute__((noinline)) int sum(int n) {
    int total = 0;
    for (int i = 0; i < n; i++) total += square(i);
    return total;
}
int main(int argc, char **argv) { return sum(argc + 4) & 1; }
"""


def run(*words: str | Path, code: int = 0) -> str:
    done = subprocess.run(
        [sys.executable, "-m", "whence", *map(str, words)], capture_output=True, text=True, check=False
    )
    assert done.returncode == code, done.stderr
    return done.stdout + done.stderr


@pytest.fixture
def app(tmp_path: Path) -> Path:
    path = tmp_path / "app"
    path.write_bytes(program())
    return path


def functions_at(path: Path | str, vaddr: int) -> list[str]:
    with whence.open(path) as binary:
        return [frame.function for frame in binary.lookup(vaddr)]


def test_without_a_dsym_symbols_name_addresses_up_to_the_next_function_start(app: Path) -> None:
    assert functions_at(app, BASE + 8) == ["outer"]
    assert functions_at(app, BASE + 0x44) == ["last"]
    assert functions_at(app, BASE + 0x64) == ["last"]


def test_a_dsym_beside_the_file_gives_inlined_calls(app: Path) -> None:
    put_dsym(app.parent, "app", dsym_of())
    assert functions_at(app, BASE + 8) == ["inner", "outer"]
    assert run("addr", app, hex(BASE + 8)).split()[::2] == ["inner", "outer"]
    assert "(dSYM): the file is used" in run("explain", app, hex(BASE + 8))


def test_a_dsym_of_another_uuid_is_refused(app: Path) -> None:
    put_dsym(app.parent, "app", dsym_of(b"z" * 16))
    assert functions_at(app, BASE + 8) == ["outer"]
    assert f"the build-id is {(b'z' * 16).hex()}, expected {UUID.hex()}" in run("explain", app, hex(BASE + 8))


def test_a_dsym_is_found_by_its_uuid_in_a_debug_folder(app: Path, tmp_path: Path) -> None:
    debug = tmp_path / "debug"
    put_dsym(debug, "renamed", dsym_of())
    put_dsym(debug, "other", dsym_of(b"z" * 16))
    assert run("addr", app, hex(BASE + 8), "--debug-dir", debug).split()[::2] == ["inner", "outer"]
    digits = UUID.hex().upper()
    by_uuid = tmp_path / "links" / Path(*(digits[start : start + 4] for start in range(0, 20, 4)))
    by_uuid.mkdir(parents=True)
    (by_uuid / digits[20:]).write_bytes(dsym_of())
    assert run("addr", app, hex(BASE + 8), "--debug-dir", tmp_path / "links").split()[::2] == ["inner", "outer"]


def test_the_dsym_of_a_bundle_is_found_beside_the_bundle(tmp_path: Path) -> None:
    inside = tmp_path / "App.app" / "Contents" / "MacOS"
    inside.mkdir(parents=True)
    (inside / "app").write_bytes(program())
    put_dsym(tmp_path, "App.app", dsym_of())
    assert functions_at(inside / "app", BASE + 8) == ["inner", "outer"]


def test_the_right_slice_of_a_fat_dsym_is_used(app: Path, tmp_path: Path) -> None:
    both = fat((ARM64, dsym_of(b"a" * 16, ARM64)), (X86_64, dsym_of()))
    bundle = put_dsym(tmp_path / "given", "any", both)
    assert run("addr", app, hex(BASE + 8), "--binary", bundle).split()[::2] == ["inner", "outer"]
    put_dsym(app.parent, "app", both)
    assert functions_at(app, BASE + 8) == ["inner", "outer"]
    assert functions_at(f"{app.parent}/app.dSYM:x86_64", BASE + 8) == ["inner", "outer"]


def test_commands_take_a_slice_of_a_fat_file(tmp_path: Path) -> None:
    path = tmp_path / "fat"
    path.write_bytes(fat((X86_64, program()), (ARM64, program(ARM64))))
    assert run("build-id", path) == f"{UUID.hex()}  {path}:x86_64\n{UUID.hex()}  {path}:arm64\n"
    assert "name one of them, as in" in run("addr", path, hex(BASE), code=3)
    with pytest.raises(MachoError, match="2 architectures"):
        whence.open(path)
    assert run("addr", f"{path}:arm64", hex(BASE)).split()[0] == "outer"
    assert [line.split()[-1] for line in run("symbols", f"{path}:arm64").splitlines()] == ["outer", "last"]
    archive = tmp_path / "arm.lidia"
    run("lidia", "create", f"{path}:arm64", "-o", archive)
    with whence.open(archive) as binary:
        assert binary.build_id == UUID.hex()
        assert [frame.function for frame in binary.lookup(BASE + 0x41)] == ["last"]
    facts = json.loads(run("explain", f"{path}:arm64", "--json"))
    assert (facts["architecture"], facts["type"]) == ("arm64", "executable, 64-bit, aarch64")


def test_explain_says_where_an_unnamed_function_starts(tmp_path: Path) -> None:
    path = tmp_path / "stripped"
    path.write_bytes(forge([text()], function_starts=starts(0x40)))
    vaddr = BASE // 0x400 * 0x400 + 0x48
    said = run("explain", path, hex(vaddr), code=1)
    assert f"function start         {vaddr - 8:#x} + 0x8" in said
    assert "put the dSYM of UUID" in said


@pytest.mark.parametrize("target", ["aarch64-macos", "x86_64-macos"])
def test_whole_chains_of_a_real_program_are_those_of_llvm_symbolizer(tmp_path: Path, target: str) -> None:
    pytest.importorskip("ziglang")
    (dsymutil,) = tools("dsymutil-19")
    (tmp_path / "main.c").write_text(PROGRAM)
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", target, "-g", "-O1"]
    subprocess.run([*zig, "-c", "main.c", "-o", "main.o"], cwd=tmp_path, check=True)
    subprocess.run([*zig, "main.o", "-o", "main"], cwd=tmp_path, check=True)
    path = tmp_path / "main"
    subprocess.run([dsymutil, path], check=True)
    vaddrs = code_of(path)
    ours = chains_of(path, vaddrs)
    assert ours == llvm_chains(path, vaddrs)
    assert sum(len(chain) > 1 for chain in ours) > 10


@pytest.mark.parametrize("target", ["armv7k-apple-watchos6", "arm64_32-apple-watchos6", "arm64-apple-ios14"])
def test_object_files_of_every_arm_are_read_as_llvm_symbolizer_does(tmp_path: Path, target: str) -> None:
    (clang,) = tools("clang-19")
    (tmp_path / "a.c").write_text(SOURCE)
    flags = [f"--target={target}", "-g", "-O1", "-ffreestanding"]
    subprocess.run([clang, *flags, "-c", "a.c", "-o", "a.o"], cwd=tmp_path, check=True)
    vaddrs = code_of(tmp_path / "a.o")
    ours = chains_of(tmp_path / "a.o", vaddrs)
    assert ours == llvm_chains(tmp_path / "a.o", vaddrs)
    assert sum(len(chain) > 1 for chain in ours) > 5
