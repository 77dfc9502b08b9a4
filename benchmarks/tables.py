"""Tables of speed in README.md and docs/performance.md, made from results.json.

    python -m benchmarks --record NAME ...    measure, and merge the figures into results.json
    python -m benchmarks.tables               rewrite the tables from results.json
    python -m benchmarks.tables --check       exit with 1 if a table differs from results.json

A table is the text between `<!-- table NAME -->` and `<!-- end -->`.
"""

from __future__ import annotations

import datetime
import json
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.timing import Cost

ROOT = Path(__file__).parent.parent
RESULTS = Path(__file__).parent / "results.json"
PAGES = (ROOT / "README.md", ROOT / "docs" / "performance.md")
TABLE = re.compile(r"<!-- table ([\w-]+) -->\n.*?<!-- end -->", re.DOTALL)

# Debug files of Debian 12, as `make oracle` downloads them: the name in the tables, and what its path contains.
FILES = {
    "libpython 3.11, LTO": "python",
    "glibc 2.36": "libc",
    "ceph-mds 16": "ceph",
    "Linux 6.1": "vmlinux",
}


def record(results: Mapping[str, Mapping[str, Cost]]) -> None:
    """Merge figures into results.json, with today's date."""
    jobs: dict[str, Any] = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
    today = datetime.date.today().isoformat()
    for title, costs in results.items():
        figures = {name: [round(cost.seconds, 5), cost.peak_bytes] for name, cost in costs.items()}
        jobs[title] = {"measured": today, "seconds, peak bytes": figures}
    RESULTS.write_text(json.dumps(jobs, indent=1, sort_keys=True) + "\n")


class Results:
    """The figures of results.json."""

    def __init__(self, jobs: Mapping[str, Any]) -> None:
        self._jobs = jobs

    def job(self, start: str) -> dict[str, Cost]:
        """Return the costs of the job whose title begins with `start`, by tool; empty if it was not measured."""
        for title, job in self._jobs.items():
            if title.startswith(start):
                return {name: Cost(*figures) for name, figures in job["seconds, peak bytes"].items()}
        return {}


def seconds(cost: Cost | None) -> str:
    return "" if cost is None else f"{cost.seconds:.3f}"


def megabytes(cost: Cost | None) -> str:
    return "" if cost is None else f"{cost.peak_bytes / 1e6:.0f}"


def ratio(ours: Cost | None, peers: list[Cost]) -> str:
    return "" if ours is None or not peers else f"{ours.seconds / min(peer.seconds for peer in peers):.2f}"


def markdown(heads: list[str], rows: list[list[str]]) -> str:
    lines = [heads, ["---"] * len(heads), *rows]
    return "".join(f"| {' | '.join(cells)} |\n" for cells in lines)


def per_file(results: Results, job: str, peers: list[str], archive: bool) -> str:
    """Return a table of one job with a row for each debug file."""
    ours = ["whence", "whence, archive"] if archive else ["whence"]
    rows = []
    for label, name in FILES.items():
        costs = results.job(f"{job}: {name}")
        if costs:
            measured = [cost for peer in peers if (cost := costs.get(peer))]
            cells = [seconds(costs.get(tool)) for tool in [*ours, *peers]]
            rows.append([label, *cells, ratio(costs.get("whence"), measured), megabytes(costs.get("whence"))])
    heads = ["file", "whence", *(["from its archive"] if archive else []), *peers]
    return markdown([*heads, "whence / fastest peer", "whence, peak MB"], rows)


def readme(results: Results) -> str:
    """Return README's table: one row for each job, seconds throughout."""
    jobs = (
        ("First answer from ceph-mds (183 MB of compressed .debug_info)", "one address: ceph", "llvm-symbolizer"),
        ("100,000 addresses of a Linux kernel", "100,000 addresses: vmlinux", "llvm-symbolizer"),
        ("Archive of a Linux kernel (164 MB of .debug_info)", "create: vmlinux", "llvm-gsymutil"),
        ("Stacks of 100 threads in a core of 1 GB", "every stack of the core", "gdb"),
        ("A Go trace of 19.5 million events as text", "Go trace: wire to text", "Go's raw package"),
    )
    rows = []
    for label, title, peer in jobs:
        costs = results.job(title)
        if costs:
            cells = [seconds(costs["whence"]), seconds(costs.get("whence, archive"))]
            rows.append([label, *cells, f"{seconds(costs.get(peer))} ({peer})"])
    return markdown(["job", "whence", "whence, from an archive", "peer"], rows)


def plain(results: Results, titles: Mapping[str, str]) -> str:
    """Return a table with a row for each tool of each job."""
    rows = []
    for label, title in titles.items():
        for tool, cost in results.job(title).items():
            rows.append([label, tool, seconds(cost), megabytes(cost)])
    return markdown(["job", "tool", "seconds", "peak MB"], rows)


STACKS = {
    "every stack of a core": "every stack of the core",
    "every variable of a core": "every variable of the core",
    "every stack of a live process": "every stack of the process",
}
GO_JOBS = ("read every event", "columns (Go reads events)", "wire to text", "text to wire")
GO = {title: f"Go trace: {title}" for title in GO_JOBS}
PROFILES = {
    "10 MB of pprof": "a 10 MB profile",
    "30 MB of OTLP": "a 30 MB profile",
    "a million samples of perf.data": "a million samples named",
}


def tables(results: Results) -> dict[str, str]:
    """Return every table by its name."""
    return {
        "speed": readme(results),
        "create": per_file(results, "create", ["symbolic symcache", "llvm-gsymutil"], archive=False),
        "one-address": per_file(results, "one address", ["llvm-symbolizer", "addr2line"], archive=True),
        "many-addresses": per_file(results, "100,000 addresses", ["llvm-symbolizer"], archive=True),
        "stacks": plain(results, STACKS),
        "go-traces": plain(results, GO),
        "profiles": plain(results, PROFILES),
    }


def rewritten(text: str, made: Mapping[str, str]) -> str:
    return TABLE.sub(lambda match: f"<!-- table {match[1]} -->\n{made[match[1]]}<!-- end -->", text)


def main() -> int:
    made = tables(Results(json.loads(RESULTS.read_text())))
    differing = [page for page in PAGES if rewritten(page.read_text(), made) != page.read_text()]
    for page in differing:
        if "--check" in sys.argv:
            print(f"{page.relative_to(ROOT)}:1: tables differ from results.json: run python -m benchmarks.tables")
        else:
            page.write_text(rewritten(page.read_text(), made))
    return 1 if differing and "--check" in sys.argv else 0


if __name__ == "__main__":
    sys.exit(main())
