"""jitdump: code of JIT compilers."""

from __future__ import annotations

from tests.forge.jitdump import Dump
from whence.profiles.perfdata import jitdump


def seeds() -> list[bytes]:
    out = []
    for big in (False, True):
        dump = Dump(big=big).lines(0x1000, [(0x1000, 3, "a.js"), (0x1008, 4, "a.js"), (0x1010, 5, "b.js")])
        out.append(dump.load(1, 0x1000, 32, "one", 1).move(2, 0x1000, 0x2000, 32, 1).record(3, 3, b"").data)
    return out


def target(data: bytes) -> None:
    for code in jitdump.read(data).code:
        assert code.frames(code.address)[0].function == code.name
        code.frames(code.address + code.size)
