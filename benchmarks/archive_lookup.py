"""The user's moment: an archive is open, name addresses. Peer: symbolic's symcache, made from the same debug file.

In process: one address again and again, 100,000 random addresses one by one, the same at once with names and files, the
same as text. And writing: the table of ranges to an archive's bytes.
"""

from __future__ import annotations

import io
from array import array
from collections.abc import Callable
from pathlib import Path

from benchmarks.inputs import ROOT, addresses, debug_files
from benchmarks.timing import calls, report
from whence import lidia
from whence.lidia.render import Renderer

MANY = 100_000


def run() -> None:
    for path in debug_files()[-2:]:
        archive = ROOT / ".cache" / "bench" / f"{path.name}.lidia"
        archive.parent.mkdir(parents=True, exist_ok=True)
        lidia.create(path, archive)
        with lidia.open(archive) as table:
            print(f"{path.name}: {len(table):,} ranges, {archive.stat().st_size / 1e6:.1f} MB")
            measure(path, archive, table)


def measure(path: Path, archive: Path, table: lidia.Table) -> None:
    asked = array("Q", addresses(path, MANY))
    item, lookup = asked[0], table.lookup

    def with_names() -> None:
        answers = table.lookup_many(asked)
        answers.function  # noqa: B018
        answers.file  # noqa: B018

    def first() -> None:
        with lidia.open(archive) as fresh:
            fresh.lookup(item)

    one_by_one: dict[str, Callable[[], object]] = {"whence": lambda: [lookup(vaddr) for vaddr in asked]}
    if cache := symcache(path):
        one_by_one["symbolic"] = lambda: [cache(vaddr) for vaddr in asked]
    report("open and look one up", calls({"whence": first}))
    report(f"one address, {MANY:,} times", calls({"whence": lambda: [lookup(item) for _ in range(MANY)]}))
    report(f"{MANY:,} addresses, one by one", calls(one_by_one, runs=3))
    report(f"{MANY:,} addresses at once, names and files as text", calls({"whence": with_names}))
    text = "\n".join(map(hex, asked)).encode()
    report(f"{MANY:,} addresses as llvm-symbolizer's text", calls({"whence": lambda: Renderer(table).lines(text)}))
    report("verify", calls({"whence": table.verify}, runs=2))
    builder = lidia.Builder()
    for location in range(min(len(table), 50_000)):
        builder.add(table[location])
    ranges = builder.ranges()
    report(f"write {len(ranges):,} ranges", calls({"whence": lambda: lidia.write(ranges, io.BytesIO())}))


def symcache(path: Path) -> Callable[[int], object] | None:
    """symbolic's lookup in the symcache of the debug file, or None (and a word) without it."""
    try:
        from symbolic.debuginfo import Archive
    except ImportError:
        print("  (symbolic is not installed)")
        return None
    cache = next(iter(Archive.open(str(path)).iter_objects())).make_symcache()
    lookup: Callable[[int], object] = cache.lookup
    return lookup
