"""What the benchmarks run on: big debug files that are on this machine, and random addresses in their functions.

BENCH_FILES (paths, separated by colons) replaces the search. Otherwise: what `make oracle` has downloaded below
.cache/, and the library this Python runs from.
"""

from __future__ import annotations

import os
import random
import shutil
import sysconfig
from functools import cache
from pathlib import Path

from whence.objects.elf import ElfFile, functions
from whence.ranges import StringSpace

ROOT = Path(__file__).parent.parent
SMALLEST = 4 << 20


def own_library() -> Path:
    """The library (or program) this Python runs from."""
    name = sysconfig.get_config_var("INSTSONAME") or ""
    library = Path(sysconfig.get_config_var("LIBDIR") or "", name)
    return library if name and library.is_file() else Path(os.path.realpath("/proc/self/exe"))


def debug_files() -> list[Path]:
    """ELF files with debug info, small to big."""
    if given := os.environ.get("BENCH_FILES"):
        return [Path(path) for path in given.split(":")]
    cached = (ROOT / ".cache").rglob("*")
    result = {path for path in cached if path.is_file() and path.stat().st_size > SMALLEST and is_debug_file(path)}
    return sorted({*result, own_library()}, key=lambda path: path.stat().st_size)


def is_debug_file(path: Path) -> bool:
    with open(path, "rb") as file:
        if file.read(4) != b"\x7fELF":
            return False
    with ElfFile.open(path) as elf:
        return elf.section(".debug_info") is not None and elf.type in (2, 3)


@cache
def spans_of(path: Path) -> list[tuple[int, int]]:
    """The vaddr and length of each of a file's functions."""
    with ElfFile.open(path) as elf:
        table = functions(elf, StringSpace())
        return [(vaddr, length) for vaddr, length in zip(table.vaddr, table.length) if length]


def addresses(path: Path, count: int, seed: int = 1) -> list[int]:
    """vaddrs drawn uniformly over the bytes of the file's functions, in random order."""
    dice = random.Random(seed)
    spans = spans_of(path)
    chosen = dice.choices(spans, weights=[length for _, length in spans], k=count)
    return [vaddr + dice.randrange(length) for vaddr, length in chosen]


def address_file(path: Path, count: int) -> Path:
    """The addresses as a text file, one 0x... a line."""
    out = ROOT / ".cache" / "bench" / f"{path.name}.{count}.txt"
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text("".join(f"{vaddr:#x}\n" for vaddr in addresses(path, count)))
    return out


def tool(*names: str) -> str | None:
    """The first of these programs that is on this machine."""
    return next((path for name in names if (path := shutil.which(name))), None)
