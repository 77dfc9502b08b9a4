"""`python -m fuzz [TARGET ...] [--seconds N] [--seed N]`: mutate seeds, feed each target, keep what breaks it.

A target is a module of this package with `seeds() -> list[bytes]` and `target(data: bytes) -> None`; it lets
WhenceError pass and nothing else. An input that raises anything else, or takes more processor time or memory than its
bytes justify (docs/bounds.md), is written to .cache/fuzz/ and reported; it belongs into the tests by name. Seeds that
tests/hostile/ has are among those of each target.
"""

from __future__ import annotations

import argparse
import faulthandler
import importlib
import random
import resource
import subprocess
import sys
import time
from pathlib import Path

from tests.forge.mutations import mutated
from tools import corpus
from whence._base.errors import WhenceError

KEPT = Path(".cache") / "fuzz"
SECONDS, SECONDS_A_BYTE = 1.0, 50e-6
GROWTH, GROWTH_A_BYTE = 128 << 20, 4096


def run(name: str, seconds: float, seed: int) -> int:
    """Fuzz one target in this process; gives the number of failures."""
    module = importlib.import_module(f"fuzz.{name}")
    seeds: list[bytes] = module.seeds()
    dice = random.Random(seed)
    KEPT.mkdir(parents=True, exist_ok=True)
    current = KEPT / f"{name}.current"  # what was being tried if the process dies
    for data in seeds:
        module.target(data)
    end = time.monotonic() + seconds
    tries = failures = 0
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
    while time.monotonic() < end:
        data = mutated(dice.choice(seeds), dice)
        current.write_bytes(data)
        tries += 1
        began = time.process_time()
        problem = ""
        try:
            module.target(data)
        except WhenceError:
            pass
        except Exception as error:
            problem = f"{type(error).__name__}: {error}"
        took = time.process_time() - began
        now = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024
        if took > SECONDS + SECONDS_A_BYTE * len(data):
            problem = problem or f"took {took:.1f} s for {len(data)} bytes"
        if now - peak > GROWTH + GROWTH_A_BYTE * len(data):
            problem = problem or f"memory grew by {(now - peak) >> 20} MiB for {len(data)} bytes"
        peak = max(peak, now)
        if problem:
            failures += 1
            kept = KEPT / f"{name}-{seed}-{tries}.bin"
            kept.write_bytes(data)
            print(f"{name}: {problem} ({kept})", file=sys.stderr)
    current.unlink(missing_ok=True)
    print(f"{name}: {tries} inputs in {seconds:.0f} s, {failures} failures, peak {peak >> 20} MiB")
    return failures


def main() -> int:
    names = corpus.names()
    parser = argparse.ArgumentParser(prog="python -m fuzz", description="Fuzz whence's parsers.")
    parser.add_argument("targets", nargs="*", default=names, help=f"one or more of: {', '.join(names)}")
    parser.add_argument("--seconds", type=float, default=60, help="for each target")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--here", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.here:
        faulthandler.enable()
        return min(1, sum(run(name, options.seconds, options.seed) for name in options.targets))
    failed = 0
    for name in options.targets:  # each in a process of its own: a crash is a finding, not the end
        command = [
            sys.executable,
            "-m",
            "fuzz",
            name,
            "--here",
            f"--seconds={options.seconds}",
            f"--seed={options.seed}",
        ]
        status = subprocess.run(command).returncode
        if status:
            failed += 1
            if status < 0:
                print(f"{name}: died of signal {-status}; the input is {KEPT / (name + '.current')}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
