"""cores.py PYTHON: cores of ten Python programs, read on "another machine", beside pystack's answers for them.

A program of each kind is ended by a signal, so that the kernel writes a core, and another one is copied by gcore. All
files that are mapped in it are copied to a folder; `whence core CORE --sysroot FOLDER` runs in a namespace in which the
interpreter's files, and its packages, do not exist. pystack runs where they do.

    threads     threads with Python frames, by either tool
    equal       those with the same functions, files and lines
    differ      those with others
    unanswered  those for which pystack says nothing

Needs the right to make namespaces. Exits with 1 if a thread differs.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

from check import PROGRAMS, build, running

import whence

TRACEBACK = re.compile(r"Traceback for thread (\d+) ")
LINE = re.compile(r'\s*\(Python\) File "(.*)", line (\d+), in (.*)')
HIDDEN = 'for folder in $FOLDERS; do mount -t tmpfs none "$folder"; done; exec "$@"'
Frame = tuple[str, str, int]


def theirs(python: str, core: Path) -> dict[int, list[Frame]]:
    """Return the threads of pystack, innermost frame first."""
    program = Path(python).with_name("pystack")
    done = subprocess.run([program, "core", core, os.path.realpath(python)], capture_output=True, text=True)
    threads: dict[int, list[Frame]] = {}
    frames: list[Frame] = []
    for line in done.stdout.splitlines():
        if title := TRACEBACK.match(line):
            frames = threads[int(title[1])] = []
        elif (match := LINE.match(line)) and (match[1], match[2]) != (match[3], "0"):  # code made by the interpreter
            frames.insert(0, (match[3].rpartition(".")[2], match[1], int(match[2])))
    if not threads:
        print(f"pystack: {(done.stderr or done.stdout).strip()[-300:]}", file=sys.stderr)
    return threads


def ours(core: Path, root: Path, folders: list[str]) -> tuple[dict[int, list[Frame]], list[str]]:
    """Return the threads of `whence core` where these folders are hidden, and what it says about missing frames."""
    words = [sys.executable, "-m", "whence", "core", core, "--sysroot", root, "--json"]
    done = subprocess.run(
        ["unshare", "--mount", "sh", "-c", HIDDEN, "sh", *words],
        capture_output=True, text=True, env={**os.environ, "FOLDERS": " ".join(folders)},
    )  # fmt: skip
    threads, problems = {}, [line for line in done.stderr.splitlines() if line]
    for line in done.stdout.splitlines():
        stack = json.loads(line)
        if "frames" not in stack:
            continue
        frames = [
            (frame["function"].rpartition(".")[2], frame["file"], frame["line"])
            for frame in stack["frames"]
            if frame["source"] == "python"
        ]
        threads[stack["tid"]] = frames
    return threads, problems


def copied(core: Path, root: Path) -> None:
    """Copy the files that are mapped in a core below a folder."""
    for mapping in whence.Core(core).mappings():
        if os.path.isfile(mapping.path):
            to = root / mapping.path[1:]
            to.parent.mkdir(parents=True, exist_ok=True)
            if not to.exists():
                shutil.copy(mapping.path, to)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("python", metavar="PYTHON")
    parser.add_argument("programs", metavar="PROGRAM", nargs="*", choices=[[], *PROGRAMS], default=[])
    parser.add_argument("--rounds", type=int, default=1, metavar="N", help="cores of each kind and program (1)")
    given = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    prefixes = subprocess.run(
        [given.python, "-c", "import sys; print(sys.prefix); print(sys.base_prefix)"],
        capture_output=True, text=True, check=True,
    ).stdout.split()  # fmt: skip
    failures = 0
    print("| program | kernel: threads | equal | differ | unanswered | gcore: threads | equal | differ | unanswered |")
    print("|---|---|---|---|---|---|---|---|---|")
    for program in given.programs or PROGRAMS:
        row = []
        for kind in ("kernel", "gcore"):
            counts = [0, 0, 0, 0]
            for _ in range(given.rounds):
                with TemporaryDirectory() as name:
                    folder = Path(name)
                    build(given.python, folder)
                    tried = [given.python, "-c", f"import {PROGRAMS[program]}"]
                    if subprocess.run(tried, capture_output=True, cwd=folder).returncode:
                        continue
                    with running(given.python, program, folder / "dumps") as pid:
                        if kind == "gcore":
                            subprocess.run(["gcore", "-o", folder / "core", str(pid)], capture_output=True)
                        else:
                            os.kill(pid, signal.SIGABRT)
                            while Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                                time.sleep(0.1)
                    (core,) = folder.glob("core*")
                    copied(core, folder / "root")
                    result, problems = ours(core, folder / "root", prefixes)
                    expected = theirs(given.python, core)
                    for problem in problems:
                        print(problem, file=sys.stderr)
                    for tid in sorted({*filter(result.get, result), *filter(expected.get, expected)}):
                        counts[0] += 1
                        if result.get(tid) == expected.get(tid):
                            counts[1] += 1
                        elif tid in expected and expected[tid]:
                            counts[2] += 1
                            print(f"{program}, {kind}, {tid}:\n{result.get(tid)}\n{expected[tid]}", file=sys.stderr)
                        else:
                            counts[3] += 1
            failures += counts[2]
            row += map(str, counts)
        print(f"| {program} | {' | '.join(row)} |", flush=True)
    return min(1, failures)


if __name__ == "__main__":
    sys.exit(main())
