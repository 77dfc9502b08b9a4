"""The user's moment: a 10 MB pprof profile over five binaries of this machine whose archives exist; named, written.

Whole processes, pprof in and out, gzip and plain. Stacks are made from random walks over few hot functions, so that
they repeat as real ones do. The peer is `go tool pprof -proto`, which names with addr2line or llvm-symbolizer
(BENCH_PEERS=1: it takes minutes).
"""

from __future__ import annotations

import glob
import os
import random
import sys
from pathlib import Path

from benchmarks.inputs import ROOT, addresses, own_library
from benchmarks.timing import processes, report
from whence.archive.create import create
from whence.objects.elf import ElfFile
from whence.profiles.formats import gz
from whence.samples import wire

WHENCE = str(Path(sys.executable).parent / "whence")
BYTES = 10_000_000
LOCATIONS = 8_000  # of each binary
CANDIDATES = (
    "libc.so.6",
    "libcrypto.so.3",
    "libstdc++.so.6",
    "libsqlite3.so.0",
    "libssl.so.3",
    "libm.so.6",
    "libperl*",
)


def binaries() -> list[Path]:
    """Five ELF files with names in them."""
    result = [own_library()]
    for pattern in CANDIDATES:
        result += [Path(path) for path in glob.glob(f"/usr/lib/*-linux-gnu/{pattern}")[:1]]
    return result[:5]


def made(paths: list[Path], size_bytes: int = BYTES, *, seed: int = 1, count: int = LOCATIONS) -> bytes:
    """The profile: mappings as a loader makes them, locations in functions, samples until it is large enough."""
    dice = random.Random(seed)
    strings = ["", "samples", "count", *(str(path) for path in paths)]
    parts = [wire.payload(1, wire.number(1, 1) + wire.number(2, 2))]
    locations = []
    for index, path in enumerate(paths):
        with ElfFile.open(path) as elf:
            code = next(each for each in elf.segments if each.type == 1 and each.executable)
            strings.append(elf.build_id)
        start = 0x7F0000000000 + (index << 32)
        low = code.file_offset & -4096
        fields = (index + 1, start, start + code.file_offset + code.file_size - low, low, 3 + index, len(strings) - 1)
        parts.append(wire.payload(3, b"".join(wire.number(offset + 1, value) for offset, value in enumerate(fields))))
        inside = [offset for offset in addresses(path, 2 * count) if code.vaddr <= offset < code.vaddr + code.file_size]
        for vaddr in inside[:count]:
            runtime = start + vaddr - code.vaddr + code.file_offset - low
            locations.append((index + 1, runtime))
    dice.shuffle(locations)
    for number, (mapping, address) in enumerate(locations, 1):
        parts.append(wire.payload(4, wire.number(1, number) + wire.number(2, mapping) + wire.number(3, address)))
    parts += [wire.text(6, each) for each in strings]
    size = sum(map(len, parts))
    ids = [wire.varint(number + 1) for number in range(len(locations))]
    stack = dice.choices(ids, k=40)
    while size < size_bytes:
        keep = dice.randrange(len(stack))
        stack = dice.choices(ids, k=dice.randrange(1, 12)) + stack[min(keep, 12) :]
        stack = stack[-64:]
        body = wire.payload(1, b"".join(stack)) + wire.packed(2, [dice.randrange(1, 9)])
        parts.append(wire.payload(2, body))
        size += len(parts[-1])
    return b"".join(parts)


def archived() -> tuple[Path, list[Path]]:
    """A folder with the archives of the binaries, and the binaries."""
    paths = binaries()
    folder = ROOT / ".cache" / "bench" / "profile"
    folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        with ElfFile.open(path) as elf:
            archive = folder / f"{elf.build_id}.lidia"
        if not archive.exists():
            create(path, archive)
    return folder, paths


def run() -> None:
    folder, paths = archived()
    plain = made(paths)
    (folder / "in.pb").write_bytes(plain)
    (folder / "in.pb.gz").write_bytes(gz.deflated(plain))
    print(f"{len(plain):,} bytes, {len(paths)} binaries: {', '.join(path.name for path in paths)}")
    base = [WHENCE, "profile", "--no-cache", "--archive-dir", str(folder)]
    commands = {
        "whence": [*base, str(folder / "in.pb.gz"), "-o", str(folder / "out.pb.gz")],
        "whence, plain": [*base, str(folder / "in.pb"), "-o", str(folder / "out.pb")],
        "python3 -c pass": [sys.executable, "-c", "pass"],
    }
    report("a 10 MB profile", processes(commands, runs=5))
    if os.environ.get("BENCH_PEERS"):
        go = str(Path(sys.executable).parent / "go")
        peer = [go, "tool", "pprof", "-symbolize=force:local", "-proto", "-output", str(folder / "peer.pb.gz")]
        report(
            "a 10 MB profile, beside pprof",
            processes({"whence": commands["whence"], "pprof": [*peer, str(folder / "in.pb.gz")]}, runs=1),
        )
