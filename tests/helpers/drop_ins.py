"""Drop-in programs as their callers start them: by their names, each under a time-out."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.programs import folder
from whence.objects.elf import ElfFile

SECONDS = 60  # a caller that still waits then would wait for ever
SOURCE = r"""
#include <cstdlib>
int global_counter = 7;
namespace ns {
struct S {
    static inline __attribute__((always_inline)) int sq(int x) {
        return x * global_counter + x;
    }
    static __attribute__((noinline)) int run(int x) {
        global_counter++;
        return sq(x) + 3;
    }
};
}
int main(int argc, char **) {
    return ns::S::run(argc);
}
"""
LAUNCHER = """#!{python}
import sys
from whence.cli import main
sys.exit(main())
"""


def tool(name: str) -> str:
    result = shutil.which(name)
    if result is None:
        pytest.skip(f"{name} is not on this machine")
    return result


@functools.cache
def link(name: str) -> Path:
    """`whence` under another name, alone in a folder of its own."""
    launcher = folder() / "whence-launcher"
    launcher.write_text(LAUNCHER.format(python=sys.executable))
    launcher.chmod(0o755)
    location = folder() / f"bin-{name}" / name
    location.parent.mkdir()
    location.symlink_to(launcher)
    return location


def ask(name: str, *words: str, stdin: str | bytes = "", env: dict[str, str] | None = None) -> str:
    return asked(str(link(name)), *words, stdin=stdin, env=env).stdout.decode()


def asked(
    *words: str, stdin: str | bytes = "", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    questions = stdin.encode() if isinstance(stdin, str) else stdin
    return subprocess.run(
        words, input=questions, capture_output=True, timeout=SECONDS, env={**os.environ, **(env or {})}
    )


@functools.cache
def program(*flags: str) -> Path:
    """The C++ program above, built by g++."""
    compiler = tool("g++")
    source = folder() / "dropin.cpp"
    source.write_text(SOURCE)
    out = folder() / ("dropin" + "".join(flags).replace("-", "_"))
    subprocess.run([compiler, "-O2", "-g", *flags, str(source), "-o", str(out)], check=True)
    return out


def symbol(path: Path, name: str) -> tuple[int, int]:
    """Start and size of a symbol."""
    with ElfFile.open(path) as elf:
        symbols = elf.symbols(".symtab")
        return next(
            (symbols.value[index], symbols.size[index]) for index in range(len(symbols)) if symbols.name(index) == name
        )


def addresses(path: Path) -> list[int]:
    return [
        vaddr
        for name in ("main", "_ZN2ns1S3runEi", "_start")
        for start, size in [symbol(path, name)]
        for vaddr in range(start, start + size)
    ]
