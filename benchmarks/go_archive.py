"""Archive a stripped Go program: with files, lines and inlined calls, and with names alone.

The program is the go command itself, stripped. The peer is the same work without what most tools leave out.
"""

from __future__ import annotations

import io
import shutil
import subprocess
import tempfile
from pathlib import Path

from benchmarks import timing
from whence.elf import ElfFile
from whence.gopclntab import Pclntab
from whence.lidia.writer import write
from whence.ranges import StringSpace


def archive(program: Path, *, everything: bool) -> int:
    """The size of the archive, from opened file to written bytes."""
    with ElfFile.open(program) as elf:
        table = Pclntab.find(elf)
        assert table is not None
        ranges = table.ranges(StringSpace(), everything, everything, inlines=everything)
        out = io.BytesIO()
        write(ranges, out, lines=everything, files=everything)
        return out.tell()


def run() -> None:
    from tests.golang import goroot

    with tempfile.TemporaryDirectory() as directory:
        program = Path(shutil.copy(goroot() / "bin" / "go", directory))
        strip = shutil.which("strip")
        if strip is None:
            print("strip is not on this machine: the program keeps its symbols, which are not read")
        else:
            subprocess.run([strip, "-s", str(program)], check=True)
        sizes = {kind: archive(program, everything=kind == "whence") for kind in ("whence", "names alone")}
        costs = timing.calls(
            {
                "whence": lambda: archive(program, everything=True),
                "names alone": lambda: archive(program, everything=False),
            },
            runs=9,
        )
        timing.report(f"the go command, {program.stat().st_size / 1e6:.1f} MB: files, lines, inlined calls", costs)
        print("  " + ", ".join(f"{kind}: {size / 1e6:.1f} MB" for kind, size in sizes.items()))
