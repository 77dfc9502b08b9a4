"""The user's moment: many pprof profiles of 100 KB, as agents of a fleet store them, named by one process.

The measure is the time that reading them takes alone: whence.profiles.read and the samples of each, one by one. Both in
seconds of processor time, too, which other work on the machine changes least. BENCH_PROFILES says how many: of 200,
whence's start is a larger share than of a thousand.
"""

from __future__ import annotations

import json
import os
import resource
import statistics
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.name_profile import WHENCE, archived, made
from whence.profiles.formats import gz

FILES = int(os.environ.get("BENCH_PROFILES", "200"))
BYTES = 220_000  # of each, unpacked: some 100 KB in gzip
LOCATIONS = 100  # of each binary
ROUNDS = 5

PARSE = """
import sys
from pathlib import Path
from whence.profiles import read
for path in sorted(Path(sys.argv[1]).iterdir()):
    len(read(path).samples)
"""


def inputs(folder: Path, paths: list[Path]) -> Path:
    """A folder of profiles: each has locations of its own in the same binaries."""
    location = folder / f"profiles-{FILES}"
    if len(list(location.glob("*.pb.gz"))) < FILES:
        location.mkdir(exist_ok=True)
        for number in range(FILES):
            plain = made(paths, BYTES, seed=number, count=LOCATIONS)
            (location / f"{number:04}.pb.gz").write_bytes(gz.deflated(plain))
    return location


def run() -> None:
    folder, paths = archived()
    location = inputs(folder, paths)
    files = sorted(location.iterdir())
    print(f"{len(files):,} files of {sum(each.stat().st_size for each in files) // len(files):,} bytes")
    base = [WHENCE, "profile", "--no-cache", "--archive-dir", str(folder), *map(str, files)]
    commands = {
        "whence profile A B C": [*base, "-o", str(folder / "profiles-out"), "--json"],
        "reading alone": [sys.executable, "-c", PARSE, str(location)],
    }
    ratios: list[tuple[float, float]] = []
    for _ in range(ROUNDS):
        costs = []
        for name, command in commands.items():
            before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
            run = subprocess.run(command, capture_output=True, text=True, check=True)
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            processor = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            costs.append((time.perf_counter() - began, processor))
            print(f"  {name:22} {costs[-1][0]:7.2f} s  {processor:7.2f} s of processor")
            if run.stdout.startswith("{"):
                lines = [json.loads(line) for line in run.stdout.splitlines()]
                unnamed = sum(each["unnamed"] for each in lines)
                print(f"  {sum(each['named'] for each in lines):,} locations named, {unnamed:,} not")
        (wall, processor), (wall_alone, processor_alone) = costs
        ratios.append((wall / wall_alone, processor / processor_alone))
    wall, processor = (statistics.median(column) for column in zip(*ratios, strict=True))
    print(f"ratio {wall:.2f} (at most 1.5), of processor time {processor:.2f}")
