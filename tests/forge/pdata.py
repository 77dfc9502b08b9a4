"""Forging .pdata and .xdata of PE files."""

from __future__ import annotations

import struct
from collections.abc import Sequence

from tests.forge import pe
from tests.forge.pe import ALIGNMENT, CODE, PAGE, Section, forge

TEXT, PDATA, XDATA, BUILD_ID = 0x1000, 0x2000, 0x3000, 0x4000  # RVAs of the sections


def code(offset: int, operation: int, info: int = 0, *operands: int) -> bytes:
    """A code of x64 with 16-bit operands."""
    return bytes((offset, operation | info << 4)) + struct.pack(f"<{len(operands)}H", *operands)


def info(
    codes: Sequence[bytes],
    *,
    frame: int = 0,
    offset: int = 0,
    version: int = 1,
    chained: tuple[int, int, int] | None = None,
) -> bytes:
    """UNWIND_INFO of x64 with codes, the last instruction first."""
    body = b"".join(codes)
    slots = len(body) // 2
    head = bytes((version | (4 << 3 if chained else 0), 0, slots, frame | offset << 4))
    return head + body + bytes(2 * (slots & 1)) + (struct.pack("<III", *chained) if chained else b"")


def x64(functions: Sequence[tuple[int, int, int]], xdata: bytes, text: bytes = b"", *, codeview: bytes = b"") -> bytes:
    """A PE file of x64: functions by start, end, and offset of their information in .xdata; perhaps with a GUID."""
    rows = [struct.pack("<III", TEXT + start, TEXT + end, XDATA + offset) for start, end, offset in functions]
    return _file(rows, xdata, text, 0x8664, codeview)


def arm64(functions: Sequence[tuple[int, int]], xdata: bytes = b"", text: bytes = b"") -> bytes:
    """A PE file of arm64: functions by start and the second word of their entry, or an offset in .xdata."""
    rows = [struct.pack("<II", TEXT + start, word if word & 3 else XDATA + word) for start, word in functions]
    return _file(rows, xdata, text, 0xAA64)


def packed(
    length: int, frame: int, *, floats: int = 0, integers: int = 0, homes: int = 0, chain: int = 0, kind: int = 1
) -> int:
    """The second word of a packed entry: length and frame in bytes."""
    return kind | length // 4 << 2 | floats << 13 | integers << 16 | homes << 20 | chain << 21 | frame // 16 << 23


def _file(rows: list[bytes], xdata: bytes, text: bytes, machine: int, guid: bytes = b"") -> bytes:
    table = b"".join(rows)
    sections = [
        Section(".text", text or bytes(0x200), CODE),
        Section(".pdata", table, 0x40000040),
        Section(".xdata", xdata, 0x40000040),
    ]
    directories = {3: (PDATA, len(table))}
    if guid:
        offset = PAGE + sum(len(section.data) + -len(section.data) % ALIGNMENT for section in sections)
        sections.append(Section(".buildid", pe.codeview(BUILD_ID, offset, guid=guid), 0x40000040))
        directories[6] = BUILD_ID, 28
    return forge(sections, directories=directories, machine=machine)
