"""Forging frame data of 32-bit x86, in PDB files."""

from __future__ import annotations

import struct

from tests.forge.pdb import Module, Pdb, names_stream, procedure
from whence.objects.pdb import layout

I386 = 0x14C
BY_SIZE = "$T0 .raSearch = $eip $T0 ^ = $esp $T0 4 + ="
PUSHED = f"{BY_SIZE} $ebp $T0 4 - ^ ="
BY_BASE = "$T0 $ebp 4 + = $eip $T0 ^ = $esp $T0 4 + = $ebp $T0 4 - ^ ="
PROGRAMS = (BY_SIZE, PUSHED, BY_BASE)
_, OFFSETS = names_stream(PROGRAMS)
MODULE = "MODULE windows x86 0123456789ABCDEF0123456789ABCDEF1 app.pdb\n"


def row(start: int, size: int, program: str, *, local: int = 0, params: int = 0, saved: int = 0) -> bytes:
    return struct.pack(layout.FRAME_DATA, start, size, local, params, 0, OFFSETS[program], 0, saved, 4)


def old_row(start: int, size: int, *, local: int = 0, params: int = 0, saved: int = 0, bits: int = 0) -> bytes:
    return struct.pack(layout.FPO_DATA, start, size, local // 4, params // 4, saved // 4 << 8 | bits)


# leaf at 0x1010 (8 bytes of parameters), caller at 0x1040 (16 of locals, ebp pushed), start at 0x1080
ROWS = [
    row(0x1010, 0x20, BY_SIZE, params=8),
    row(0x1040, 0x40, BY_SIZE),
    row(0x1041, 0x3F, PUSHED, saved=4),
    row(0x1044, 0x3C, PUSHED, local=16, saved=4),
    row(0x1080, 0x40, BY_BASE, saved=4),
]
OLD = [old_row(0x1010, 0x20, params=8), old_row(0x1100, 0x40, params=4, local=8, saved=8, bits=1 << 12)]


def forged(rows: list[bytes], old: list[bytes] = OLD) -> bytes:
    symbols = procedure("leaf", 0x10, 0x20) + procedure("caller", 0x40, 0x40) + procedure("start", 0x80, 0x40)
    further = {layout.NEW_FPO: b"".join(rows), layout.FPO: b"".join(old)}
    module = Module(symbols, b"", [(1, 0, 0x200)])
    return Pdb(modules=[module], files=PROGRAMS, machine=I386, further=further).forge()
