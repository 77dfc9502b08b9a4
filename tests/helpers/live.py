"""Live processes for tests: started, waited for, ended."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

# Tells where `marker` is (and `other`, if it has one), then waits for its input to end.
PROGRAM = r"""
#include <stdio.h>
__attribute__((noinline)) int marker(int x) { return x * 3 + 1; }
__attribute__((noinline)) int other(int x) { return x * 5 + marker(x); }
int main(void) {
    printf("%p %p\n", (void *)marker, (void *)other);
    fflush(stdout);
    return getchar() == 'x' ? other(1) : 0;
}
"""


def until(holds: Callable[[], bool], seconds: float = 60) -> bool:
    """Wait until a condition is true; return False after a generous time limit."""
    end = time.monotonic() + seconds
    while not holds():
        if time.monotonic() > end:
            return False
        time.sleep(0.002)
    return True


def has_mapped(pid: int, path: str | Path) -> bool:
    """Return True if a process has mapped the code of a file, which takes a moment after its start."""
    return any(
        " r-xp " in line and line.endswith(f" {path}") for line in Path(f"/proc/{pid}/maps").read_text().splitlines()
    )


def state(task: str) -> str:
    """The letter of a process or thread, a directory of /proc: what it does, as proc(5) has it."""
    text = Path(f"{task}/stat").read_text()
    return text[text.rfind(")") + 2]


def states(pid: int) -> list[str]:
    """The letter of each thread of a process."""
    return [state(f"/proc/{pid}/task/{tid}") for tid in os.listdir(f"/proc/{pid}/task")]


@contextmanager
def running(
    command: Sequence[str | Path], *, speaks: bool = True, rests: bool = False
) -> Iterator[tuple[int, list[str]]]:
    """A process and the words of its first line of output; ended with the block.

    If it `rests`, wait until its first thread sleeps: a line can be read before its writer continues.
    """
    child = subprocess.Popen([str(word) for word in command], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        words = child.stdout.readline().split() if speaks else []
        assert not rests or until(lambda: state(f"/proc/{child.pid}") == "S")
        yield child.pid, words
    finally:
        child.kill()
        child.stdin.close()
        child.stdout.close()
        child.wait()


def python(code: str) -> list[str]:
    """The command of a Python process that runs the code, then waits for its input to end."""
    return [sys.executable, "-c", code + "\nimport sys; sys.stdout.flush(); sys.stdin.read()"]


def compiled(directory: Path, *options: str, source: str = PROGRAM, name: str = "program") -> Path:
    """A program built by the system's compiler; skips the test where there is none."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if compiler is None:
        pytest.skip("no C compiler on this machine")
    path = directory / name
    (directory / f"{name}.c").write_text(source)
    done = subprocess.run(
        [compiler, "-O1", "-g", "-o", str(path), str(directory / f"{name}.c"), *options], capture_output=True, text=True
    )
    if done.returncode:
        pytest.skip(f"the compiler does not do {' '.join(options)}: {done.stderr[:200]}")
    return path


def may_unshare() -> bool:
    """Whether we may make mount namespaces."""
    tool = shutil.which("unshare")
    return tool is not None and subprocess.run([tool, "-m", "true"], capture_output=True).returncode == 0


def may_read_map_files() -> bool:
    return os.geteuid() == 0 and os.path.isdir("/proc/self/map_files")
