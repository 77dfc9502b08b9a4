"""The user's moment: a perf.data of a million samples with call chains, over big debug info whose archives
exist; named, written and drawn.

Whole processes; the peer is `perf script --no-inline` over the same files, its text thrown away. Stacks are made from
random walks over few hot functions, so that they repeat as real ones do. BENCH_SAMPLES changes their number.
"""

from __future__ import annotations

import os
import random
import struct
import sys
from pathlib import Path

from benchmarks.inputs import ROOT, addresses, debug_files, tool
from benchmarks.timing import processes, report
from tests.forge.perfdata import KERNEL, KERNEL_PID, USER, Forge
from whence.archive.create import create
from whence.objects.elf import ElfFile

WHENCE = str(Path(sys.executable).parent / "whence")
SAMPLES = int(os.environ.get("BENCH_SAMPLES", "1000000"))
HOT = 3_000  # functions' addresses of each binary
DEPTH = 20
STACKS = 60_000  # distinct ones
THREADS = 4
PID = 4000


def made(paths: list[Path], out: Path) -> list[str]:
    """The recording; returns the options that name a kernel among the files."""
    dice = random.Random(1)
    forge = Forge()
    records = []
    user: list[int] = []
    kernel: list[int] = []
    options: list[str] = []
    build_ids = []
    for index, path in enumerate(paths):
        with ElfFile.open(path) as elf:
            code = next(each for each in elf.segments if each.type == 1 and each.executable)
            build_id = elf.build_id
        inside = [
            number for number in addresses(path, 2 * HOT) if code.vaddr <= number < code.vaddr + code.memory_size
        ][:HOT]
        if code.vaddr >> 63:
            name, start = "[kernel.kallsyms]_text", code.vaddr
            records.append(forge.mmap(KERNEL_PID, start, code.memory_size, start, name, misc=1))
            kernel += inside
            options = [str(path)]
            build_ids.append(("[kernel.kallsyms]", build_id))
            continue
        low = code.vaddr & -4096
        start = 0x7F0000000000 + (index << 32)
        size = (code.memory_size + code.vaddr - low + 4095) & -4096
        records.append(forge.mmap2(PID, start, size, code.file_offset & -4096, str(path), build_id=build_id))
        user += [start + number - low for number in inside]
    records += [forge.comm(PID, PID + number, f"worker-{number}") for number in range(THREADS)]
    chains = []
    stack = dice.choices(user, k=DEPTH)
    for _ in range(STACKS):
        keep = dice.randrange(DEPTH)
        stack = (dice.choices(user, k=DEPTH) + stack[keep:])[-DEPTH:]
        chain = [USER, *stack]
        if kernel and dice.random() < 0.3:
            chain = [KERNEL, *dice.choices(kernel, k=6), *chain]
        chains.append((chain[1], forge.pack(f"Q{len(chain)}Q", len(chain), *chain), 1 if chain[0] == KERNEL else 2))
    weights = [1 / (1 + number) for number in range(STACKS)]
    order = dice.choices(range(STACKS), weights=weights, k=SAMPLES)
    head, fixed = struct.Struct("<IHH"), struct.Struct("<QIIQQIIQ")
    parts = []
    for number, each in enumerate(order):
        ip, chain_bytes, mode = chains[each]
        tid = PID + number % THREADS
        body = fixed.pack(ip, PID, tid, 1_000_000_000 + 1000 * number, 1, number % 8, 0, 250_000)
        parts.append(head.pack(9, mode, 8 + len(body) + len(chain_bytes)) + body + chain_bytes)
    out.write_bytes(forge.file([*records, *parts], features={2: forge.build_ids(build_ids)} if build_ids else None))
    return options


def run() -> None:
    paths = debug_files()
    folder = ROOT / ".cache" / "bench" / "perfdata"
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / f"{SAMPLES}.data"
    kernel = made(paths, path)
    print(f"{path.stat().st_size:,} bytes, {SAMPLES:,} samples over {', '.join(each.name for each in paths)}")
    for each in paths:
        with ElfFile.open(each) as elf:
            archive = folder / f"{elf.build_id}.lidia"
        if not archive.exists():
            create(each, archive)
    base = [WHENCE, "profile", str(path), "--no-cache", "--archive-dir", str(folder)]
    commands = {
        "whence": [*base, "-o", str(folder / "out.pb.gz")],
        "whence, flame graph": [*base, "--flamegraph", str(folder / "out.html")],
    }
    if perf := tool("perf"):
        commands["perf script --no-inline"] = [perf, "script", "--no-inline", "-i", str(path)]
        for symbols in kernel:
            commands["perf script --no-inline"] += ["-k", symbols]
    report("a million samples named", processes(commands, runs=int(os.environ.get("BENCH_RUNS", "3"))))
