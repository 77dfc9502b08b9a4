"""check.py PYTHON: sample ten real Python programs, and count the samples whose stacks could not be merged.

PYTHON is an interpreter with what the programs import, and with py-spy and pystack. For each program a line of the
table of docs/correctness.md is printed:

    samples     stacks of threads with Python frames
    unmatched   samples whose Python frames and native frames did not match
    no name     samples with a Python frame whose code object had been freed before it was read
    cut off     samples whose native stack ended early, in code without unwind tables; all Python frames are there
    dropped     samples of `py-spy record --native` that it dropped, of all
    equal       stacks that are equal to what faulthandler wrote in the stopped thread, of all that were compared

A program of which a module is missing is left out, and said. Exits with 1 if a stack is unmatched or differs.
"""

from __future__ import annotations

import argparse
import ctypes
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryDirectory

from whence import Process
from whence.procmap.process import descendants, tids_of
from whence.symbolize.symbolizer import Symbolizer
from whence.unwind import End

FOLDER = Path(__file__).parent
PROGRAMS = {
    "numpy_callbacks": "numpy",
    "pandas_groups": "pandas",
    "torch_training": "torch",
    "flask_server": "flask",
    "asyncio_server": "asyncio",
    "multiprocessing_pool": "multiprocessing",
    "pytest_run": "pytest",
    "cython_callbacks": "callbacks",
    "ctypes_threads": "ctypes",
    "deep_recursion": "json",
}
TGKILL = {"x86_64": 234, "aarch64": 131}
ATTEMPTS = 40  # to compare: faulthandler itself crashes in frames that are being left
SEARCH_INTERVAL = 0.2  # seconds between searches for child processes
DUMPED_FRAMES = 100  # of one thread, by faulthandler
EXAMPLES = 3
LINE = re.compile(r'  File "(.*)", line (\d+|\?\?\?) in (.*)')
RESULTS = re.compile(r"Samples: (\d+) Errors: (\d+)")


@contextmanager
def running(python: str, name: str, dumps: Path) -> Iterator[int]:
    """Run a program, and yield its pid when it is ready."""
    program = subprocess.Popen(
        [python, FOLDER / f"{name}.py", dumps],
        stdout=subprocess.PIPE, text=True, cwd=dumps.parent, start_new_session=True,
        env={**os.environ, "PYTHONPATH": str(dumps.parent), "PYTHONUNBUFFERED": "1"},
    )  # fmt: skip
    assert program.stdout is not None
    try:
        if not program.stdout.readline():
            sys.exit(f"{name} did not start")
        time.sleep(0.5)
        yield program.pid
    except OSError as error:
        raise Ended(f"{name} ended by itself: {program.poll()}") from error
    finally:
        with suppress(ProcessLookupError):
            os.killpg(program.pid, signal.SIGKILL)
        program.stdout.close()
        program.wait()


class Ended(Exception):
    """The program has ended."""


class Counts:
    """What was counted of one program. `unmatched` has each reason, and how often it occurred."""

    def __init__(self) -> None:
        self.samples = self.nameless = self.cut_off = self.compared = self.equal = 0
        self.unmatched: Counter[str] = Counter()
        self.examples: list[str] = []


class Sampled:
    """A process that is sampled."""

    def __init__(self, pid: int, symbolizer: Symbolizer, opened: ExitStack) -> None:
        self.pid, self._symbolizer = pid, symbolizer
        self.live = opened.enter_context(Process(pid).live_stacks(symbolizer))

    def sample(self, counts: Counts) -> None:
        """Take one sample of each thread."""
        stacks = self.live.copies()
        for stack in stacks:
            thread = self.live.interpreted.get(stack.tid)
            if thread is None or not (thread.stack.frames or thread.merged.problem):
                continue
            counts.samples += 1
            counts.cut_off += stack.unwound.end is not End.COMPLETE
            counts.nameless += any(frame.frame is None for frame in thread.stack.frames)
            problem = thread.merged.problem
            if problem:
                counts.unmatched[problem] += 1
                if len(counts.examples) < EXAMPLES:
                    (shown,) = self.live.name([stack])
                    counts.examples.append(f"{shown}\n{problem}: {thread.stack.evaluations}")


def sample(pid: int, wanted: int, seconds: float, counts: Counts, symbolizer: Symbolizer) -> None:
    """Sample a process and its children at random intervals until there are enough samples."""
    with ExitStack() as opened:
        processes = {pid: Sampled(pid, symbolizer, opened)}
        end = time.monotonic() + seconds
        searched = 0.0
        while counts.samples < wanted and time.monotonic() < end:
            if time.monotonic() - searched > SEARCH_INTERVAL:
                for child in descendants("/proc", pid):
                    if child not in processes:
                        processes[child] = Sampled(child, symbolizer, opened)
                searched = time.monotonic()
            for number, process in list(processes.items()):
                try:
                    process.sample(counts)
                except OSError:
                    if number == pid:
                        raise
            time.sleep(random.uniform(0, 0.004))


# comparison with faulthandler


def compare(pid: int, wanted: int, counts: Counts, symbolizer: Symbolizer, dumps: Path) -> None:
    """Stop the process, take its stacks, let faulthandler dump one thread before it continues, and compare."""
    for _ in range(wanted):
        time.sleep(random.uniform(0, 0.01))
        chosen = random.choice([pid, *descendants("/proc", pid)])
        os.kill(chosen, signal.SIGSTOP)
        try:
            until(lambda: all(state(chosen, tid) in "TZ" for tid in tids_of(f"/proc/{chosen}")))
            if has_ended(chosen):
                raise ProcessLookupError(chosen)
            stacks = [stack for stack in Process(chosen).stacks(symbolizer) if stack.python_frames]
            busy = [stack for stack in stacks if stack.has_gil]
            if not stacks:
                continue
            stack = random.choice(busy or stacks) if random.random() < 0.5 else random.choice(stacks)
            dumps.write_text("")
            send(chosen, stack.tid)
        finally:
            os.kill(chosen, signal.SIGCONT)
        until(lambda: not handles(chosen, stack.tid) and is_unchanged(dumps))
        if has_ended(chosen):
            raise ProcessLookupError(chosen)
        dumped = [LINE.fullmatch(line) for line in dumps.read_text(errors="replace").splitlines()]
        theirs = [
            (match[3], match[1], match[2])
            for match in dumped
            if match and (match[1], match[2]) != (match[3], "???")  # code that the interpreter made for itself
        ]
        ours = [
            (function.function, function.file.encode("ascii", "backslashreplace").decode(), str(function.line or "???"))
            for frame in stack.python_frames
            for function in frame.place.frames
        ]
        counts.compared += 1
        if len(theirs) == min(len(ours), DUMPED_FRAMES) and all(map(is_equal, ours, theirs)):
            counts.equal += 1
        elif len(counts.examples) < EXAMPLES:
            counts.examples.append(f"{stack}\nfaulthandler: {theirs}\nwhence: {ours}")


def is_equal(ours: tuple[str, str, str], theirs: tuple[str, str, str]) -> bool:
    """Return True if a frame is the same; faulthandler writes the name without what it is defined in."""
    name = ours[0].encode("ascii", "backslashreplace").decode()
    return name.rpartition(".")[2] == theirs[0].rpartition(".")[2] and ours[1:] == theirs[1:]


def send(pid: int, tid: int) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.syscall(TGKILL[os.uname().machine], pid, tid, signal.SIGUSR1):
        raise OSError(ctypes.get_errno(), "tgkill")


def state(pid: int, tid: int) -> str:
    with suppress(FileNotFoundError, ProcessLookupError):
        return Path(f"/proc/{pid}/task/{tid}/stat").read_text().rpartition(")")[2].split()[0]
    return "T"


def has_ended(pid: int) -> bool:
    return not Path(f"/proc/{pid}/stat").exists() or state(pid, pid) == "Z"


def handles(pid: int, tid: int) -> bool:
    """Return True if a signal is pending in a thread, or its handler runs."""
    bit = 1 << signal.SIGUSR1 - 1
    with suppress(FileNotFoundError, ProcessLookupError):
        lines = dict(line.split(":", 1) for line in Path(f"/proc/{pid}/task/{tid}/status").read_text().splitlines())
        return bool((int(lines["SigPnd"], 16) | int(lines["SigBlk"], 16)) & bit)
    return False


def is_unchanged(path: Path) -> bool:
    """Return True if a file has grown, and does not grow any more."""
    size = path.stat().st_size
    time.sleep(0.02)
    return bool(size) and path.stat().st_size == size


def until(condition) -> bool:
    end = time.monotonic() + 5
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.0005)
    return False


def py_spy(python: str, pid: int, seconds: int) -> str:
    """Return how many samples py-spy took, and how many it dropped."""
    program = Path(python).with_name("py-spy")
    if not seconds or not program.exists():
        return "-"
    words = ["record", "--native", "--subprocesses", "--rate", "100", "--format", "raw", "--output", os.devnull]
    done = subprocess.run(
        [program, *words, "--duration", str(seconds), "--pid", str(pid)], capture_output=True, text=True
    )
    match = RESULTS.search(done.stdout + done.stderr)
    return f"{int(match[2]):,} of {int(match[1]) + int(match[2]):,}" if match else "failed"


def build(python: str, folder: Path) -> None:
    """Compile the Cython module."""
    shutil.copy(FOLDER / "callbacks.pyx", folder)
    cythonize = Path(python).with_name("cythonize")
    if cythonize.exists():
        subprocess.run([cythonize, "-q", "-i", "callbacks.pyx"], cwd=folder, capture_output=True)


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("python", metavar="PYTHON")
    parser.add_argument("programs", metavar="PROGRAM", nargs="*", choices=[[], *PROGRAMS], default=[])
    parser.add_argument("--samples", type=int, default=10_000, metavar="N", help="of each program (10,000)")
    parser.add_argument("--seconds", type=float, default=120, metavar="S", help="for each program, at most (120)")
    parser.add_argument("--compare", type=int, default=200, metavar="N", help="stacks of each program (200)")
    parser.add_argument("--py-spy", type=int, default=10, metavar="S", help="seconds of py-spy for each program (10)")
    parser.add_argument("--show", action="store_true", help="print stacks that are unmatched or differ")
    given = parser.parse_args()
    failures = 0
    version = subprocess.run([given.python, "-V"], capture_output=True, text=True, check=True).stdout.split()[1]
    print(f"| CPython {version} | samples | unmatched | no name | cut off | dropped by py-spy | equal to faulthandler |")
    print("|---|---|---|---|---|---|---|")
    with TemporaryDirectory() as name, Symbolizer() as symbolizer:
        folder = Path(name)
        build(given.python, folder)
        for program in given.programs or PROGRAMS:
            tried = [given.python, "-c", f"import {PROGRAMS[program]}"]
            if subprocess.run(tried, capture_output=True, cwd=folder).returncode:
                print(f"| {program} | left out: no module {PROGRAMS[program]} |||||||", flush=True)
                continue
            counts = Counts()
            with running(given.python, program, folder / "dumps") as pid:
                sample(pid, given.samples, given.seconds, counts, symbolizer)
                theirs = py_spy(given.python, pid, given.py_spy)
            for _ in range(ATTEMPTS):
                if counts.compared >= given.compare:
                    break
                try:
                    with running(given.python, program, folder / "dumps") as pid:
                        compare(pid, given.compare - counts.compared, counts, symbolizer, folder / "dumps")
                except Ended as error:
                    print(error, file=sys.stderr)
            unmatched = sum(counts.unmatched.values())
            failures += unmatched + counts.compared - counts.equal
            equal = f"{counts.equal:,} of {counts.compared:,}"
            print(f"| {program} | {counts.samples:,} | {unmatched:,} | {counts.nameless:,} | {counts.cut_off:,} | {theirs} | {equal} |", flush=True)
            for problem, count in counts.unmatched.items():
                print(f"{count:,} times: {problem}", file=sys.stderr)
            if given.show:
                print(*counts.examples, sep="\n\n", file=sys.stderr, flush=True)
    return min(1, failures)


if __name__ == "__main__":
    sys.exit(main())
