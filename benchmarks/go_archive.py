"""Archive a stripped Go program: with files, lines and inlined calls, and with names alone.

The program is the go command itself, stripped; the peer is whence without files and lines.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from benchmarks import timing
from whence.archive.create import create
from whence.gopclntab import Pclntab
from whence.objects.elf import ElfFile
from whence.ranges import StringSpace


def program_in(directory: str) -> Path:
    from tests.helpers.golang import goroot

    program = Path(shutil.copy(goroot() / "bin" / "go", directory))
    strip = shutil.which("strip")
    if strip is None:
        print("strip is not on this machine: the program keeps its symbols")
    else:
        subprocess.run([strip, "-s", str(program)], check=True)
    return program


def tables(program: Path, *, lines: bool, inlines: bool) -> Callable[[], object]:
    """The ranges of the program, found anew each time."""

    def ranges() -> object:
        with ElfFile.open(program) as elf:
            table = Pclntab.find(elf)
            assert table is not None
            return table.ranges(StringSpace(), lines, lines, inlines=inlines)

    return ranges


def run() -> None:
    with tempfile.TemporaryDirectory() as directory:
        program = program_in(directory)
        out = f"{directory}/go.lidia"
        size = f"the go command, {program.stat().st_size / 1e6:.1f} MB"
        command = [sys.executable, "-m", "whence.cli", "lidia", "create", str(program), "-o", out]
        names = [*command, "--no-lines", "--no-files"]
        costs = timing.processes({"whence": command, "names alone": names}, runs=9)
        timing.report(f"{size}: whence lidia create", costs)
        costs = timing.calls(
            {
                "whence": lambda: create(program, out),
                "names alone": lambda: create(program, out, lines=False, files=False),
            },
            runs=15,
        )
        timing.report(f"{size}: whence.lidia.create, from opened file to archive", costs)
        costs = timing.calls(
            {
                "whence": tables(program, lines=True, inlines=True),
                "without files and lines": tables(program, lines=False, inlines=True),
                "outermost functions alone": tables(program, lines=False, inlines=False),
            },
            runs=15,
        )
        timing.report(f"{size}: Pclntab.find and ranges, no archive", costs)
