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


def process(command: Sequence[str], stdin: str | None = None) -> Cost:
    """One run of a command, its output thrown away."""
    with open(stdin or os.devnull, "rb") as source, open(os.devnull, "wb") as sink:
        began = time.perf_counter()
        child = subprocess.Popen(command, stdin=source, stdout=sink, stderr=sink)
        _, _, usage = os.wait4(child.pid, 0)
        return Cost(time.perf_counter() - began, usage.ru_maxrss * 1024)


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


def report(title: str, costs: Mapping[str, Cost], ours: str = "whence") -> None:
    """A line for each, with the ratio to ours."""
    print(f"{title}")
    base = costs[ours].seconds
    for name, cost in costs.items():
        ratio = "" if name == ours else f"  whence takes {base / cost.seconds:.2f}x its time"
        print(f"  {name:28} {cost!s:>24}{ratio}")
    sys.stdout.flush()
