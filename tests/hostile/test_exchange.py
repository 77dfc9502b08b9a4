"""GSYM and Breakpad files that claim more than their bytes hold: time and memory stay a constant times the bytes."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

import whence
from tests.forge.gsym import Function, Gsym, Inlined
from tests.hostile.bounds import bounded
from whence._base.errors import WhenceError

COUNT = 20_000


def shared_infos() -> bytes:
    """Many functions whose info is the longest one of them."""
    lines = [("special", 23)] * COUNT
    gsym = Gsym([Function(0x1000 + 8 * index, 8, "f", lines=() if index else lines) for index in range(COUNT)])
    data = bytearray(gsym.pack())
    table = 48 + 4 * COUNT
    struct.pack_into(f"<{COUNT}I", data, table, *struct.unpack_from("<I", data, table) * COUNT)
    return bytes(data)


def long_paths() -> bytes:
    """Many files whose folder and name are one long string."""
    gsym = Gsym([Function(0x1000, 8, "f")], [("", "")] * COUNT)
    start = gsym.string("x" * 100_000)
    data = bytearray(gsym.pack())
    files = 48 + 4 + 4 + 4
    struct.pack_into(f"<{2 * COUNT}I", data, files + 8, *[start] * (2 * COUNT))
    return bytes(data)


def deep_calls() -> bytes:
    """Functions with calls nested up to the limit."""
    call = Inlined("g", [(0, 8)])
    for _ in range(250):
        call = Inlined("g", [(0, 8)], 1, 1, [call])
    return Gsym([Function(0x1000 + 8 * index, 8, "f", calls=[call]) for index in range(60)], [("", "a.c")]).pack()


def head() -> str:
    return "MODULE Linux x86_64 0 a\nINLINE_ORIGIN 0 g\n"


def many_ranges() -> bytes:
    return (head() + "FUNC 10 1000000 0 f\nINLINE 0 1 0 0" + " 10 8" * 12_000 + "\n").encode() * 8


def overlapping_functions() -> bytes:
    return (head() + "".join(f"FUNC {index:x} 1000000 0 f\n" for index in range(COUNT))).encode()


def deep_records() -> bytes:
    calls = "".join(f"INLINE {level} 1 0 0 10 8\n" for level in range(254))
    return (head() + f"FUNC 10 8 0 f\n{calls}" * 100).encode()


def many_numbers() -> bytes:
    return (head() + "".join(f"FILE {4294967295 - index} a\n" for index in range(COUNT))).encode()


def read(path: str) -> str:
    """Return "read" or an error's class for a file that is read completely and looked up."""
    try:
        with whence.open(path) as binary:
            binary.lookup(0x1004)
            return f"read {len(binary.table())}"
    except WhenceError as error:
        return type(error).__name__


@pytest.mark.parametrize(
    "make",
    [shared_infos, long_paths, deep_calls, many_ranges, overlapping_functions, deep_records, many_numbers],
    ids=lambda make: make.__name__,
)
def test_symbol_files_cost_a_constant_times_their_bytes(tmp_path: Path, make: object) -> None:
    path = tmp_path / "file"
    path.write_bytes(make())  # type: ignore[operator]
    outcome = bounded(read, str(path), seconds=3, megabytes=200)
    assert outcome.answer.startswith("read"), outcome
