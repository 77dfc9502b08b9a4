"""The user's moments on debug files that dwz rewrote, as distributions ship them: an archive, one cold address, 100,000
addresses. Peer: llvm-symbolizer. The plain file is measured beside them.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from benchmarks.inputs import ROOT, address_file, addresses, debug_files, tool
from benchmarks.timing import processes, report

WHENCE = str(Path(sys.executable).parent / "whence")
MANY = 100_000


def run() -> None:
    dwz, objcopy = tool("dwz"), tool("objcopy")
    if dwz is None or objcopy is None:
        print("dwz or objcopy is not on this machine (Debian: dwz, binutils)")
        return
    out = ROOT / ".cache" / "bench"
    out.mkdir(parents=True, exist_ok=True)
    for path in debug_files():
        plain, other = out / f"{path.name}.plain", out / f"{path.name}.dwz"
        subprocess.run([objcopy, "--decompress-debug-sections", path, plain], check=True)
        done = subprocess.run([dwz, "-L", "none", "-l", "none", "-o", other, plain], capture_output=True, text=True)
        if done.returncode or not other.exists():
            print(f"dwz leaves {path.name} as it is: {done.stderr.strip()[-200:]}")
            continue
        measure(plain, other)
        plain.unlink()
        other.unlink()


def measure(plain: Path, other: Path) -> None:
    """The same addresses in both files, by whence and llvm-symbolizer."""
    symbolizer = tool("llvm-symbolizer", "llvm-symbolizer-19", "llvm-symbolizer-14")
    commands = {"whence": [WHENCE, "addr", str(other)], "whence, plain file": [WHENCE, "addr", str(plain)]}
    if symbolizer:
        commands["llvm-symbolizer"] = [symbolizer, f"--obj={other}"]
        commands["llvm-symbolizer, plain file"] = [symbolizer, f"--obj={plain}"]
    address = f"{addresses(plain, 1)[0]:#x}"
    sizes = f"{other.stat().st_size / 1e6:.0f} MB, {plain.stat().st_size / 1e6:.0f} MB before dwz"
    made = str(plain.with_suffix(".lidia"))
    create = {
        "whence": [WHENCE, "lidia", "create", str(other), "-o", made],
        "whence, plain file": [WHENCE, "lidia", "create", str(plain), "-o", made],
    }
    report(f"create: {other.name} ({sizes})", processes(create, runs=5))
    Path(made).unlink()
    item = {name: [*command, address] for name, command in commands.items()}
    report(f"one address: {other.name} ({sizes})", processes(item, runs=5))
    stdin = str(address_file(plain, MANY))
    report(f"{MANY:,} addresses: {other.name}", processes(commands, runs=3, stdin=stdin))
