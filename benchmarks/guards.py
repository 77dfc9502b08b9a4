"""The bytes of archives and the instruction counts of the main cases, compared with a record once a week.

`python -m benchmarks guards` compares with guards.json beside this file and lists every difference; it fails where
bytes differ or a count has grown by more than 5 %. `python -m benchmarks.guards --record [archives|instructions]`
writes guards.json. .github/workflows/weekly.yml compares with the week before, then records. Archives are those of the
debug files the other benchmarks use (known by their build-ids) and of three Go programs built by the test suite's
toolchain. Instructions are those of a whole process, Python's start included: counted by `perf stat` where the machine
lets it, else by valgrind's callgrind, each kind with records of its own.
"""

from __future__ import annotations

import compileall
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import whence
from benchmarks.inputs import address_file, debug_files
from whence.archive.create import create
from whence.objects.elf import ElfFile

RECORD = Path(__file__).with_suffix(".json")
ALLOWED = 0.05  # the share of instructions a case may gain
GO_PROGRAMS = {  # name: (package in tests/data/go or a command of the toolchain, flags of the linker)
    "go small": ("small", ""),
    "go small, stripped": ("small", "-s -w"),
    "go objdump": ("cmd/objdump", ""),
}
COUNTED = re.compile(r"Collected : (\d+)|^([\d,]+)\s+instructions", re.MULTILINE)


def archives() -> Iterator[tuple[str, str]]:
    """(what an archive is of, its SHA-256)."""
    with tempfile.TemporaryDirectory() as folder:
        for path in debug_files():
            with ElfFile.open(path) as elf:
                name = f"{path.name} {elf.build_id}"
            yield name, digest(path, Path(folder))
        from tests.helpers.golang import build

        for name, (package, ldflags) in GO_PROGRAMS.items():
            program = build(package, Path(folder, "program"), "-trimpath", "-buildvcs=false", ldflags=ldflags)
            yield name, digest(program, Path(folder))


def digest(path: Path, folder: Path) -> str:
    out = folder / "out.lidia"
    create(path, out)
    return hashlib.sha256(out.read_bytes()).hexdigest()


def counter() -> tuple[str, list[str]]:
    """Return how instructions are counted on this machine: a name and the words before the command."""
    perf = shutil.which("perf")
    if perf is not None:
        command = [perf, "stat", "-e", "instructions:u"]
        tried = subprocess.run([*command, "true"], capture_output=True, text=True)
        if tried.returncode == 0 and COUNTED.search(tried.stderr):
            return "perf", command
    valgrind = shutil.which("valgrind")
    if valgrind is None:
        raise SystemExit("instructions are counted by perf or by valgrind (Debian: apt-get install valgrind)")
    return "callgrind", [valgrind, "--tool=callgrind", f"--callgrind-out-file={os.devnull}"]


def cases(folder: Path) -> Iterator[tuple[str, list[str], Path | None]]:
    """(name, command, what it reads on stdin)."""
    whence = [sys.executable, "-m", "whence.cli"]
    yield "no command", [*whence, "--version"], None
    for path in debug_files():
        if path.stat().st_size > 40_000_000:  # minutes under valgrind
            continue
        archive = folder / f"{path.name}.lidia"
        create(path, archive)
        with ElfFile.open(path) as elf:
            name = f"{path.name} {elf.build_id[:8]}"
        many, few = address_file(path, 10_000), address_file(path, 1)
        yield f"create {name}", [*whence, "lidia", "create", str(path), "-o", str(folder / "again.lidia")], None
        yield f"one address, ELF {name}", [*whence, "addr", str(path)], few
        yield f"one address, archive {name}", [*whence, "addr", str(archive)], few
        yield f"10,000 addresses, ELF {name}", [*whence, "addr", str(path)], many
        yield f"10,000 addresses, archive {name}", [*whence, "addr", str(archive)], many


def instructions() -> Iterator[tuple[str, int]]:
    """(case, instructions). One thread's work on one core: what threads do in turns does not come out the same."""
    kind, before = counter()
    compileall.compile_dir(Path(whence.__file__).parent, quiet=1)  # no case pays for compiling bytecode
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    with tempfile.TemporaryDirectory() as folder:
        for name, command, stdin in cases(Path(folder)):
            with open(stdin or os.devnull, "rb") as questions:
                done = subprocess.run([*before, *command], stdin=questions, capture_output=True, env=environment)
            result = COUNTED.search(done.stderr.decode(errors="replace"))
            if done.returncode or result is None:
                raise SystemExit(f"{' '.join(command)} failed: {done.stderr.decode(errors='replace')[-500:]}")
            yield f"{kind} {name}", int((result[1] or result[2]).replace(",", ""))


def machine() -> str:
    """Counts compare where Python and the processor's kind are the same."""
    return f"{platform.python_implementation()} {platform.python_version()} {platform.machine()}"


def recorded() -> dict[str, dict[str, str | int]]:
    return json.loads(RECORD.read_text()) if RECORD.exists() else {}


def compare(key: str, measured: Callable[[], Iterator[tuple[str, str | int]]]) -> int:
    """Print each case beside its record; returns how many are worse."""
    expected, worse = recorded().get(key, {}), 0
    for name, value in measured():
        before = expected.get(name)
        if before is None:
            verdict = "no record"
        elif isinstance(value, int) and isinstance(before, int):
            share = value / before - 1
            worse += share > ALLOWED
            verdict = f"{share:+.2%}{' TOO MANY' if share > ALLOWED else ''}"
        else:
            worse += value != before
            verdict = "the same" if value == before else "CHANGED"
        shown = f"{value:,}" if isinstance(value, int) else value[:16]
        print(f"  {name:64} {shown:>18}  {verdict}", flush=True)
    return worse


def record(key: str, measured: Callable[[], Iterator[tuple[str, str | int]]]) -> None:
    everything = recorded()
    everything.setdefault(key, {}).update(measured())
    RECORD.write_text(json.dumps(everything, indent=1, sort_keys=True) + "\n")


def kinds() -> dict[str, tuple[str, Callable[[], Iterator[tuple[str, str | int]]]]]:
    return {"archives": ("archives", archives), "instructions": (machine(), instructions)}


def run() -> int:
    worse = sum(compare(key, measured) for key, measured in kinds().values())
    print(f"{worse} worse than recorded")
    return worse


def main() -> int:
    asked = [word for word in sys.argv[1:] if word != "--record"]
    for name, (key, measured) in kinds().items():
        if asked and name not in asked:
            continue
        if "--record" in sys.argv:
            record(key, measured)
        elif compare(key, measured):
            return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
