"""The user's moments with a macOS program and its dSYM bundle: an archive, one cold address, 100,000 addresses.

Peers: symbolic's symcache, llvm-symbolizer. The program is C++ with its library, built by zig; dsymutil makes the dSYM.
"""

from __future__ import annotations

import random
import subprocess
import sys
from pathlib import Path

from benchmarks.create_archive import SYMCACHE
from benchmarks.inputs import ROOT, tool
from benchmarks.timing import processes, report
from whence.objects.macho import MachoFile

WHENCE = str(Path(sys.executable).parent / "whence")
SOURCE = ROOT / "tests" / "data" / "producers" / "words.cpp"
ZIG = [sys.executable, "-m", "ziglang", "c++", "-target", "aarch64-macos", "-g", "-O2", "-std=c++20"]
PARTS = [f"part{number}" for number in range(12)]  # each has the types and functions of the source
MANY = 100_000


def run() -> None:
    out = ROOT / ".cache" / "bench"
    out.mkdir(parents=True, exist_ok=True)
    path = out / "words-macos"
    if not path.exists():
        dsymutil = tool("dsymutil-19", "dsymutil")
        if dsymutil is None:
            print("dsymutil is not on this machine (Debian: llvm-19)")
            return
        build(path)
        subprocess.run([dsymutil, path], check=True)
    measure(path, out)


def build(path: Path) -> None:
    """Build a program of all parts. Their object files stay, because dsymutil reads them."""
    declared = "".join(f"namespace {part} {{ int run(int, char**); }}\n" for part in PARTS)
    calls = " + ".join(f"{part}::run(argc, argv)" for part in PARTS)
    main = path.with_suffix(".cpp")
    main.write_text(f"{declared}int main(int argc, char** argv) {{ return {calls}; }}\n")
    sources = {"main": [main]} | {part: ["-DLIBRARY", f"-DPART={part}", SOURCE] for part in PARTS}
    for name, source in sources.items():
        subprocess.run([*ZIG, "-c", *source, "-o", f"{path}-{name}.o"], check=True)
    subprocess.run([*ZIG, *(f"{path}-{name}.o" for name in sources), "-o", path], check=True)


def measure(path: Path, out: Path) -> None:
    (dsym,) = Path(f"{path}.dSYM").glob("Contents/Resources/DWARF/*")
    archive = str(out / f"{path.name}.lidia")
    title = f"{path.name} (dSYM of {dsym.stat().st_size / 1e6:.0f} MB)"
    create = {
        "whence": [WHENCE, "lidia", "create", str(path), "-o", archive],
        "whence, one thread": [WHENCE, "lidia", "create", str(path), "-o", archive, "--jobs", "1"],
        "symbolic symcache": [sys.executable, "-c", SYMCACHE, str(dsym), str(out / f"{path.name}.symcache")],
    }
    report(f"create: {title}", processes(create, runs=5))
    with MachoFile.open(path) as file:
        dice = random.Random(1)
        ranges = file.code_ranges()
        chosen = dice.choices(ranges, weights=[end - start for start, end in ranges], k=MANY)
        vaddrs = [dice.randrange(start, end) for start, end in chosen]
    commands = {"whence": [WHENCE, "addr", str(path)], "whence, archive": [WHENCE, "addr", archive]}
    symbolizer = tool("llvm-symbolizer-19", "llvm-symbolizer")
    if symbolizer:
        commands["llvm-symbolizer"] = [symbolizer, f"--obj={path}"]
    else:
        print("llvm-symbolizer is not on this machine (Debian: llvm)")
    item = {name: [*command, f"{vaddrs[0]:#x}"] for name, command in commands.items()}
    report(f"one address: {title}", processes(item, runs=5))
    stdin = out / f"{path.name}.{MANY}.txt"
    stdin.write_text("".join(f"{vaddr:#x}\n" for vaddr in vaddrs))
    report(f"{MANY:,} addresses: {title}", processes(commands, runs=3, stdin=str(stdin)))
