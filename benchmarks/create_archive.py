"""The user's moment: turning a binary's debug info into an archive. Peers: llvm-gsymutil, symbolic's symcache."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.inputs import ROOT, debug_files, tool
from benchmarks.timing import processes, report

SYMCACHE = """
import sys, symbolic
cache = next(symbolic.Archive.open(sys.argv[1]).iter_objects()).make_symcache()
cache.dump_into(open(sys.argv[2], "wb"))
"""


def run() -> None:
    out = ROOT / ".cache" / "bench"
    out.mkdir(parents=True, exist_ok=True)
    for path in debug_files():
        base = str(out / path.name)
        commands = {
            "whence": [
                str(Path(sys.executable).parent / "whence"),
                "lidia",
                "create",
                str(path),
                "-o",
                f"{base}.lidia",
            ],
            "symbolic symcache": [sys.executable, "-c", SYMCACHE, str(path), f"{base}.symcache"],
        }
        gsymutil = tool("llvm-gsymutil", "llvm-gsymutil-19", "llvm-gsymutil-14")
        if gsymutil is None:
            print("llvm-gsymutil is not on this machine (Debian: llvm)")
        else:
            commands["llvm-gsymutil"] = [gsymutil, f"--convert={path}", f"--out-file={base}.gsym", "--num-threads=2"]
        report(f"create: {path.name} ({path.stat().st_size / 1e6:.0f} MB)", processes(commands, runs=3))
        for made in sorted(out.glob(f"{path.name}.*")):
            if made.suffix != ".txt":
                print(f"  {made.suffix[1:]:28} {made.stat().st_size / 1e6:21.1f} MB")
