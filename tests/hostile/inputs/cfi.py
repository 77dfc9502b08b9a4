"""Sections of call frame information whose few bytes ask for much, and a function that compiles all of one."""

from __future__ import annotations

import struct
from pathlib import Path

from tests.forge.cfi import CODE, VADDR, record, section, table
from whence.unwind.cfi import FrameSection

SIZE = 4 << 20
PROGRAM = (1 << 20) - 64  # bytes of instructions that one FDE may have


def _cie() -> bytes:
    first = section(b"")
    return first[: struct.unpack_from("<I", first)[0] + 4]


def _fde(at: int, start: int, size: int, program: bytes) -> bytes:
    return record(struct.pack("<IIIB", at + 4, start, size, 0) + program)


def _many(program: bytes, *, size: int = 0x1000000, step: int = 0) -> bytes:
    data = _cie()
    parts, offset, start = [data], len(data), CODE
    while offset < SIZE:
        part = _fde(offset, start, size, program)
        parts.append(part)
        offset += len(part)
        start += step
    return b"".join(parts)


def row_at_every_byte() -> bytes:
    """Two states in turn: a row for two bytes."""
    return _many((b"\x41\x0b\x0a" * (PROGRAM // 12) + b"\x41\x0e\x10\x0a\x41\x0e\x20" * (PROGRAM // 12))[:PROGRAM])


def states_of_many_rules() -> bytes:
    """Each row has a state of its own, of 250 rules."""
    rules = b"".join(b"\x07" + bytes([0x80 | n & 0x7F, n >> 7]) for n in range(250))
    rows = b"".join(
        b"\x41\x0e" + bytes([0x80 | n & 0x7F, 0x80 | n >> 7 & 0x7F, n >> 14]) for n in range(PROGRAM // 5 - 1000)
    )
    return _many(rules + rows)


def states_in_turn() -> bytes:
    """Steps between more states than are remembered."""
    rules = b"".join(b"\x07" + bytes([0x80 | n & 0x7F, n >> 7]) for n in range(250))
    steps = b"".join(b"\x0e" + bytes([0x80 | n & 0x7F, n >> 7 & 0x7F]) for n in range(16384))
    return _many((rules + steps * 30)[:PROGRAM])


def expressions_of_their_own() -> bytes:
    return _many(b"".join(b"\x0f\x04" + struct.pack("<I", n) + b"\x41" for n in range(PROGRAM // 7)))


def functions_that_overlap() -> bytes:
    """Every FDE covers all of the code, most of them from the same place."""
    return _many(b"\x0e\x10")


def empty_functions() -> bytes:
    return _many(b"", size=1, step=1)


def cie_for_each() -> bytes:
    cie, offset = _cie(), 0
    parts: list[bytes] = []
    while offset < SIZE:
        fde = record(struct.pack("<IIIB", len(cie) + 4, CODE + offset, 16, 0))
        parts += cie, fde
        offset += len(cie) + len(fde)
    return b"".join(parts)


def long_cie() -> bytes:
    """A CIE of many instructions, and many short FDEs."""
    first = section(b"", cie=b"\x0c\x07\x08" + b"\x0e\x10\x0e\x20" * (1 << 17))
    parts = [first[: struct.unpack_from("<I", first)[0] + 4]]
    offset = len(parts[0])
    for n in range(50_000):
        part = _fde(offset, CODE + 16 * n, 16, b"")
        parts.append(part)
        offset += len(part)
    return b"".join(parts)


def compile_all(path: Path) -> tuple[int, int]:
    """All rows of a section: how many, and how many FDEs are damaged; then some vaddrs are found, with a header."""
    data = path.read_bytes()
    result: tuple[int, int] = FrameSection(data, VADDR).table.compile_all()
    frames = FrameSection(data, VADDR, header=table(data, [CODE + 16 * n for n in range(1000)], 24))
    for n in range(1000):
        index = frames.table.find(CODE + 16 * n)
        if index >= 0:
            frames.table.compile(index)
    return result
