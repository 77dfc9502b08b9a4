"""What other tools say about addresses: one chain of (function, file, line) for each, innermost first."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from typing import NamedTuple


class Call(NamedTuple):
    function: str
    file: str
    line: int


Chain = tuple[Call, ...]
Witness = Callable[[str, Sequence[int]], list[Chain]]


def normal(file: str | None) -> str:
    """A path as all tools can agree on it: symbolic leaves out `.` and resolves `..`, the others do not."""
    return os.path.normpath(file) if file and file != "??" else ""


def call(function: str, place: str) -> Call:
    """A call from a function and `file:line`, as LLVM (`:column`) and BFD (` (discriminator n)`) print them."""
    place = place.split(" (discriminator")[0]
    file, _, line = place.rpartition(":")
    return Call("" if function == "??" else function, normal(file), int(line) if line.isdecimal() else 0)


def _run(command: Sequence[str], addresses: Sequence[int]) -> str:
    asked = "".join(f"{address:#x}\n" for address in addresses)
    done = subprocess.run(command, input=asked, capture_output=True, text=True, errors="surrogateescape", check=True)
    return done.stdout


def llvm_symbolizer(path: str, addresses: Sequence[int], names: str = "linkage") -> list[Chain]:
    """Names are linkage names, the outermost one the symbol table's; or with `short` the bare ones of the DWARF."""
    command = ["llvm-symbolizer", f"--obj={path}", "--inlines", "--no-demangle", f"--functions={names}"]
    chains = []
    for answer in _run(command, addresses).split("\n\n"):
        lines = [line for line in answer.splitlines() if line]
        if lines:
            pairs = zip(lines[::2], lines[1::2], strict=True)
            chains.append(tuple(call(function, place.rpartition(":")[0]) for function, place in pairs))
    return chains


Start = tuple[str, str, int]  # function, file of its declaration ("" where the tool names none), line


def llvm_starts(path: str, addresses: Sequence[int]) -> list[tuple[Start, ...]]:
    """Where the functions of each chain are declared."""
    out = _run(["llvm-symbolizer", f"--obj={path}", "--output-style=JSON", "--no-demangle"], addresses)
    return [
        tuple(
            (one["FunctionName"], normal(one["StartFileName"]), one["StartLine"]) for one in json.loads(row)["Symbol"]
        )
        for row in out.splitlines()
    ]


def addr2line(path: str, addresses: Sequence[int]) -> list[Chain]:
    """Silent about files it cannot read: those of machines it was not built for."""
    chains: list[Chain] = []
    try:
        out = _run(["addr2line", "-afi", "-e", path], addresses)
    except subprocess.CalledProcessError:
        return [() for _ in addresses]
    for answer in re.split(r"^0x[0-9a-f]+\n", out, flags=re.MULTILINE)[1:]:
        lines = answer.splitlines()
        chains.append(tuple(call(function, place) for function, place in zip(lines[::2], lines[1::2], strict=True)))
    return chains


def symbolic(path: str, addresses: Sequence[int]) -> list[Chain]:
    """Through a symcache, whose addresses count from the lowest loaded segment; silent about files it cannot read."""
    from symbolic import SymbolicError
    from symbolic.debuginfo import Archive

    from whence.objects.elf import ElfFile

    with ElfFile.open(path) as elf:
        loaded = [segment.vaddr for segment in elf.segments if segment.type == 1]
    base = min(loaded, default=0)
    try:
        cache = next(Archive.open(path).iter_objects()).make_symcache()
    except SymbolicError:
        return [() for _ in addresses]
    return [
        tuple(Call(found.symbol, normal(found.full_path), found.line or 0) for found in cache.lookup(address - base))
        for address in addresses
    ]


def present() -> dict[str, Witness]:
    """The witnesses this machine has, the most trusted first."""
    found: dict[str, Witness] = {}
    if shutil.which("llvm-symbolizer"):
        found["llvm"] = llvm_symbolizer
    if shutil.which("addr2line"):
        found["bfd"] = addr2line
    found["symbolic"] = symbolic
    return found
