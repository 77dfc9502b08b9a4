"""Forging `__unwind_info`."""

from __future__ import annotations

import struct
from collections.abc import Sequence
from itertools import pairwise

from tests.forge.macho import ARM64, CODE, X86_64, Section, forge, starts

TEXT, INFO = 0x100001000, 0x100002000
BASE = 0x1000  # of the code, from __TEXT


def unwind_info(
    functions: Sequence[tuple[int, int]], end: int, *, common: Sequence[int] = (), compressed: bool = True
) -> bytes:
    """A section with one page of functions: offset from the start of the code, and encoding."""
    encodings = list(dict.fromkeys(encoding for _, encoding in functions if encoding not in common))
    index_offset = 28 + 4 * len(common)
    page_offset = index_offset + 24
    first = BASE + functions[0][0]
    if compressed:
        numbers = [*common, *encodings]
        rows = [BASE + start - first | numbers.index(encoding) << 24 for start, encoding in functions]
        after = 12 + 4 * len(rows)
        page = struct.pack("<IHHHH", 3, 12, len(rows), after, len(encodings))
        page += struct.pack(f"<{len(rows) + len(encodings)}I", *rows, *encodings)
    else:
        page = struct.pack("<IHH", 2, 8, len(functions))
        page += b"".join(struct.pack("<II", BASE + start, encoding) for start, encoding in functions)
    index = struct.pack("<6I", first, page_offset, 0, BASE + end, 0, 0)
    head = struct.pack("<7I", 1, 28, len(common), 28, 0, index_offset, 2)
    return head + struct.pack(f"<{len(common)}I", *common) + index + page


def macho(info: bytes, code: bytes = b"", *, is_arm64: bool = False, functions: Sequence[int] = ()) -> bytes:
    """A Mach-O file with code at TEXT and its unwind information; `functions` are starts in LC_FUNCTION_STARTS."""
    sections = [
        Section("__TEXT", "__text", code.ljust(0x400, b"\x90"), TEXT, CODE),
        Section("__TEXT", "__unwind_info", info, INFO),
    ]
    offsets = [0, *(BASE + start for start in functions)]
    deltas = [after - before for before, after in pairwise(offsets)]
    return forge(
        sections, cpu=ARM64 if is_arm64 else X86_64, function_starts=starts(*deltas) if functions else b"", page=0x2000
    )
