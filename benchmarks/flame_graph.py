"""The user's moment: a profile of many different stacks, drawn. Whole processes, with archives of the binaries.

Stacks are random walks and all different: the worst case, for a tree shares only what stacks share. Naming
alone (`--coverage`) is measured beside it.
"""

from __future__ import annotations

from benchmarks.name_profile import WHENCE, archived, made
from benchmarks.timing import processes, report

SIZES = {"7 MB, 140,000 stacks": 7_000_000, "8 MB, 163,000 stacks": 8_060_000, "60 MB, 1.2 million stacks": 60_000_000}


def run() -> None:
    folder, paths = archived()
    base = [WHENCE, "profile", "--no-cache", "--archive-dir", str(folder)]
    for title, size in SIZES.items():
        file, out = folder / "stacks.pb", folder / "flame.html"
        file.write_bytes(made(paths, size))
        commands = {
            "whence": [*base, str(file), "--flamegraph", str(out)],
            "naming alone": [*base, str(file), "--coverage"],
        }
        report(title, processes(commands, runs=3))
        print(f"  the page has {out.stat().st_size:,} bytes")
