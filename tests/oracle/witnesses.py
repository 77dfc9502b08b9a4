"""What other tools say about addresses: one chain of (function, file, line) for each, innermost first."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple


class Call(NamedTuple):
    function: str
    file: str
    line: int


Chain = tuple[Call, ...]
Witness = Callable[..., list[Chain]]  # of a path, addresses, and of llvm-symbolizer which names


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


def llvm_symbolizer(
    path: str, addresses: Sequence[int], names: str = "linkage", program: str = "llvm-symbolizer"
) -> list[Chain]:
    """Names are linkage names, the outermost one the symbol table's; or with `short` the bare ones of the DWARF. Silent
    about Windows programs whose PDB file is missing, which it refuses to read."""
    command = [program, f"--obj={path}", "--output-style=JSON", "--no-demangle", f"--functions={names}"]
    try:
        rows = _run(command, addresses).splitlines()
    except subprocess.CalledProcessError as error:
        if ".pdb" not in error.stdout:
            raise
        return [() for _ in addresses]
    chains = [json.loads(row)["Symbol"] for row in rows]
    return [
        tuple(call(frame["FunctionName"], f"{frame['FileName']}:{frame['Line']}") for frame in chain)
        for chain in chains
    ]


Start = tuple[str, str, int]  # function, file of its declaration ("" where the tool names none), line


def llvm_starts(path: str, addresses: Sequence[int]) -> list[tuple[Start, ...]]:
    """Where the functions of each chain are declared."""
    out = _run(["llvm-symbolizer", f"--obj={path}", "--output-style=JSON", "--no-demangle"], addresses)
    return [
        tuple(
            (each["FunctionName"], normal(each["StartFileName"]), each["StartLine"])
            for each in json.loads(row)["Symbol"]
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
        chains.append(
            tuple(call(function, location) for function, location in zip(lines[::2], lines[1::2], strict=True))
        )
    return chains


def symbolic(path: str, addresses: Sequence[int]) -> list[Chain]:
    """Through a symcache, whose addresses count from the start of the image; silent about files it cannot read."""
    from symbolic import SymbolicError
    from symbolic.debuginfo import Archive

    from whence.exchange.reading import image_start
    from whence.objects.opening import open_object, split_architecture

    with open_object(path) as file:
        loaded = [segment.vaddr for segment in file.segments if segment.is_loaded]
        base = min(loaded, default=0) if file.format == "ELF" else image_start(file)
        identity = file.debug_id
    debug_file = split_architecture(f"{path}.dSYM")[0]
    try:
        archive = Archive.open(next(filter(os.path.isfile, (debug_file, f"{os.path.splitext(path)[0]}.pdb", path))))
        objects = list(archive.iter_objects())
        cache = next((each for each in objects if each.debug_id == identity.sentry), objects[0]).make_symcache()
    except SymbolicError:
        return [() for _ in addresses]
    return [
        tuple(
            Call(result.symbol, normal(result.full_path), result.line or 0) for result in cache.lookup(address - base)
        )
        for address in addresses
    ]


def of_formats() -> dict[str, Witness]:
    """The witnesses of other formats than ELF."""
    newest = next(filter(shutil.which, ("llvm-symbolizer-19", "llvm-symbolizer-22", "llvm-symbolizer")), None)
    result: dict[str, Witness] = {}
    if newest is not None:
        result["llvm"] = partial(llvm_symbolizer, program=newest)
    result["symbolic"] = symbolic
    return result


def present() -> dict[str, Witness]:
    """The witnesses this machine has, the most trusted first."""
    result: dict[str, Witness] = {}
    if shutil.which("llvm-symbolizer"):
        result["llvm"] = llvm_symbolizer
    if shutil.which("addr2line"):
        result["bfd"] = addr2line
    result["symbolic"] = symbolic
    return result
