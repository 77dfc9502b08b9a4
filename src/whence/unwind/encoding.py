"""Rows of any table encoded as `.eh_frame`, for archives and other formats.

CIE   version 1, augmentation "zR" ("zRS" for functions that were interrupted), absolute addresses
FDE   start, size, and instructions that change the rules from row to row
"""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import TYPE_CHECKING

from whence._base.errors import DwarfError
from whence._base.window import LEB_BITS, LEB_MORE
from whence.unwind.cfi import How
from whence.unwind.compact import CompactUnwind
from whence.unwind.instructions import sleb
from whence.unwind.pdata import FunctionTable

if TYPE_CHECKING:
    from whence.objects.interface import ObjectFile
    from whence.unwind.cfi import CfiRow, Cie, Fde, Rule

ADVANCE_1, ADVANCE_2, ADVANCE_4 = 0x02, 0x03, 0x04  # DW_CFA_*
RESTORE, UNDEFINED, SAME, REGISTER, DEF_CFA = 0x06, 0x07, 0x08, 0x09, 0x0C
OFFSET_SF, DEF_CFA_SF, VAL_OFFSET_SF = 0x11, 0x12, 0x15
ABSOLUTE = {64: 0x04, 32: 0x03}  # DW_EH_PE_udata8, DW_EH_PE_udata4


def converted(elf: ObjectFile) -> bytes:
    """Return the rows of a PE file's function table, or of compact unwind information; b"" without any.

    Damaged entries are left out; so are all rows of a table that has too many for its size.
    """
    table = FunctionTable.of_file(elf) or CompactUnwind.of_file(elf)
    if table is None:
        return b""
    try:
        return encoded(table.fdes(), elf.bits)
    except DwarfError:
        return b""


def encoded(fdes: Iterable[Fde], bits: int) -> bytes:
    """Return `.eh_frame` with these rows, little-endian, for any vaddr of the section. Expressions are not encoded."""
    out = bytearray()
    cies: dict[tuple[int, bool], int] = {}
    form = "<QQ" if bits == 64 else "<II"
    for fde in fdes:
        key = fde.cie.return_column, fde.cie.signal
        if key not in cies:
            cies[key] = len(out)
            out += record(bytes(4) + cie(fde.cie, bits), bits)
        head = struct.pack("<I", len(out) + 4 - cies[key]) + struct.pack(form, fde.start, fde.end - fde.start) + b"\0"
        out += record(head + program(fde.start, fde.rows), bits)
    return bytes(out) + bytes(4)


def cie(about: Cie, bits: int) -> bytes:
    """Return a CIE without its length and id. Offsets count bytes."""
    letters = b"zRS\0" if about.signal else b"zR\0"
    return b"\1" + letters + b"\1\1" + bytes((about.return_column, 1, ABSOLUTE[bits]))


def record(content: bytes, bits: int) -> bytes:
    """Return a record with its length, padded to words by DW_CFA_nop."""
    content += bytes(-(len(content) + 4) % (bits // 8))
    return struct.pack("<I", len(content)) + content


def program(start: int, rows: Iterable[CfiRow]) -> bytes:
    """Return the instructions that make rows."""
    out = bytearray()
    location, cfa = start, None
    rules: dict[int, Rule] = {}
    for row in rows:
        distance = row.start - location
        if 0 < distance < 1 << 8:
            out += bytes((ADVANCE_1, distance))
        elif 0 < distance < 1 << 16:
            out += struct.pack("<BH", ADVANCE_2, distance)
        elif distance:
            out += struct.pack("<BI", ADVANCE_4, distance)
        location = row.start
        if row.cfa is not None and row.cfa != cfa:
            signed = row.cfa.offset < 0
            out.append(DEF_CFA_SF if signed else DEF_CFA)
            out += uleb(row.cfa.register) + (sleb(row.cfa.offset) if signed else uleb(row.cfa.offset))
        for register in rules.keys() - row.rules.keys():
            out += bytes((RESTORE,)) + uleb(register)
        for register, rule in row.rules.items():
            if rules.get(register) != rule:
                out += instruction(register, rule)
        cfa, rules = row.cfa, row.rules
    return bytes(out)


def instruction(register: int, rule: Rule) -> bytes:
    """Return the instruction that sets the rule of a register."""
    match rule.how:
        case How.OFFSET:
            return bytes((OFFSET_SF,)) + uleb(register) + sleb(rule.number)
        case How.VAL_OFFSET:
            return bytes((VAL_OFFSET_SF,)) + uleb(register) + sleb(rule.number)
        case How.REGISTER:
            return bytes((REGISTER,)) + uleb(register) + uleb(rule.number)
        case How.SAME:
            return bytes((SAME,)) + uleb(register)
        case _:
            return bytes((UNDEFINED,)) + uleb(register)


def uleb(value: int) -> bytes:
    """Return an unsigned number as LEB128.

    >>> uleb(300).hex()
    'ac02'
    """
    out = bytearray()
    while value >= LEB_MORE:
        out.append(value & ~-LEB_MORE | LEB_MORE)
        value >>= LEB_BITS
    return bytes((*out, value))
