"""Functions of real binaries of many machines, as nm lists them: 32 and 64 bit, both byte orders."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from whence._base.model import Source
from whence.objects.elf import ElfFile, functions

SOURCE = """
extern int puts(const char *);
int f(void) { return puts("x"); }
static __attribute__((noinline)) int g(int n) { return n * n + 1; }
int h(int n) { return g(n) + g(n + 1); }
"""
TARGETS = [
    "thumb",
    "arm",
    "aarch64",
    "x86",
    "x86_64",
    "riscv64",
    "s390x",
    "mips",
    "mips64el",
    "powerpc64",
    "powerpc64le",
]


@pytest.mark.skipif(not shutil.which("llvm-nm"), reason="llvm-nm is not on this machine")
@pytest.mark.parametrize("target", TARGETS)
def test_functions_are_those_that_nm_lists(target: str, tmp_path: Path) -> None:
    pytest.importorskip("ziglang")
    source, out = tmp_path / "a.c", tmp_path / "a.so"
    source.write_text(SOURCE)
    command = [
        sys.executable,
        "-m",
        "ziglang",
        "cc",
        "-target",
        f"{target}-linux-musl",
        "-nostdlib",
        "-shared",
        "-fPIC",
    ]
    made = subprocess.run([*command, "-O1", "-g", str(source), "-o", str(out)], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"this compiler does not make {target}: {made.stderr[:200]}")
    listing = subprocess.run(["llvm-nm", "-S", "--defined-only", str(out)], capture_output=True, text=True).stdout
    theirs = set()
    for line in listing.splitlines():
        words = line.split()
        if len(words) == 4 and words[2] in "tT" and int(words[1], 16):
            theirs.add((int(words[0], 16), int(words[1], 16), words[3]))
    assert {"f", "h"} <= {name for _, _, name in theirs}
    with ElfFile.open(out) as elf:
        assert elf.problems == []
        ranges = functions(elf)
        rows = zip(ranges.vaddr, ranges.length, ranges.function, ranges.source)
        ours = {
            (vaddr, size, ranges.strings.text(name)) for vaddr, size, name, kind in rows if kind != Source.PLT.number
        }
        exported = functions(elf, sources=[Source.MINIDEBUG, Source.DYNSYM])
        assert {"f", "h"} == {exported.strings.text(name) for name in exported.function}
    assert ours == theirs
