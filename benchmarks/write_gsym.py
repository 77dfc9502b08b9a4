"""The user's moment: debug info as a GSYM file for tools that read these. Peer: llvm-gsymutil."""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.inputs import ROOT, debug_files, tool
from benchmarks.timing import processes, report

WHENCE = str(Path(sys.executable).parent / "whence")


def run() -> None:
    gsymutil = tool("llvm-gsymutil-19", "llvm-gsymutil")
    if gsymutil is None:
        print("llvm-gsymutil is not on this machine (Debian: llvm-19)")
    out = ROOT / ".cache" / "bench"
    out.mkdir(parents=True, exist_ok=True)
    for path in debug_files():
        ours, theirs = f"{out / path.name}.gsym", f"{out / path.name}.llvm.gsym"
        commands = {"whence": [WHENCE, "convert", str(path), "-o", ours]}
        if gsymutil is not None:
            commands["llvm-gsymutil"] = [gsymutil, f"--convert={path}", f"--out-file={theirs}", "--num-threads=2"]
        report(f"gsym: {path.name} ({path.stat().st_size / 1e6:.0f} MB)", processes(commands, runs=3))
        for made in filter(Path.exists, (Path(ours), Path(theirs))):
            print(f"  {made.name:28} {made.stat().st_size / 1e6:21.1f} MB")
