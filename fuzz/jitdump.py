"""jitdump: code of JIT compilers."""

from __future__ import annotations

from contextlib import suppress

from tests.forge.cfi import beside_code
from tests.forge.jitdump import Dump
from whence._base.errors import DwarfError
from whence.perfdata import jitdump
from whence.unwind.cfi import FrameSection


def seeds() -> list[bytes]:
    out = []
    for big in (False, True):
        dump = Dump(big=big).lines(0x1000, [(0x1000, 3, "a.js"), (0x1008, 4, "a.js"), (0x1010, 5, "b.js")])
        dump.unwinding(beside_code(32))
        out.append(dump.load(1, 0x1000, 32, "one", 1).move(2, 0x1000, 0x2000, 32, 1).record(3, 3, b"").data)
    return out


def target(data: bytes) -> None:
    for code in jitdump.read(data).code:
        assert code.frames(code.address)[0].function == code.name
        code.frames(code.address + code.size)
        if code.eh_frame:
            with suppress(DwarfError):
                FrameSection(code.eh_frame, code.eh_frame_address).find(code.address)
