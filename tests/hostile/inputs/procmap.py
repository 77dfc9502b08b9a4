"""Texts of maps that claim much."""

from __future__ import annotations

from pathlib import Path

from whence.procmap import kallsyms, maps, perfmap

SIZE = 2_000_000


TEXTS = {
    "blanks": b" " * SIZE,
    "newlines": b"\n" * SIZE,
    "digits": b"0" * SIZE,
    "a long name": b"1000 10 " + b"x" * SIZE,
    "blanks in a symbol": b"1000 t a" + b" " * SIZE + b"b",
    "blanks after brackets": b"1000 t a [" * (SIZE // 10),
    "backslashes": b"1000-2000 r-xp 0 0:0 0 " + b"\\012" * (SIZE // 4) + b"\n",
    "one address": b"1000 10 x\n" * (SIZE // 10),
    "overlaps": b"".join(b"%x ffffffff f\n" % row for row in range(SIZE // 16)),
}


def text(name: str) -> bytes:
    return TEXTS[name]


def mappings_of(path: Path) -> int:
    return len(maps.parse(path.read_bytes()).mappings)


def entries_of_a_perf_map(path: Path) -> int:
    return len(perfmap.parse(path.read_bytes()))


def names_of_a_kernel(path: Path) -> int:
    return len(kallsyms.KernelNames(path.read_bytes()))
