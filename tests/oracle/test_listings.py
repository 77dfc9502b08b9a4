"""Listings of whole programs beside objdump and llvm-objdump: boundaries, mnemonics, files and lines.

Debian's cross packages of other machines are compared if WHENCE_CROSS names a folder where they are unpacked, and
binutils for the machine are installed.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

import whence
from tests.helpers.golang import environment, goroot
from whence.listing import Instruction
from whence.listing.build import CodeReader
from whence.objects.elf import ElfFile

pytest.importorskip("capstone")
pytestmark = pytest.mark.oracle

SOURCES = Path(__file__).parent.parent / "data" / "producers"
LEAST = 0.99  # of the instructions have a line that one of the tools prints, too
ROW = re.compile(r" *([0-9a-f]+):\s+(\S+)(?:\s+(.*))?$")
LINE = re.compile(r"(?:; )?(\.?/\S.*?):(\d+)(?: \(discriminator \d+\))?$")
INTEL = (), ("-M", "intel")
PREFIXES = {"lock", "rep", "repz", "repnz", "bnd", "notrack", "data16", "cs", "ds", "es", "fs", "gs", "ss", "addr32"}
SYNONYMS = {  # ours: theirs
    "nop": "xchg", "fucompi": "fucomip", "fcompi": "fcomip", "wait": "fwait", "pushfq": "pushf", "popfq": "popf",
    ".byte": "(bad)", "b.hs": "b.cs", "b.lo": "b.cc", "ushll": "uxtl", "sshll": "sxtl", "ushll2": "uxtl2",
    "sshll2": "sxtl2",
}  # fmt: skip
STRINGS = re.compile(r"(movs|stos|cmps|lods|scas)[bwdq]")
CARRYLESS = re.compile(r"v?pclmul[lh]q[lh]qdq")
RISCV = {  # ours without the prefix of compressed instructions: theirs
    "addi": ("add", "li", "mv", "nop"), "addiw": ("addw", "sext.w"), "andi": ("and", "zext.b"), "jalr": ("ret", "jr"),
    "ldsp": ("ld",), "sdsp": ("sd",), "lwsp": ("lw",), "swsp": ("sw",), "fldsp": ("fld",), "fsdsp": ("fsd",),
    "addi16sp": ("add",), "addi4spn": ("add",), "jr": ("ret",), "lui": ("lui",), "jal": ("j",), "xori": ("not", "xor"),
    "sub": ("neg",), "subw": ("negw",), "sltiu": ("seqz",), "sltu": ("snez",), "slt": ("sltz", "sgtz"), "mv": ("li",),
    "csrrs": ("csrr", "frcsr", "frrm", "frflags"), "csrrw": ("csrw", "fscsr", "fsrm", "fsflags"), "fsgnj.d": ("fmv.d",),
    "fsgnj.s": ("fmv.s",), "fsgnjn.d": ("fneg.d",), "fsgnjn.s": ("fneg.s",), "fsgnjx.d": ("fabs.d",),
    "fsgnjx.s": ("fabs.s",), "beq": ("beqz",), "bne": ("bnez",), "bge": ("bgez", "blez"), "blt": ("bltz", "bgtz"),
}  # fmt: skip


def disassembled(tool: str, path: Path, *options: str) -> Iterator[tuple[int, str, str, int]]:
    """Yield the vaddr, mnemonic, file and line of each instruction, as another disassembler prints them."""
    command = [tool, "-d", "-z", "--no-show-raw-insn", *options, str(path)]
    file, line = "", 0
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, errors="replace") as process:
        assert process.stdout is not None
        for text in process.stdout:
            result = ROW.match(text)
            if result:
                yield int(result[1], 16), mnemonic(result[2], result[3] or ""), file, line
            elif location := LINE.match(text.rstrip("\n")):
                file, line = location[1], int(location[2])
            elif text.endswith(">:\n"):
                file, line = "", 0


def mnemonic(word: str, rest: str) -> str:
    """Return a mnemonic without its prefixes."""
    while (word in PREFIXES or word.startswith("rex")) and rest:
        word, _, rest = rest.partition(" ")
    return word


def is_same(ours: str, theirs: str) -> bool:
    """Return True for spellings of the same instruction."""
    ours = ours.split()[-1]
    if ours == theirs or SYNONYMS.get(ours) == theirs:
        return True
    if STRINGS.fullmatch(ours):
        return ours[:-1] == theirs
    if ours.endswith("pclmulqdq"):
        return bool(CARRYLESS.fullmatch(theirs))
    plain = ours.removeprefix("c.")
    spelled = {plain, *RISCV.get(plain, ())}
    return theirs in spelled or plain in (theirs + "i", theirs[:-1] + "iw")


def programs() -> dict[str, tuple[str, Path]]:
    """Return the disassembler and the file of each program."""
    result = {
        f"x86-64 {name}": ("objdump", path)
        for name in ("libc.so.6", "libstdc++.so.6")
        for path in Path("/usr/lib/x86_64-linux-gnu").glob(name)
    }
    rust, go = Path(sys.executable).parent / "ruff", goroot() / "bin" / "go"
    result |= {"Rust": ("objdump", rust), "Go": ("objdump", go)}
    cross = os.environ.get("WHENCE_CROSS")
    for machine in ("aarch64", "riscv64") if cross else ():
        for path in Path(cross or "").glob(f"usr/{machine}-linux-gnu/lib/lib*.so.6"):
            result[f"{machine} {path.name}"] = f"{machine}-linux-gnu-objdump", path
    return result


def machine_code(path: Path) -> Iterator[Instruction]:
    """Yield every instruction of a file."""
    with ElfFile.open(path) as elf:
        reader = CodeReader.of_file(elf)
        for section in elf.sections:
            if section.executable and section.in_file and section.size:
                yield from reader.instructions(section.vaddr, section.vaddr + section.size)


NAMES = ("x86-64 libc.so.6", "x86-64 libstdc++.so.6", "Rust", "Go", *(
    f"{machine} {name}" for machine in ("aarch64", "riscv64") for name in ("libc.so.6", "libstdc++.so.6")
))  # fmt: skip


@pytest.mark.parametrize("name", NAMES)
def test_every_instruction_is_that_of_objdump(name: str) -> None:
    tool, path = programs().get(name, ("objdump", Path()))
    if not path.is_file() or shutil.which(tool) is None:
        pytest.skip(f"{name}: the file or {tool} is not here")
    ours = [(each.vaddr, each.mnemonic) for each in machine_code(path)]
    theirs = {vaddr: word for vaddr, word, _, _ in disassembled(tool, path, *INTEL[tool == "objdump"])}
    undecodable = [vaddr for vaddr, word in theirs.items() if word == "(bad)"]
    unlike = Counter(
        (word, theirs[offset]) for offset, word in ours if offset in theirs and not is_same(word, theirs[offset])
    )
    starts = {vaddr for vaddr, _ in ours} ^ theirs.keys()
    print(f"{name}: {len(ours):,} instructions, {len(starts)} boundaries and {sum(unlike.values())} mnemonics differ")
    assert all(any(bad < vaddr < bad + 16 for bad in undecodable) for vaddr in starts), sorted(map(hex, starts))[:9]
    assert not unlike, unlike.most_common(9)


PROGRAMS = {
    "C++": ["g++", "-g", "-O2", "-o", "program", str(SOURCES / "main.cc"), str(SOURCES / "box.cc")],
    "C++ by clang": ["clang++", "-g", "-O2", "-o", "program", str(SOURCES / "main.cc"), str(SOURCES / "box.cc")],
    "Rust": ["rustc", "-g", "-O", "-o", "program", str(SOURCES / "shapes.rs")],
    "Go": [str(goroot() / "bin" / "go"), "build", "-o", "program", "main.go"],
}
GO = """package main

import (
	"fmt"
	"net/http"
)

func main() {
	fmt.Println(http.Get("http://localhost"))
}
"""


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_line_of_every_instruction_is_that_of_a_majority(name: str, tmp_path: Path) -> None:
    (tmp_path / "main.go").write_text(GO)
    env = environment(goroot()) if name == "Go" else None
    if shutil.which(PROGRAMS[name][0]) is None:
        pytest.skip(f"{PROGRAMS[name][0]} is not installed")
    subprocess.run(PROGRAMS[name], cwd=tmp_path, env=env, check=True, capture_output=True)
    program = tmp_path / "program"
    tools = [tool for tool in ("objdump", "llvm-objdump-19") if shutil.which(tool)]
    said = [
        {offset: (os.path.basename(file), line) for offset, _, file, line in disassembled(tool, program, "-l")}
        for tool in tools
    ]
    differ: Counter[str] = Counter()
    count = 0
    with whence.open(program) as binary:
        vaddrs = [each.vaddr for each in machine_code(program)]
        for vaddr, chain in zip(vaddrs, binary.lookup_many(vaddrs).chains(), strict=True):
            theirs = [answers.get(vaddr, ("", 0)) for answers in said]
            if not chain or not chain[0].line or not any(line for _, line in theirs):
                continue  # padding, or line 0: the tools print nothing, so that the line before seems to continue
            ours = os.path.basename(chain[0].file), chain[0].line
            count += 1
            if ours not in theirs:
                differ[f"{vaddr:#x}: {ours}, not {theirs}"] += 1
    print(f"{name}: {count:,} instructions with lines, {len(differ)} differ from {' and '.join(tools)}")
    assert count > 1000
    assert len(differ) <= count * (1 - LEAST), list(differ)[:9]
