"""Whole stacks of programs built in every way, in cores and alive, beside gdb's and eu-stack's.

A build that this machine can't make is skipped. Where a tool is known to be wrong, DIFFER says so in a sentence, and
the tool is not asked; docs/unwinding.md has these sentences.
"""

from __future__ import annotations

import os
import resource
import shlex
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import whence
from tests.helpers.cores import CORE_PATTERN
from tests.helpers.live import running
from tests.oracle.stacks import Stacks, by_eu_stack, by_gdb, differences, ours
from whence.unwind import End

pytestmark = pytest.mark.oracle

SOURCES = Path(__file__).parent.parent / "data" / "stacks"
DOCUMENT = Path(__file__).parent.parent.parent / "docs" / "unwinding.md"
CXX = f"g++ -w -pthread {SOURCES}/paths.cc -o program"
RUST = f"rustc {SOURCES}/deep.rs -o program"
WAYS = [
    "plain", "handler", "nested", "alternate", "fault", "null", "sort", "wide", "aligned", "tail", "noreturn", "abort",
    "vfork", "uncaught", "destructor", "caught", "context", "longjmp", "library", "virtual", "atexit", "thread",
    "opened",
]  # fmt: skip
BUILDS = {
    "O0": f"{CXX} -O0 -g",
    "O2 omit": f"{CXX} -O2 -fomit-frame-pointer",
    "O3 avx": f"{CXX} -O3 -mavx2 -fomit-frame-pointer",
    "Os": f"{CXX} -Os -fomit-frame-pointer",
    "frame pointers": f"{CXX} -O1 -fno-omit-frame-pointer",
    "stripped": f"{CXX} -O2 -s",
    "static": f"{CXX} -O2 -static",
    "static PIE": f"{CXX} -O2 -static-pie",
    "32 bits": f"{CXX} -O2 -m32",
    "32 bits O0": f"{CXX} -O0 -m32",
    "no PIE": f"{CXX} -O2 -no-pie",
    "debug_frame": f"{CXX} -O2 -g -fno-asynchronous-unwind-tables -fno-exceptions",
    "CET": f"{CXX} -O2 -fcf-protection",
    "no PLT": f"{CXX} -O2 -fno-plt",
    "LTO": f"{CXX} -O3 -g -flto",
    "gold": f"{CXX} -O2 -fuse-ld=gold",
    "clang": f"clang++-14 -O2 -w -pthread {SOURCES}/paths.cc -o program",
    "clang lld": f"clang++-14 -O2 -w -pthread -fuse-ld=lld {SOURCES}/paths.cc -o program",
    "clang debug_frame": f"clang++-14 -O3 -g -w -pthread -fno-asynchronous-unwind-tables -fno-exceptions "
    f"-fno-unwind-tables -fomit-frame-pointer {SOURCES}/paths.cc -o program",
    "rust O0": f"{RUST} -g",
    "rust O": f"{RUST} -O",
    "rust stripped": f"{RUST} -O -C strip=symbols",
    "rust abort": f"{RUST} -O -C panic=abort",
}
RUST_WAYS = ["panic", "sort", "deep"]
CONTEXT = (
    "gdb and eu-stack print frames below a function that makecontext runs: gdb continues into memory that is not code, "
    "eu-stack follows the frame pointer."
)
ABORT = (
    "In code without CFI, such as Rust's with panic=abort, gdb takes a word on the stack for the return address, and "
    "eu-stack ends unless there is a frame pointer."
)
ALIVE = "eu-stack ends the stacks of a live 32-bit process above main."
DIFFER = {
    ("null", "eu-stack"): "eu-stack does not find the caller of an address that is not code (a null pointer).",
    ("context", "gdb"): CONTEXT,
    ("context", "eu-stack"): CONTEXT,
    ("rust abort", "gdb"): ABORT,
    ("rust abort", "eu-stack"): ABORT,
    ("32 bits, alive", "eu-stack"): ALIVE,
    ("32 bits O0, alive", "eu-stack"): ALIVE,
    ("node", "gdb"): "gdb does not unwind code that node and Java generate; it prints words of the stack instead.",
}


@contextmanager
def alive(command: list[str], folder: Path, env: dict[str, str]) -> Iterator[int]:
    """A process once all its threads wait, for a while."""
    child = subprocess.Popen(command, cwd=folder, env=env, stdout=subprocess.DEVNULL)
    try:
        before: list[str] = []
        for _ in range(100):
            time.sleep(0.2)
            tasks = sorted(Path(f"/proc/{child.pid}/task").iterdir())
            now = [(task / "syscall").read_text() for task in tasks]
            if now == before and "running" not in "".join(now):
                break
            before = now
        yield child.pid
    finally:
        child.kill()
        child.wait()


def core(command: list[str], folder: Path, env: dict[str, str]) -> str:
    if CORE_PATTERN.read_text().strip() not in ("core", "core.%p"):
        pytest.skip("cores do not go into the folder of the process here")

    def allow() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    for old in folder.glob("core*"):
        old.unlink()
    subprocess.run(command, cwd=folder, env=env, preexec_fn=allow, capture_output=True, timeout=120)
    return str(next(folder.glob("core*")))


def compared(program: Path, names: tuple[str, ...], stacks: list[whence.Stack], *where: str) -> None:
    """Whether all threads are complete, and as each tool has them that is not known to differ."""
    ends = [(each.tid, each.end, each.detail) for each in stacks if each.end is not End.COMPLETE]
    assert not ends, names
    result = ours(stacks)
    for tool, ask in (("gdb", by_gdb), ("eu-stack", by_eu_stack)):
        if any((name, tool) in DIFFER for name in names):
            continue
        theirs: Stacks = ask(program, *where)
        assert not differences(result, theirs), (names, tool)


def both(program: Path, names: tuple[str, ...], command: list[str], folder: Path, crash: str, wait: str) -> int:
    env = {**os.environ, "LIBRARY": str(folder / "opened.so")}
    left = core([*command, *shlex.split(crash)], folder, env)
    stacks = whence.Core(left).stacks()
    compared(program, names, stacks, left)
    frames = sum(len(each.frames) for each in stacks)
    if wait:
        with alive([*command, *shlex.split(wait)], folder, env) as pid:
            stacks = whence.Process(pid).stacks()
            compared(program, (*names, f"{names[-1]}, alive"), stacks, "-p", str(pid))
        frames += sum(len(each.frames) for each in stacks)
    return frames


@pytest.mark.parametrize("build", BUILDS)
def test_stacks_of_every_way_are_other_tools(build: str, tmp_path: Path) -> None:
    words = shlex.split(BUILDS[build])
    path = f"{os.environ['PATH']}:{Path.home() / '.cargo' / 'bin'}"
    compiler = shutil.which(words[0], path=path)
    if compiler is None:
        pytest.skip(f"no {words[0]} on this machine")
    done = subprocess.run([compiler, *words[1:]], cwd=tmp_path, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"not built: {done.stderr[:200]}")
    if words[0] != "rustc":
        bits = ["-m32"] if "-m32" in words else []
        subprocess.run(["gcc", *bits, "-O2", "-shared", "-fPIC", SOURCES / "opened.c", "-o", "opened.so"], cwd=tmp_path)
    program, frames = tmp_path / "program", 0
    for way in RUST_WAYS if words[0] == "rustc" else WAYS:
        if way in ("uncaught", "destructor", "caught") and "-fno-exceptions" in words:
            continue
        can_wait = way not in ("vfork", "null", "uncaught", "fault") and (way, build) != ("panic", "rust abort")
        frames += both(program, (way, build), [str(program)], tmp_path, way, f"{way} wait" if can_wait else "")
    print(f"{build}: {frames:,} frames")
    assert frames > 40


@pytest.mark.parametrize("name", ["node", "python3"])
def test_stacks_of_interpreters_are_other_tools(name: str, tmp_path: Path) -> None:
    program = shutil.which(name, path="/usr/bin")
    if program is None:
        pytest.skip(f"no {name} of the system on this machine")
    source = SOURCES / ("deep.js" if name == "node" else "deep.py")
    frames = both(Path(program).resolve(), (name,), [program, str(source)], tmp_path, "crash", "wait")
    print(f"{name}: {frames:,} frames")
    assert frames > 80


def test_what_libc_itself_unwinds_is_the_same(tmp_path: Path) -> None:
    """backtrace(3), by which faulthandler prints the C part of a stack: of a Python that was called by C."""
    source = tmp_path / "own.py"
    source.write_text(
        "import ctypes, sys\n"
        "libc, places = ctypes.PyDLL(None), (ctypes.c_void_p * 200)()\n"
        "class Compared:\n"
        "    def __lt__(self, other):\n"
        "        count = libc.backtrace(places, 200)\n"
        "        print(*places[:count], flush=True)\n"
        "        libc.pause()\n"
        "sorted([Compared(), Compared()])\n"
    )
    with running(["/usr/bin/python3", source], rests=True) as (pid, words):
        theirs = [int(word) for word in words]
        (stack,) = whence.Process(pid).stacks()
    result = [frame.pc for frame in stack.frames]
    shared = [pc for pc in theirs if pc in result]  # all but what is inside of the calls of backtrace and pause
    assert shared == theirs[-len(shared) :] == result[-len(shared) :]
    assert len(shared) > 12


def test_a_million_frames_are_counted(tmp_path: Path) -> None:
    subprocess.run(shlex.split(f"{CXX} -O0"), cwd=tmp_path, check=True)

    def deep() -> None:
        resource.setrlimit(resource.RLIMIT_STACK, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    env = {**os.environ, "DEPTH": "1000000"}
    subprocess.run([tmp_path / "program", "million"], cwd=tmp_path, env=env, preexec_fn=deep)
    first = whence.Core(next(tmp_path.glob("core*"))).stacks()[0]
    assert first.end is End.COMPLETE
    assert len(first.frames) + first.skipped == 1_000_000 + 7  # boom, deep(0), way, main and three of the libc


def test_the_document_has_each_difference() -> None:
    text = " ".join(DOCUMENT.read_text().split())
    assert [sentence for sentence in DIFFER.values() if sentence not in text] == []
