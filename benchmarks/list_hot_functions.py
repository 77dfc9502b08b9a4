"""The user's moment: lines and instructions of the 20 hottest functions in a 10 MB profile of a large program.

Whole processes. Names come from an archive, code from the executable. The peer is `go tool pprof -weblist` over the
same profile, named; it reads the program with its debug info and takes minutes: BENCH_PEERS=1.

BENCH_PROGRAM is an executable whose debug file is one of BENCH_FILES; eu-unstrip joins them for the peers. Without it
the largest file with debug info and code is used.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path

import whence
from benchmarks.inputs import ROOT, debug_files
from benchmarks.name_profile import made
from benchmarks.timing import processes, report
from whence import profiles
from whence.archive.create import create
from whence.listing.build import has_code
from whence.objects.elf import ElfFile

WHENCE = str(Path(sys.executable).parent / "whence")
FUNCTIONS = 20


def program(folder: Path) -> Path:
    """A program with code and debug info in one file."""
    given = os.environ.get("BENCH_PROGRAM")
    for path in reversed(debug_files()):
        with ElfFile.open(path) as elf:
            if given is None and has_code(elf):
                return path
            if given is None:
                continue
            with ElfFile.open(given) as executable:
                if executable.build_id != elf.build_id:
                    continue
        full = folder / Path(given).name
        if not full.exists():
            subprocess.run(["eu-unstrip", given, str(path), "-o", str(full)], check=True)
        return full
    raise SystemExit("no debug file of BENCH_PROGRAM among BENCH_FILES")


def run() -> None:
    folder = ROOT / ".cache" / "bench" / "listing"
    folder.mkdir(parents=True, exist_ok=True)
    path = program(folder)
    with ElfFile.open(path) as elf:
        archive = folder / f"{elf.build_id}.lidia"
    if not archive.exists():
        create(path, archive)
    (folder / "in.pb").write_bytes(made([path]))
    profile = profiles.read(folder / "in.pb")
    profile.symbolize(locator=whence.Locator(archive_dirs=[str(folder)]))
    samples = profile.samples
    hot: Counter[str] = Counter()
    for stack, value in zip(samples.of, samples.values[0], strict=True):
        frames = profile.frames[samples.stack[samples.first[stack]]]
        hot[frames[-1].function if frames else ""] += value
    with whence.open(archive) as names:
        spans = Counter(part.function for part in names.functions())
        hottest = [name for name, _ in hot.most_common() if spans[name] == 1][:FUNCTIONS]
    pattern = f"^({'|'.join(map(re.escape, hottest))})$"
    base = [WHENCE, "profile", str(folder / "in.pb"), "--no-cache", "--no-demangle", "--archive-dir", str(folder)]
    print(f"{(folder / 'in.pb').stat().st_size:,} bytes, {FUNCTIONS} of {len(hot):,} functions of {path.name}")
    commands = {
        "whence": [*base, "--annotate", pattern],
        "whence, lines": [*base, "--list", pattern],
        "whence, names only": [*base, "-o", str(folder / "named.pb.gz")],
    }
    report("20 hot functions by line and instruction", processes(commands, runs=int(os.environ.get("BENCH_RUNS", "3"))))
    if not os.environ.get("BENCH_PEERS"):
        return
    peers = {"whence": commands["whence"]}
    go = str(Path(sys.executable).parent / "go")
    weblist = [go, "tool", "pprof", "-symbolize=none", f"-weblist={pattern}", f"-output={folder / 'pprof.html'}"]
    peers["pprof -weblist"] = [*weblist, str(path), str(folder / "named.pb.gz")]
    report("20 hot functions, beside pprof", processes(peers, runs=1))
