"""The user's moment: a Python service that must not notice that its stacks are taken, and a core of 100 threads.

How long threads are stopped for their Python frames, beside native frames alone (in turns); what a busy
program loses to 100 samples a second: the share of time for which it is stopped, and of the work that it does in a
second of its own processor time (caches); and the Python frames of a core, beside pystack's.
"""

from __future__ import annotations

import resource
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.inputs import tool
from benchmarks.timing import processes, report
from whence import Process, Symbolizer, profiles

WHENCE = str(Path(sys.executable).parent / "whence")
STOPS, PAUSE = 400, 0.002  # of each kind; seconds between them
TURNS, SECONDS, EVERY = 5, 2.0, 0.01
CORE_THREADS = 100
DEEP = """
import sys, threading, time
def deep(n):
    if not n:
        time.sleep(1000)
    return sorted([n - 1], key=deep)
for _ in range(int(sys.argv[1]) - 1):
    threading.Thread(target=deep, args=(12,), daemon=True).start()
time.sleep(0.5)
print("ready", flush=True)
deep(12)
"""
BUSY = """
import sys, time
def work(n):
    return work(n - 1) if n else sum(i * i for i in range(50))
print("ready", flush=True)
done, began = 0, time.process_time()
while True:
    for _ in range(50):
        work(20)
    done += 50
    used = time.process_time() - began
    if used > 0.1:
        print(time.monotonic(), done / used, flush=True)
        done, began = 0, time.process_time()
"""


@contextmanager
def program(text: str, *words: str, folder: str = ".", output: Path | None = None) -> Iterator[subprocess.Popen[str]]:
    """Run a program until the end of the block; its lines after the first one are written to a file."""

    def allow() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    with open(output or "/dev/null", "w") as rest:
        command = [sys.executable, "-c", text, *words]
        stdout = subprocess.PIPE if output is None else rest
        child = subprocess.Popen(command, stdout=stdout, text=True, cwd=folder, preexec_fn=allow)
        try:
            if child.stdout is not None:
                child.stdout.readline()
            yield child
        finally:
            child.kill()
            child.wait()


def stop_times(pid: int, symbolizer: Symbolizer) -> tuple[list[float], list[float]]:
    """Return the longest stop of a thread, in seconds, sorted: for native frames alone, and with Python frames."""
    process = Process(pid)
    native: list[float] = []
    python: list[float] = []
    with process.live_stacks(symbolizer, interpreters=False) as plain, process.live_stacks(symbolizer) as merged:
        for _ in range(STOPS):
            for live, times in ((plain, native), (merged, python)):
                times.append(max(stack.stopped_seconds for stack in live.copies()))
                time.sleep(PAUSE)
    return sorted(native), sorted(python)


def loss(symbolizer: Symbolizer, folder: str) -> tuple[float, float]:
    """Return the shares that a busy program loses to samples: of its time, and of its work per processor time.

    The time is that of the fastest quarter of stops, which other programs did not delay.
    """
    output = Path(folder, "work")
    spans: dict[bool, list[tuple[float, float]]] = {False: [], True: []}
    with program(BUSY, output=output) as child:
        time.sleep(0.5)
        for _ in range(TURNS):
            for is_sampled, of_kind in spans.items():
                began = time.monotonic()
                if is_sampled:
                    profiles.sample(child.pid, every=EVERY, seconds=SECONDS, symbolizer=symbolizer)
                else:
                    time.sleep(SECONDS)
                of_kind.append((began, time.monotonic()))
        stopped = stop_times(child.pid, symbolizer)[1][STOPS // 4]
    rows = [tuple(map(float, line.split())) for line in output.read_text().splitlines()[1:-1]]
    rates = {
        kind: statistics.median(rate for when, rate in rows if any(start + 0.3 < when < end for start, end in of_kind))
        for kind, of_kind in spans.items()
    }
    return stopped / EVERY, 1 - rates[True] / rates[False]


def run() -> None:
    with tempfile.TemporaryDirectory(prefix="whence-bench-") as folder, Symbolizer() as symbolizer:
        for title, text, words in (("8 threads asleep", DEEP, ["8"]), ("one busy thread", BUSY, [])):
            output = Path(folder, "ready") if text is BUSY else None
            with program(text, *words, output=output) as child:
                time.sleep(0.5)
                stops = stop_times(child.pid, symbolizer)
            for name, index in (("median", STOPS // 2), ("of the fastest tenth", STOPS // 10)):
                native, python = (times[index] for times in stops)
                times = f"{native * 1e6:.0f} us for native frames, {python * 1e6:.0f} us with Python frames"
                print(f"{title}, stopped ({name}) for {times}: {python / native:.2f}x")
        stopped, work = loss(symbolizer, folder)
        shares = f"{stopped:.1%} of its time and {work:.1%} of its work per processor time"
        print(f"100 samples a second cost a busy program {shares}: {stopped + work:.1%}")
        with program(DEEP, str(CORE_THREADS), folder=folder) as child:
            child.send_signal(signal.SIGABRT)
            child.wait()
        cores = list(Path(folder).glob("core*"))
        if not cores:
            print("no core was left: core_pattern leads elsewhere")
            return
        commands = {"whence": [WHENCE, "core", str(cores[0]), "--python-only"]}
        if pystack := tool("pystack"):
            commands["pystack"] = [pystack, "core", str(cores[0])]
        report(f"the Python frames of a core of {CORE_THREADS} threads", processes(commands))
