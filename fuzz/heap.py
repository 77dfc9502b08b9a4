"""Heap, CPU and count profiles of the old forms, and what tracers print: read, merged, compared, written."""

from __future__ import annotations

import struct
from pathlib import Path

from whence.profiles import arrow, top
from whence.profiles.formats import firefox, folded, pprof
from whence.profiles.formats import registry as formats
from whence.samples.difference import diff
from whence.samples.merging import merge

DATA = Path(__file__).parents[1] / "tests" / "data" / "profiles"
STACKS = (
    b"@[\n    do_nanosleep+66\n    0x7f00\n    f+1 (/usr/lib/libc.so.6)\n, bash, 42]: 5\n@[\n    g+1\n]: 12\n",
    b"\n   libc.so.1`read+0xa\n   app`main+0x1f\n   app`0x80504f2\n    42\n",
    b"Call graph:\n    9 Thread_1\n    + 9 start  (in dyld) + 19  [0x18f1f3e50]\n"
    b"    +   ! 5 ???  (in x)  [0x10]  a.c:7\n",
    b"--- threadz 1 ---\n\n--- Thread 7f00 (name: main/14748) stack: ---\n  PC: 0x401001 0x402002\n",
)


def seeds() -> list[bytes]:
    words = struct.pack("<15Q", 0, 3, 0, 10_000, 0, 5, 2, 0x401001, 0x402002, 1, 1, 7, 0, 1, 0)
    return [*(path.read_bytes() for path in sorted(DATA.iterdir()) if path.suffix != ".json"), words, *STACKS]


def target(data: bytes) -> None:
    profile = formats.from_bytes(data)
    again = pprof.read(pprof.write(profile))
    assert again.samples.values == profile.samples.values or not len(profile.samples)
    folded.write(profile)
    merged = merge([profile, profile])
    assert sum(map(len, merged.samples.values)) <= 2 * sum(map(len, profile.samples.values))
    if profile.sample_types:
        assert not any(any(column) for column in diff(profile, profile).samples.values)
    for write in (firefox.write, top.write, arrow.write):
        write(profile)
