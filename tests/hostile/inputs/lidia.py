"""Archives that name much with few bytes."""

from __future__ import annotations

import gzip
import io
import struct

from tests.forge.lidia import OVERFLOW, Forged
from whence.lidia import compressed

MEGABYTE = 1 << 20


LONG = MEGABYTE


def shared_name(ranges: int = 50_000, size: int = LONG) -> bytes:
    """Every name begins a byte further in one string of a megabyte."""
    rows = [(16 * row, 16, 0, 1 + row, 0, 0, 0, 0, 0) for row in range(ranges)]
    return Forged(rows, b"\0" + b"a" * size + b"\0").bytes()


def shared_lengths(ranges: int = 50_000, size: int = LONG) -> bytes:
    """The same with lengths in front of names: each of them claims most of the lengths that follow."""
    claimed = struct.pack("<I", size // 4 * 3)
    strings = OVERFLOW + struct.pack("<I", size) + claimed * (size // 4)
    first, starts = len(OVERFLOW) + 4, size // 16
    rows = [(16 * row, 16, 0, first + 4 * (row % starts), 0, 0, 0, 0, 0) for row in range(ranges)]
    return Forged(rows, strings).bytes()


def deep() -> bytes:
    rows = [(0x100, 16, 0, 0, 0, 0, 0, 0, 0), (0x100, 16, 0xFFFFFFFF, 0, 0, 0, 1, 0, 0)]
    return Forged(rows, lines=[(0, 1)]).bytes()


def shared_lines(ranges: int = 5_000, entries: int = 20_000) -> bytes:
    """All ranges have all line entries."""
    lines = [(row, row) for row in range(entries)]
    return Forged([(16 * row, 16, 0, 0, 0, 0, entries, 0, 0) for row in range(ranges)], lines=lines).bytes()


def many_ranges(ranges: int = 400_000) -> bytes:
    return Forged([(16 * row, 16, 0, 0, 0, 0, 0, 0, 0) for row in range(ranges)]).bytes()


def bomb(codec: str) -> bytes:
    """A compressed archive with 200 MiB of zeros at its end."""
    out = io.BytesIO()
    with compressed.compressed(out, codec) as file:
        file.write(Forged([(0x1000, 16, 0, 0, 0, 0, 0, 0, 0)]).bytes())
        for _ in range(200):
            file.write(bytes(1 << 20))
    return out.getvalue()


def empty_members() -> bytes:
    return gzip.compress(b"", mtime=0) * 20_000
