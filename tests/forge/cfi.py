"""Call frame information: sections of a CIE and an FDE, and the table that leads to them."""

from __future__ import annotations

import struct

VADDR = 0x10000
CODE = 0x401000
ENTRY_ROW = b"\x0c\x07\x08\x90\x01"  # DW_CFA_def_cfa rsp+8; DW_CFA_offset RA, 1


def record(content: bytes) -> bytes:
    content += bytes(-len(content) % 4)
    return struct.pack("<I", len(content)) + content


def section(program: bytes, *, augmentation: bytes = b"zR\0", data: bytes = b"\x03", cie: bytes = ENTRY_ROW) -> bytes:
    """An .eh_frame of one CIE (absolute addresses of 4 bytes) and one FDE at CODE."""
    head = b"\1" + augmentation + b"\1\x78\x10" + (bytes([len(data)]) + data if augmentation[:1] == b"z" else b"")
    first = record(bytes(4) + head + cie)
    fde = struct.pack("<III", len(first) + 4, CODE, 0x100) + (b"\0" if augmentation[:1] == b"z" else b"")
    return first + record(fde + program) + bytes(4)


def table(data: bytes, starts: list[int], fde_at: int) -> tuple[int, bytes]:
    """An .eh_frame_hdr at 0x20000 whose entries have these starts, and all the same FDE."""
    vaddr = 0x20000
    entries = b"".join(struct.pack("<ii", start - vaddr, VADDR + fde_at - vaddr) for start in starts)
    return vaddr, bytes((1, 0x1B, 3, 0x3B)) + struct.pack("<iI", VADDR - vaddr - 4, len(starts)) + entries


def beside_code(size: int, program: bytes = b"") -> bytes:
    """Return an .eh_frame for `size` bytes of code; the section follows the code at the next multiple of 8."""
    behind = size + -size % 8
    first = record(bytes(4) + b"\1zR\0\1\x78\x10\1\x1b" + ENTRY_ROW)
    offset = len(first) + 8  # of where the code begins, counted from this field
    return first + record(struct.pack("<IiI", len(first) + 4, -behind - offset, size) + b"\0" + program) + bytes(4)
