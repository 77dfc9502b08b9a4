"""The user's moment: putting a folder of 1,000 ELF files into a store, and listing 100,000 build-ids.

The peer of `add` is `lidia create` of the same files, one after the other in one process; of a lookup through a warm
store the same lookup in an archive.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import whence
from benchmarks.inputs import debug_files
from whence import lidia
from whence.objects.elf import ElfFile
from whence.store import Store
from whence.store.index import IndexRow, packed
from whence.store.names import INDEX

FILES = int(os.environ.get("BENCH_STORE_FILES", "1000"))
IDS = 100_000


def run() -> None:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        adding(folder)
        listing(folder)
        starting(folder)


def elf_files(folder: Path) -> int:
    """FILES ELF files with build-ids: those below WHENCE_CORPORA, again and again under ids of their own."""
    corpora = os.environ.get("WHENCE_CORPORA")
    result = sorted(Path(corpora).rglob("*.ko")) if corpora else []
    result = result or list(debug_files())
    folder.mkdir()
    total = 0
    for number in range(FILES):
        source = result[number % len(result)]
        target = folder / f"{number:04}"
        if number < len(result):
            shutil.copyfile(source, target)
        else:
            with ElfFile.open(source) as elf:
                content = source.read_bytes().replace(bytes.fromhex(elf.build_id), os.urandom(len(elf.build_id) // 2))
            target.write_bytes(content)
        total += target.stat().st_size
    return total


def processor_time() -> float:
    """Return the processor seconds of this process and its finished children."""
    return sum(os.times()[:4])


def adding(folder: Path) -> None:
    size = elf_files(folder / "in")
    began, used = time.perf_counter(), processor_time()
    for path in sorted((folder / "in").iterdir()):
        lidia.create(path, folder / "one.lidia", jobs=1)
    alone, alone_cpu = time.perf_counter() - began, processor_time() - used
    began, used = time.perf_counter(), processor_time()
    with Store(folder / "store") as store:
        done = store.add(folder / "in")
    together, cpu = time.perf_counter() - began, processor_time() - used
    assert all(each.outcome == "added" for each in done)
    print(f"add: {FILES:,} ELF files, {size / 1e6:,.0f} MB")
    print(f"  lidia create, one by one  {alone:6.1f} s, {alone_cpu:6.1f} s of processor time")
    print(
        f"  store add                 {together:6.1f} s, {cpu:6.1f} s of processor time: {together / alone:.2f} times"
    )


def listing(folder: Path) -> None:
    rows = [IndexRow(os.urandom(20).hex(), 1, 1000, 1000, 500, 2500, "DWARF of 9 units with lines", 1, "libx.so")
            for _ in range(IDS)]  # fmt: skip
    target = folder / "many" / INDEX
    target.parent.mkdir(parents=True)
    target.write_bytes(packed(sorted(rows, key=lambda row: row.build_id)))
    began = time.perf_counter()
    command = [sys.executable, "-m", "whence.cli", "store", "ls", str(folder / "many")]
    out = subprocess.run(command, capture_output=True, check=True)
    seconds = time.perf_counter() - began
    assert out.stdout.count(b"\n") == IDS + 1
    print(f"ls: {IDS:,} build-ids in {seconds:.2f} s, with the start of the command")


def starting(folder: Path) -> None:
    with Store(folder / "store") as store:
        build_id = store.list()[0].build_id
        archive = folder / "store" / "buildid" / build_id / "lidia"
        with lidia.open(archive) as table:
            vaddr = table[0].vaddr
        best: dict[str, float] = {}
        for _ in range(20):
            began = time.perf_counter()
            with whence.open(archive) as binary:
                binary.lookup(vaddr)
            middle = time.perf_counter()
            with store.open(build_id) as binary:
                binary.lookup(vaddr)
            ended = time.perf_counter()
            best["archive"] = min(best.get("archive", 9.0), middle - began)
            best["store"] = min(best.get("store", 9.0), ended - middle)
    print(f"a lookup: {best['archive'] * 1e3:.2f} ms in an archive, {best['store'] * 1e3:.2f} ms through a warm store")
