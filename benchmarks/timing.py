"""Timing for benchmarks: whole processes and calls, in turns, medians and ratios."""

from __future__ import annotations

import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Cost:
    """Medians over the runs: wall seconds and peak resident bytes (0 for calls)."""

    seconds: float
    peak_bytes: int = 0

    def __str__(self) -> str:
        peak = f", {self.peak_bytes / 1e6:.0f} MB" if self.peak_bytes else ""
        return f"{self.seconds * 1e3:.1f} ms{peak}"


# A child's peak memory counts what its parent had when it forked, so a small process starts and times the command.
LAUNCHER = """
import os, sys, time
null = os.open(os.devnull, os.O_RDWR)
actions = [
    (os.POSIX_SPAWN_OPEN, 0, sys.argv[1], os.O_RDONLY, 0),
    (os.POSIX_SPAWN_DUP2, null, 1),
    (os.POSIX_SPAWN_DUP2, null, 2),
]
began = time.perf_counter()
child = os.posix_spawnp(sys.argv[2], sys.argv[2:], os.environ, file_actions=actions)
_, _, usage = os.wait4(child, 0)
print(time.perf_counter() - began, usage.ru_maxrss * 1024)
"""


def process(command: Sequence[str], stdin: str | None = None) -> Cost:
    """One run of a command, its output thrown away. Peaks under some 10 MB are the launcher's own."""
    launcher = [sys.executable, "-I", "-S", "-c", LAUNCHER, stdin or os.devnull, *command]
    seconds, peak = subprocess.run(launcher, capture_output=True, text=True, check=True).stdout.split()
    return Cost(float(seconds), int(peak))


def processes(commands: Mapping[str, Sequence[str]], runs: int = 5, stdin: str | None = None) -> dict[str, Cost]:
    """Each command `runs` times, in turns after one warm-up each; medians."""
    seen: dict[str, list[Cost]] = {name: [] for name in commands}
    for turn in range(runs + 1):
        for name, command in commands.items():
            cost = process(command, stdin)
            if turn:
                seen[name].append(cost)
    return {
        name: Cost(statistics.median(c.seconds for c in costs), int(statistics.median(c.peak_bytes for c in costs)))
        for name, costs in seen.items()
    }


def calls(functions: Mapping[str, Callable[[], object]], runs: int = 5) -> dict[str, Cost]:
    """Each function `runs` times, in turns after one warm-up each; medians."""
    seen: dict[str, list[float]] = {name: [] for name in functions}
    for turn in range(runs + 1):
        for name, function in functions.items():
            began = time.perf_counter()
            function()
            if turn:
                seen[name].append(time.perf_counter() - began)
    return {name: Cost(statistics.median(times)) for name, times in seen.items()}


RESULTS: dict[str, dict[str, Cost]] = {}  # by title: what `python -m benchmarks --record` writes


def report(title: str, costs: Mapping[str, Cost], ours: str = "whence") -> None:
    """Print a line for each command, with the ratio to ours, and keep the figures for the results file."""
    RESULTS[title] = dict(costs)
    print(f"{title}")
    base = costs[ours].seconds
    for name, cost in costs.items():
        ratio = "" if name == ours else f"  whence takes {base / cost.seconds:.2f}x its time"
        print(f"  {name:28} {cost!s:>24}{ratio}")
    sys.stdout.flush()
