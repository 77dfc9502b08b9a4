"""Go traces: reading, to text, to wire, as columns, beside Go's own raw reader and writer over the same trace.

Go's package is internal, so its program is built inside a copy of the toolchain's source tree. The trace is of one
that hands numbers from goroutine to goroutine: 100 MB of small events. Events a second are of the whole process.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.timing import RESULTS, Cost, processes
from tests.helpers import golang

ROOT = Path(__file__).parent.parent
CACHE = ROOT / ".cache" / "go-trace"
PEER = ROOT / "benchmarks" / "go_trace_peer.go.txt"
HANDOVERS = int(os.environ.get("WHENCE_BENCH_HANDOVERS", "6500000"))

OURS = """
import sys
from whence import gotrace
mode, path = sys.argv[1:]
null = open("/dev/null", "wb", buffering=0)
if mode == "read":
    n = sum(1 for _ in gotrace.Reader(path))
elif mode == "columns":
    n = sum(len(block) for block in gotrace.ColumnReader(path))
elif mode == "text":
    gotrace.wire_to_text(path, null)
elif mode == "wire":
    gotrace.text_to_wire(path, null)
"""


def go(*arguments: str, root: Path | None = None) -> None:
    """Run the go command."""
    home = golang.goroot()
    environment = {
        **os.environ,
        "GOROOT": str(root or home),
        "GOCACHE": str(ROOT / ".cache" / "go-build"),
        "GOFLAGS": "",
    }
    environment["GOTOOLCHAIN"] = "local"
    subprocess.run([str(home / "bin" / "go"), *arguments], check=True, env=environment, cwd=(root or home) / "src")


def peer() -> Path:
    """Go's raw package with a main, built once."""
    program, root = CACHE / "peer", CACHE / "goroot"
    if not program.exists():
        shutil.copytree(golang.goroot(), root, symlinks=True, dirs_exist_ok=True)
        main = root / "src" / "cmd" / "whencepeer"
        main.mkdir(exist_ok=True)
        shutil.copy(PEER, main / "main.go")
        go("build", "-o", str(program), "cmd/whencepeer", root=root)
    return program


def trace() -> tuple[Path, Path]:
    """The trace and its text form, made once."""
    wire, text = CACHE / f"storm-{HANDOVERS}.trace", CACHE / f"storm-{HANDOVERS}.txt"
    if not text.exists():
        program = CACHE / "storm"
        go("build", "-o", str(program), str(ROOT / "tests/gotrace/programs/storm.go"))
        with open(wire, "wb") as out:
            subprocess.run([str(program), str(HANDOVERS)], stdout=out, check=True)
        with open(text, "wb") as out:
            subprocess.run([sys.executable, "-m", "whence.cli", "trace", "text", str(wire)], stdout=out, check=True)
    return wire, text


def run() -> None:
    CACHE.mkdir(parents=True, exist_ok=True)
    began = time.perf_counter()
    wire, text = trace()
    theirs = str(peer())
    command = [sys.executable, "-m", "whence.cli", "trace", "info", "--json", str(wire)]
    events = sum(json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["events"].values())
    print(f"{events} events, {wire.stat().st_size >> 20} MiB, text {text.stat().st_size >> 20} MiB", end="")
    print(f" (prepared in {time.perf_counter() - began:.0f} s)")
    jobs = (
        ("read every event", "read", "read", wire),
        ("columns (Go reads events)", "columns", "read", wire),
        ("wire to text", "text", "text", wire),
        ("text to wire", "wire", "wire", text),
    )
    for title, mine, other, path in jobs:
        ours = [sys.executable, "-c", OURS, mine, str(path)]
        costs = processes({"whence": ours, "Go's raw package": [theirs, other, str(path)]}, runs=3)
        show(title, costs, events)


def show(title: str, costs: dict[str, Cost], events: int) -> None:
    RESULTS[f"Go trace: {title}"] = costs
    base = costs["whence"].seconds
    print(title)
    for name, cost in costs.items():
        rate, peak = events / cost.seconds / 1e6, cost.peak_bytes / 1e6
        ratio = "" if name == "whence" else f"  whence is {cost.seconds / base:.1f}x as fast"
        print(f"  {name:18} {cost.seconds:7.2f} s {rate:7.1f} M events/s {peak:6.0f} MB{ratio}")
    sys.stdout.flush()
