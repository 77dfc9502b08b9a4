"""The user's moment: a core of 1 GB with 100 threads, and a live process of 200 threads; every thread's stack.

Of the core also with the variables of every frame. Whole processes; the peers are gdb (`thread apply all bt`, and `bt
full` for variables) and eu-stack over the same core and the same process. The
program is this Python, each of whose threads has called itself through C a dozen times. BENCH_MEGABYTES changes the
size of the core's memory, BENCH_PEERS=1 has eu-stack read the core, too.
"""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.inputs import tool
from benchmarks.timing import processes, report
from whence.unwind.stopping import StackPointer, stop_threads

WHENCE = str(Path(sys.executable).parent / "whence")
MEGABYTES = int(os.environ.get("BENCH_MEGABYTES", "1000"))
CORE_THREADS, LIVE_THREADS = 100, 200
STOPS = 20
RUNS = int(os.environ.get("BENCH_RUNS", "3"))
PROGRAM = """
import sys, threading, time
def deep(n):
    if not n:
        time.sleep(1000)
    return sorted([n - 1], key=deep)
memory = [b"x" * (1 << 20) for _ in range(int(sys.argv[2]))]
for _ in range(int(sys.argv[1]) - 1):
    threading.Thread(target=deep, args=(12,), daemon=True).start()
time.sleep(0.5)
print("ready", flush=True)
deep(12)
"""


def started(threads: int, megabytes: int, folder: str) -> subprocess.Popen[bytes]:
    def allow() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    words = [sys.executable, "-c", PROGRAM, str(threads), str(megabytes)]
    child = subprocess.Popen(words, cwd=folder, stdout=subprocess.PIPE, preexec_fn=allow)
    assert child.stdout is not None
    child.stdout.readline()
    return child


def gdb(*words: str, command: str = "bt") -> list[str]:
    settings = ["-iex", "set debuginfod enabled off"]
    return ["gdb", "-batch", "-nx", *settings, "-ex", f"thread apply all {command}", *words]


def run() -> None:
    os.environ.pop("DEBUGINFOD_URLS", None)  # eu-stack would ask for each file
    with tempfile.TemporaryDirectory(prefix="whence-bench-") as folder:
        child = started(CORE_THREADS, MEGABYTES, folder)
        os.kill(child.pid, signal.SIGABRT)
        child.wait()
        cores = list(Path(folder).glob("core*"))
        if cores:
            core = str(cores[0])
            print(f"a core of {os.path.getsize(core):,} bytes, {CORE_THREADS} threads")
            commands = {"whence": [WHENCE, "core", core]}
            if tool("gdb"):
                commands["gdb"] = gdb(sys.executable, core)
            if tool("eu-stack") and os.environ.get("BENCH_PEERS"):  # it takes a minute and more
                commands["eu-stack"] = ["eu-stack", "-n", "0", "--core", core]
            report("every stack of the core", processes(commands, RUNS))
            commands = {"whence": [WHENCE, "core", core, "--locals"]}
            if tool("gdb"):
                commands["gdb"] = gdb(sys.executable, core, command="bt full")
            report("every variable of the core", processes(commands, RUNS))
        else:
            print("no core was left: core_pattern leads elsewhere")
        child = started(LIVE_THREADS, 1, folder)
        pid = str(child.pid)
        layouts = [StackPointer(216, 152, 8), StackPointer(272, 248, 8)]
        kept = [stop_threads(child.pid, f"/proc/{pid}", layouts).stopped_seconds for _ in range(STOPS)]
        print(f"a process of {LIVE_THREADS} threads, each stopped for {min(kept) * 1e3:.2f} ms at most")
        commands = {"whence": [WHENCE, "pid", pid, "--stop"]}
        if tool("gdb"):
            commands["gdb"] = gdb("-p", pid)
        if tool("eu-stack"):
            commands["eu-stack"] = ["eu-stack", "-n", "0", "-p", pid]
        report("every stack of the process", processes(commands, RUNS))
        child.kill()
        child.wait()
