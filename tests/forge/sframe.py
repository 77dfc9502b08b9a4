"""Sections of SFrame: one function."""

from __future__ import annotations

import struct

VADDR, CODE = 0x2000, 0x1000
HEADER = 28


def forged(
    version: int = 2, *, flags: int = 1, info: int = 0, block: int = 0, fres: bytes = b"", fixed_ra: int = -8
) -> bytes:
    """One function of 64 bytes at CODE, of x86-64."""
    count = 3 if not fres else 1
    # a start, what follows (base sp, offsets of a byte), the CFA's offset, the frame pointer's
    fres = fres or bytes((0, 3, 8, 1, 5, 16, 0xF0, 4, 4, 16, 0xF0))
    if version == 3:
        field = HEADER
        fde = struct.pack("<qII", CODE - VADDR - field, 64, 0)
        fres = struct.pack("<HBBB", count, info, 0, block) + fres
    else:
        start = CODE - VADDR - (HEADER if flags & 4 else 0)
        fde = struct.pack("<iIIIB", start, 64, 0, count, info) + (struct.pack("<BH", block, 0) if version == 2 else b"")
    head = struct.pack("<HBBBbbBIIIII", 0xDEE2, version, flags, 3, 0, fixed_ra, 0, 1, count, len(fres), 0, len(fde))
    return head + fde + fres
