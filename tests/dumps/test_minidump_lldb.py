"""Minidumps that LLDB writes: threads, registers, modules and stacks equal to its own."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.helpers.live import compiled
from tests.helpers.programs import UNTIL_ASLEEP
from whence.symbolize import Core
from whence.unwind import End

LLDB = shutil.which("lldb-19") or shutil.which("lldb")
PROGRAM = (
    """#include <pthread.h>
#include <unistd.h>
__attribute__((noinline)) static int boom(volatile int *p) { *p = 1; return *p + 1; }
__attribute__((noinline)) static int deep(int n) { return n ? deep(n - 1) + 1 : boom((int *)8) + 1; }
static void *wait_here(void *x) { for (;;) pause(); return x; }
"""
    + UNTIL_ASLEEP
    + """int main(void) {
    pthread_t t;
    pthread_create(&t, 0, wait_here, 0);
    pthread_create(&t, 0, wait_here, 0);
    until_asleep(2);
    return deep(5);
}
"""
)
FRAME = re.compile(r"frame #\d+: 0x([0-9a-f]+) ")
REGISTER = re.compile(r"^ +(r\w\w?) = 0x([0-9a-f]{16})", re.MULTILINE)
MODULE = re.compile(r"^\[ *\d+\] ([0-9A-F-]+) +0x([0-9a-f]+) (\S+)", re.MULTILINE)


@pytest.fixture(scope="module")
def dumped(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The folder with stack.dmp and full.dmp, and what LLDB printed."""
    if LLDB is None:
        pytest.skip("lldb is not installed")
    folder = tmp_path_factory.mktemp("lldb")
    program = compiled(folder, "-pthread", source=PROGRAM)
    commands = ["run"]
    commands += [
        f"process save-core --plugin-name=minidump --style={style} {folder}/{style}.dmp" for style in ("stack", "full")
    ]
    commands += ["thread backtrace all", "thread select 1", "register read", "image list -u -h -f", "kill"]
    words = [word for command in commands for word in ("-o", command)]
    done = subprocess.run(
        [LLDB, "-x", "-b", *words, *(w for c in commands[1:] for w in ("-k", c)), str(program)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    if not (folder / "full.dmp").exists():
        pytest.skip(f"lldb wrote no minidump: {done.stdout[-300:]} {done.stderr[-300:]}")
    return folder, done.stdout


@pytest.mark.parametrize("style", ["stack", "full"])
def test_stacks_registers_and_modules_are_those_of_lldb(dumped: tuple[Path, str], style: str) -> None:
    folder, printed = dumped
    core = Core(folder / f"{style}.dmp")
    stacks = core.stacks()
    listing = printed.partition("(lldb) thread backtrace all")[2].partition("(lldb) thread select")[0]
    threads = [
        [int(address, 16) for address in FRAME.findall(text)]
        for text in re.split(r"^[* ] thread #", listing, flags=re.M)
    ][1:]
    assert len(threads) == 3
    assert sorted([frame.pc for frame in stack.frames] for stack in stacks) == sorted(threads)
    assert {stack.end for stack in stacks} == {End.COMPLETE}
    registers = dict(REGISTER.findall(printed.partition("(lldb) register read")[2]))
    assert len(registers) == 17
    assert {name: int(value, 16) for name, value in registers.items()} == stacks[0].registers
    modules = [(int(base, 16), uuid.replace("-", "").lower()) for uuid, base, _ in MODULE.findall(printed)]
    assert core.minidump is not None
    own = {module.base: module.codeview.build_id for module in core.minidump.modules}
    assert len(modules) >= 3
    assert {base: own.get(base) for base, _ in modules} == dict(modules)
