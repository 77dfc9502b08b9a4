"""Programs by every compiler this machine has, one for each language and machine: whole chains against other tools.

A line of the table is skipped where its compiler is missing. Sources are in tests/data/producers; the C++ ones are
built with flags that change the debug info's shape, and for other machines.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.oracle.compare import compare_file

pytestmark = pytest.mark.oracle

SOURCES = Path(__file__).parent.parent / "data" / "producers"
COUNT = 1000
LEAST = 0.99  # what stays has more than one true name: folded functions, labels inside of assembly

LANGUAGES = {
    "ada": "gnatmake -q -g -O2 words.adb -o program",
    "assembly": "nasm -g -F dwarf -felf64 spin.asm -o spin.o && ld spin.o -o program",
    "crystal": "crystal build -d -o program shapes.cr",
    "d gcc": "gdc -g -O2 shapes.d -o program",
    "d llvm": "ldc2 -g -O2 -of=program shapes.d",
    "fortran": "gfortran -g -O3 shapes.f90 -o program",
    "go gcc": "gccgo -g -O2 words.go -o program",
    "haskell": "ghc -g3 -O2 Shapes.hs -o program",
    "nim": "nim c --nimcache:cache -d:release --debugger:native -o:program shapes.nim",
    "ocaml": "ocamlopt -g shapes.ml -o program",
    "pascal": "fpc -gw3 -O2 -oprogram shapes.pas",
    "rust": "rustc -g -O shapes.rs -o program",
    "rust split": "rustc -g -C split-debuginfo=packed shapes.rs -o program",
    "vala": "valac -g shapes.vala -o program",
    "zig": f"{sys.executable} -m ziglang build-exe -O ReleaseSafe -fno-strip -femit-bin=program shapes.zig",
}

SHAPES = {
    "plain": "g++ -g -O2",
    "as DWARF 2": "g++ -g -O2 -gdwarf-2",
    "in 64-bit DWARF": "g++ -g -O2 -gdwarf64",
    "lines only": "g++ -g1 -O2",
    "with type units": "g++ -g -O2 -fdebug-types-section",
    "split, with type units": "g++ -g -O2 -gsplit-dwarf -fdebug-types-section",
    "link-time optimized": "g++ -g -O3 -flto",
    "folded by gold": "g++ -g -O2 -ffunction-sections -fuse-ld=gold -Wl,--icf=all",
    "folded by mold": "g++ -g -O2 -ffunction-sections -fuse-ld=mold -Wl,--icf=all,--gc-sections",
    "by clang": "clang++ -g -O2",
    "by clang, split": "clang++ -g -O2 -gsplit-dwarf",
    "by clang, with type units": "clang++ -g -O2 -fdebug-types-section",
    "by clang, linked by lld": "clang++ -g -O2 -flto -fuse-ld=lld",
    "by clang, a section per block": "clang++ -g -O2 -fbasic-block-sections=all -fuse-ld=lld",
}

MACHINES = (
    "aarch64-linux-gnu", "alpha-linux-gnu", "arm-linux-gnueabihf", "hppa-linux-gnu", "i686-linux-gnu", "m68k-linux-gnu",
    "mips-linux-gnu", "mips64el-linux-gnuabi64", "powerpc64le-linux-gnu", "riscv64-linux-gnu", "s390x-linux-gnu",
    "sh4-linux-gnu", "sparc64-linux-gnu", "x86_64-linux-gnux32",
)  # fmt: skip


def check(command: str, directory: Path, least: float = LEAST) -> None:
    """Build in a copy of the sources, one after another as a linker of several files sees them, and compare."""
    location = directory / "built"
    shutil.copytree(SOURCES, location)
    tool = command.split()[0]
    if shutil.which(tool) is None:
        pytest.skip(f"{tool} is not installed")
    done = subprocess.run(["sh", "-c", command], cwd=location, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"{tool} cannot build this here: {done.stderr.strip()[-200:]}")
    report = compare_file(str(location / "program"), COUNT)
    print(report)
    assert report.agreement >= least, str(report)


@pytest.mark.parametrize("language", LANGUAGES)
def test_chains_of_a_language_are_what_other_tools_say(language: str, tmp_path: Path) -> None:
    check(LANGUAGES[language], tmp_path)


@pytest.mark.parametrize("shape", SHAPES)
def test_chains_of_a_cpp_program_are_what_other_tools_say(shape: str, tmp_path: Path) -> None:
    compiler = SHAPES[shape]
    check(f"{compiler} -c main.cc && {compiler} -c box.cc && {compiler} main.o box.o -o program", tmp_path)


@pytest.mark.parametrize("machine", MACHINES)
def test_chains_of_another_machine_are_what_other_tools_say(machine: str, tmp_path: Path) -> None:
    check(f"{machine}-g++ -g -O2 main.cc box.cc -o program", tmp_path, 0.97)  # start files lack symbols with sizes
