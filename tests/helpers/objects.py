"""What tests of every object format do: read everything that names addresses, compare with llvm-symbolizer."""

from __future__ import annotations

import json
import random
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import whence
from tests.forge.mutations import mutated
from whence._base.errors import DwarfError, ObjectError
from whence.objects.elf.function_symbols import functions
from whence.objects.interface import ObjectFile
from whence.objects.opening import open_object
from whence.producers import Producers

SOURCE = """
volatile int sink;
static inline __attribute__((always_inline)) int square(int x) { sink = x; return x * x; }
__attribute__((noinline)) int sum(int n) {
    int total = 0;
    for (int i = 0; i < n; i++) total += square(i) + sink;
    return total;
}
int start(void) { return sum(sink) & square(sink + 1); }
"""

Chains = list[list[tuple[str, str, int, int]]]  # by address: function, file, line, column of each frame


def named(file: ObjectFile) -> list[tuple[int, int, str]]:
    """Start, size and name of the functions that symbols name."""
    table = functions(file)
    return [
        (start, size, table.strings.text(name))
        for start, size, name in zip(table.vaddr, table.length, table.function, strict=True)
    ]


def read_all(open_bytes: Callable[[bytes], ObjectFile], data: bytes) -> None:
    """Read everything that names addresses; damage raises an error of whence or is reported."""
    try:
        with open_bytes(data) as file, Producers(file) as producers:
            table = producers.ranges()
            for name in table.function:
                table.strings.text(name)
            list(producers.all_problems())
            _ = (file.build_id, file.details, file.debug_id, file.code_id, file.function_starts, file.linked_objects)
    except (ObjectError, DwarfError):
        return


def damage(
    open_bytes: Callable[[bytes], ObjectFile], data: bytes, *, bits: int, step: int = 1, count: int = 700
) -> None:
    """Read a file cut off at each `step` bytes, with each of its first bits flipped, and with random damage."""
    dice = random.Random(20261128)
    for size in range(0, len(data), step):
        read_all(open_bytes, data[:size])
    for bit in range(bits):
        flipped = bytearray(data)
        flipped[bit // 8] ^= 1 << bit % 8
        read_all(open_bytes, bytes(flipped))
    for _ in range(count):
        read_all(open_bytes, mutated(data, dice))


def code_of(path: Path) -> list[int]:
    """Every vaddr of code."""
    with open_object(path) as file:
        return [vaddr for start, end in file.code_ranges() for vaddr in range(start, end)]


def chains_of(path: Path, vaddrs: list[int]) -> Chains:
    with whence.open(path, columns=True) as binary:
        return [
            [(frame.function, frame.file, frame.line, frame.column) for frame in frames]
            for frames in binary.lookup_many(vaddrs)
        ]


def llvm_chains(path: Path, vaddrs: list[int]) -> Chains:
    """The answers of llvm-symbolizer, without frames that have no function. Skips the test if it is not installed."""
    symbolizer = shutil.which("llvm-symbolizer-19")
    if symbolizer is None:
        pytest.skip("llvm-symbolizer-19 is not installed")
    options = ["--output-style=JSON", "--no-demangle", f"--obj={path}"]
    given = "\n".join(map(hex, vaddrs))
    done = subprocess.run([symbolizer, *options], input=given, capture_output=True, text=True, check=True)
    return [
        [
            (each["FunctionName"], each["FileName"], each["Line"], each["Column"])
            for each in json.loads(line)["Symbol"]
            if each["FunctionName"]
        ]
        for line in done.stdout.splitlines()
    ]


def tools(*names: str) -> list[str]:
    """The paths of programs. Skips the test if one is not installed."""
    paths = [shutil.which(name) for name in names]
    if None in paths:
        pytest.skip(f"{' and '.join(names)} are not installed")
    return list(map(str, paths))
