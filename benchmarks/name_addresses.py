"""The user's moments: one address, cold; 100,000 addresses on stdin. Peers: llvm-symbolizer, addr2line.

Whole processes, text out, function and inlined frames and file:line, from the ELF file and (ours) from its archive.
"""

from __future__ import annotations

import sys
from pathlib import Path

from benchmarks.inputs import ROOT, address_file, addresses, debug_files, tool
from benchmarks.timing import Cost, processes, report

WHENCE = str(Path(sys.executable).parent / "whence")
MANY = 100_000


def run() -> None:
    for path in debug_files():
        archive = ROOT / ".cache" / "bench" / f"{path.name}.lidia"
        archive.parent.mkdir(parents=True, exist_ok=True)
        processes({"create": [WHENCE, "lidia", "create", str(path), "-o", str(archive)]}, runs=1)
        one(path, archive)
        many(path, archive)


def one(path: Path, archive: Path) -> None:
    address = f"{addresses(path, 1)[0]:#x}"
    commands = {
        "whence": [WHENCE, "addr", str(path), address],
        "whence, archive": [WHENCE, "addr", str(archive), address],
        "python3 -c pass": [sys.executable, "-c", "pass"],
    }
    if symbolizer := tool("llvm-symbolizer", "llvm-symbolizer-19"):
        commands["llvm-symbolizer"] = [symbolizer, f"--obj={path}", address]
    if addr2line := tool("addr2line"):
        commands["addr2line"] = [addr2line, "-afiCe", str(path), address]
    report(f"one address: {path.name}", processes(commands, runs=5))


def many(path: Path, archive: Path) -> None:
    stdin = str(address_file(path, MANY))
    commands = {"whence": [WHENCE, "addr", str(path)], "whence, archive": [WHENCE, "addr", str(archive)]}
    if symbolizer := tool("llvm-symbolizer", "llvm-symbolizer-19"):
        commands["llvm-symbolizer"] = [symbolizer, f"--obj={path}"]
    costs: dict[str, Cost] = processes(commands, runs=3, stdin=stdin)
    report(f"{MANY:,} addresses: {path.name}", costs)
