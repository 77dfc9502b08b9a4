"""Boundaries and targets of whole files beside objdump and llvm-objdump, for each machine that has a disassembler."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from whence.listing.build import CodeReader
from whence.objects.elf import ElfFile

pytest.importorskip("capstone")

SOURCE = """
static int table[64];
int counter = 5;
static const char text[] = "hello there";
__attribute__((noinline)) int leaf(int x) { return x * 3 + table[x & 63]; }
__attribute__((noinline)) int work(int n, int (*call)(const char *)) {
    int total = 0;
    for (int i = 0; i < n; i++) {
        switch (i % 7) {
        case 0: total += leaf(i); break;
        case 1: total ^= i << 3; break;
        case 2: total -= counter; break;
        case 5: total += call(text + i); break;
        default: total += i / 3;
        }
        if (total > 1000000) break;
    }
    counter = total;
    return total;
}
int entry(int n, int (*call)(const char *)) { return work(n, call) + leaf(n); }
"""
TARGETS = (
    "x86_64-linux-gnu", "x86-linux-gnu", "aarch64-linux-gnu", "arm-linux-gnueabihf", "thumb-linux-musleabihf",
    "riscv64-linux-gnu", "powerpc64le-linux-gnu", "s390x-linux-gnu", "mips-linux-gnueabi", "mips64el-linux-gnuabi64",
)  # fmt: skip
ROW = re.compile(r"\s*([0-9a-f]+):\s+(\S+)(?:\s+(.*))?$")
NAMED = re.compile(r"(?:# )?\b(?:0x)?([0-9a-f]+) <([^>+]+)")
BRANCHES = re.compile(r"call|jmp|j\w+|b\w*(\.\w+)?|cbn?z|tbn?z|jal")


def rows(program: str, path: Path, *options: str) -> dict[int, tuple[str, str]]:
    """Return mnemonic and operands by vaddr, as another disassembler prints them."""
    tool = shutil.which(program)
    if tool is None:
        pytest.skip(f"{program} is not installed")
    command = [tool, "-d", "-z", "--no-show-raw-insn", *options, str(path)]
    text = subprocess.run(command, capture_output=True, text=True, errors="replace", check=True).stdout
    return {int(result[1], 16): (result[2], result[3] or "") for result in map(ROW.match, text.splitlines()) if result}


@pytest.mark.parametrize("target", TARGETS)
def test_instructions_and_targets_of_branches_are_those_of_llvm_objdump(target: str, tmp_path: Path) -> None:
    (tmp_path / "m.c").write_text(SOURCE)
    zig = [sys.executable, "-m", "ziglang", "cc", "-target", target, "-O2", "-g", "-fPIC", "-shared", "-nostdlib"]
    made = subprocess.run([*zig, "m.c", "-o", "m.so"], cwd=tmp_path, capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"zig cannot build for {target}: {made.stderr[-200:]}")
    theirs = rows("llvm-objdump-19", tmp_path / "m.so")
    with ElfFile.open(tmp_path / "m.so") as elf:
        reader = CodeReader.of_file(elf)
        code = [section for section in elf.sections if section.executable and section.size]
        mine = [each for s in code for each in reader.instructions(s.vaddr, s.vaddr + s.size)]
    assert {each.vaddr for each in mine if each.mnemonic not in (".word", ".byte")} <= theirs.keys()
    assert theirs.keys() <= {each.vaddr for each in mine}
    branches = 0
    for each in mine:
        mnemonic, operands = theirs.get(each.vaddr, ("", ""))
        named = NAMED.search(operands)
        if named and BRANCHES.fullmatch(mnemonic):
            assert each.target == int(named[1], 16), each
            assert each.is_jump or each.is_call
            label = (
                named[2].startswith((".L", "$")) or each.target_name.startswith(".plt") or "@plt" in each.target_name
            )
            assert label or each.target_name.partition("+")[0] == named[2], each
            branches += 1
    assert branches >= 10 or target.startswith("s390x")  # llvm-objdump names none there


def compared(path: Path, start: int, end: int) -> None:
    theirs = rows("objdump", path, "-M", "intel", f"--start-address={start:#x}", f"--stop-address={end:#x}")
    with ElfFile.open(path) as elf:
        mine = CodeReader.of_file(elf).instructions(start, end)
    assert [each.vaddr for each in mine] == sorted(theirs)
    for each in mine:
        named = NAMED.search(theirs[each.vaddr][1])
        assert each.target == (int(named[1], 16) if named else 0), each


def library(name: str) -> Path:
    for folder in (Path("/lib/x86_64-linux-gnu"), Path("/usr/lib/x86_64-linux-gnu"), Path("/lib64")):
        if (folder / name).exists():
            return folder / name
    pytest.skip(f"{name} for x86-64 is not installed")


@pytest.mark.parametrize("name", ["libc.so.6", "libstdc++.so.6"])
def test_boundaries_and_targets_of_a_library_are_those_of_objdump(name: str) -> None:
    path = library(name)
    with ElfFile.open(path) as elf:
        text = elf.section(".text")
        assert text is not None
        start = text.vaddr
    compared(path, start, start + 0x8000)


@pytest.mark.oracle
@pytest.mark.parametrize("name", ["libc.so.6", "libstdc++.so.6"])
def test_boundaries_and_targets_of_a_whole_library_are_those_of_objdump(name: str) -> None:
    path = library(name)
    with ElfFile.open(path) as elf:
        text = elf.section(".text")
        assert text is not None
        start, end = text.vaddr, text.vaddr + text.size
    compared(path, start, end)
