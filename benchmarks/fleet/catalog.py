"""A store of many builds: descriptions and an index as writers make them, small generated files.

Timed are the commands that look at the whole store. The bytes of real builds of a program are printed,
too: as files, as compressed archives, and as differences between nightly builds.
"""

from __future__ import annotations

import argparse
import gzip
import hashlib
import json
import multiprocessing
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

if sys.version_info >= (3, 14):
    from compression import zstd
else:
    from backports import zstd

from benchmarks.fleet.builds import Builds
from benchmarks.fleet.cluster import WHENCE
from whence import lidia
from whence.store import Store
from whence.store.index import IndexRow, packed
from whence.store.meta import GZIP, HeldFile, Meta
from whence.store.names import ARCHIVE, DEBUGINFO, INDEX, file_key, meta_key, used_key, wanted_key
from whence.store.quality import Quality
from whence.store.wanted import MissedId

WANTED = 10_000  # the most that a store keeps
DAYS = 90  # over which the builds were added
UNUSED_EVERY = 4  # of these builds one was never used
NIGHTS = 8
CONTENT = 200  # bytes of each generated file


def described(number: int, now: float, count: int) -> Meta:
    """Return the description of a build: a random hash, realistic sizes and dates."""
    digest = hashlib.sha1(b"catalog %d" % number)
    added = int(now - DAYS * 86400 * number / count)
    quality = Quality(units=40, lines=True, symtab=True, dynsym=True, functions=True)
    debuginfo = HeldFile(CONTENT, hashlib.sha256(digest.digest()).hexdigest(), quality, added, f"ci/{number}")
    archive = HeldFile(4 * CONTENT, digest.hexdigest(), Quality(), added).packed(CONTENT, GZIP)
    return Meta(
        digest.hexdigest(), {DEBUGINFO: debuginfo, ARCHIVE: archive}, int(added * 1e9), f"service-{number % 997}",
        "x86_64", made_of=(debuginfo.sha256,),
    )  # fmt: skip


def fill(folder: Path, count: int) -> None:
    """Write the objects of a store of `count` builds, beside what is already there."""
    now = time.time()

    def rows() -> Iterator[IndexRow]:
        for number in range(count):
            meta = described(number, now, count)
            location = folder / "buildid" / meta.build_id
            location.mkdir(parents=True)
            (folder / file_key(meta.build_id, DEBUGINFO)).write_bytes(bytes(CONTENT))
            (folder / file_key(meta.build_id, ARCHIVE, True)).write_bytes(bytes(CONTENT))
            (folder / meta_key(meta.build_id)).write_bytes(meta.to_bytes())
            if number % UNUSED_EVERY:
                used = folder / used_key(meta.build_id)
                used.touch()
                os.utime(used, (now - number % 86400, now - number % 86400))
            yield IndexRow.of(meta)

    for name in ("buildid", "used", "wanted", "index"):
        (folder / name).mkdir(exist_ok=True)
    (folder / INDEX).write_bytes(packed(sorted(rows())))
    for number in range(WANTED):
        build_id = hashlib.sha1(b"wanted %d" % number).hexdigest()
        request = MissedId(build_id, {"symbolize": number % 90 + 1}, int(now) - 9, int(now), "/srv/x")
        (folder / wanted_key(build_id)).write_text(json.dumps(request.as_json()))


def timed(title: str, command: list[str]) -> None:
    """Run a command and print its time, its memory and its lines."""
    began = time.perf_counter()
    with tempfile.TemporaryFile() as out:
        process = subprocess.Popen(command, stdout=out)
        _, status, usage = os.wait4(process.pid, 0)
        process.returncode = os.waitstatus_to_exitcode(status)
        seconds = time.perf_counter() - began
        if process.returncode:
            raise RuntimeError(f"{title}: exit status {process.returncode}")
        out.seek(0)
        lines = sum(chunk.count(b"\n") for chunk in iter(lambda: out.read(1 << 20), b""))
    print(
        f"  {title:34} {seconds:7.1f} s, {usage.ru_utime + usage.ru_stime:6.1f} s of processor time,"
        f" {usage.ru_maxrss >> 10:5} MB, {lines:,} lines"
    )


REBUILD = "import sys; from whence.store import Store; print(Store(sys.argv[1]).index.rebuild())"


def commands(folder: Path, count: int) -> None:
    """Time the commands that look at the whole store."""
    store, build_id = str(folder), described(count // 2, time.time(), count).build_id
    timed("store ls", [*WHENCE, "store", "ls", store])
    timed("store show BUILD-ID", [*WHENCE, "store", "show", store, build_id])
    timed("store wanted", [*WHENCE, "store", "wanted", store])
    timed("store gc --keep-days 80 --dry-run", [*WHENCE, "store", "gc", store, "--keep-days", "80", "--dry-run"])
    timed("store gc --keep-days 80", [*WHENCE, "store", "gc", store, "--keep-days", "80"])
    timed("rebuild of the index", [WHENCE[0], "-c", REBUILD, store])


def sizes(folder: Path, functions: int) -> None:
    """Print the bytes of a build in each form, and of a nightly build after another."""
    builds = Builds(folder, functions)
    night = builds.nights(NIGHTS)
    archives = []
    for number, program in enumerate(night):
        path = folder / f"night-{number}"
        path.write_bytes(program)
        lidia.create(path, folder / f"night-{number}.lidia")
        archives.append((folder / f"night-{number}.lidia").read_bytes())
    files = sum(map(len, night)) / len(night)
    plain = sum(map(len, archives)) / len(archives)
    gzipped = sum(len(gzip.compress(archive)) for archive in archives) / len(archives)
    alone = sum(len(zstd.compress(archive, 19)) for archive in archives) / len(archives)
    deltas = [len(zstd.compress(new, 19, zstd_dict=zstd.ZstdDict(old, is_raw=True))) for old, new in pairwise(archives)]
    print(
        f"a build of {functions:,} functions: file {files:,.0f} bytes; archive {plain:,.0f}, by gzip {gzipped:,.0f},"
        f" by zstd {alone:,.0f}, as difference from the night before {sum(deltas) / len(deltas):,.0f}"
    )
    print(f"  a file for 30 days costs as much as its archive by gzip for {30 * files / gzipped:,.0f} days")


def main(arguments: list[str]) -> int:
    """Fill a store, time the commands, print the sizes."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.fleet catalog", description=__doc__)
    parser.add_argument("--builds", type=int, default=20_000)
    parser.add_argument("--functions", type=int, default=2000)
    parser.add_argument("--folder", type=Path, help="where the store is made, which is removed afterwards")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(dir=options.folder) as name:
        folder = Path(name)
        sizes(folder, options.functions)
        began = time.perf_counter()
        with Store(folder / "store") as store:
            store.add(folder / "program")
        writer = multiprocessing.Process(target=fill, args=(folder / "store", options.builds))
        writer.start()  # a process of its own: commands would inherit the peak of this one's memory
        writer.join()
        if writer.exitcode:
            raise RuntimeError(f"filling the store: exit status {writer.exitcode}")
        print(f"a store of {options.builds:,} builds, made in {time.perf_counter() - began:.0f} s")
        commands(folder / "store", options.builds)
    return 0
