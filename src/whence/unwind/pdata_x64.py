"""UNWIND_INFO of x64: the codes of a prologue as rows, and the instructions of an epilogue.

    byte 0    version (3 bits), flags (5 bits)
    byte 1    size of the prologue
    byte 2    number of 16-bit slots
    byte 3    frame register (4 bits), its offset from the stack pointer in 16 bytes (4 bits)
    slots     offset after the instruction, operation (4 bits), its info (4 bits); then operands. Last instruction first
    then      with the flag for chained information: a function's entry; its codes ran before the start of this part

The CFA is the stack pointer before the call, so the return address is at CFA-8.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from itertools import takewhile
from typing import TYPE_CHECKING, NamedTuple

from whence._base.errors import DwarfError
from whence.unwind.cfi import Cfa, CfiRow, Cie, Fde, How, Rule

if TYPE_CHECKING:
    InfoReader = Callable[[int], memoryview]
    Finder = Callable[[int], Fde | None]

CHAIN_LIMIT = 32
VERSIONS = (1, 2)
CHAINED = 4  # flag
(
    PUSH_NONVOL, ALLOC_LARGE, ALLOC_SMALL, SET_FPREG, SAVE_NONVOL, SAVE_NONVOL_FAR, EPILOG, SPARE, SAVE_XMM128,
    SAVE_XMM128_FAR, PUSH_MACHFRAME,
) = range(11)  # fmt: skip
SLOTS = (1, 2, 1, 1, 2, 3, 2, 3, 2, 3, 1)  # of each operation; 3 for ALLOC_LARGE with info 1
DWARF = (0, 2, 1, 3, 7, 6, 4, 5, *range(8, 16))  # numbers of the registers as instructions number them
RSP, RIP = 7, 16
RIP_RELATIVE = 5  # of a ModRM byte: memory at an offset from the instruction
PRESERVED = {4: Rule(How.SAME), 5: Rule(How.SAME)}  # rsi and rdi, in addition to the registers that Linux preserves
ADD_RSP_8, ADD_RSP_32 = b"\x48\x83\xc4", b"\x48\x81\xc4"  # add imm, %rsp
WIDE, WIDE_B = b"\x48", b"\x49"  # prefixes REX.W, REX.WB
LEA = b"\x8d"
RSP_FIELD, DISP8, DISP32 = 4, 1, 2  # of a ModRM byte: the register; its modes
POP, POP_MASK, REX_B = 0x58, 0xF8, 0x41
CALL_REL32, GROUP_5, CALL_FIELD, JUMP_FIELD = 0xE8, 0xFF, 2, 4  # opcodes; registers of a ModRM byte
JUMPS = {0xEB: 2, 0xE9: 5}  # rel8, rel32: bytes
BEFORE = 8  # bytes before an address
IMAGE_LIMIT = 1 << 28  # bytes that a call may lead across
CIE = Cie(1, -8, RIP, 0, 0, False, False, 8, memoryview(b""))
INTERRUPTED = Cie(1, -8, RIP, 0, 0, False, True, 8, memoryview(b""))  # of functions that hardware enters


class UnwindCode(NamedTuple):
    """A code: the offset after its instruction, the operation, its info and its operand in bytes."""

    offset: int
    operation: int
    info: int
    operand: int

    @property
    def growth(self) -> int:
        """The bytes by which the stack grows, except for a machine frame."""
        if self.operation == PUSH_NONVOL:
            return 8
        if self.operation == ALLOC_SMALL:
            return 8 * self.info + 8
        if self.operation == ALLOC_LARGE:
            return self.operand if self.info else 8 * self.operand
        return 0


class UnwindInfo(NamedTuple):
    """The codes of a function, last instruction first, and the entry that they are chained to."""

    codes: list[UnwindCode]
    frame_register: int
    frame_offset: int
    chained: tuple[int, int, int] | None


def read_info(rva: int, read: InfoReader, offset: int) -> UnwindInfo:
    """Return the unwind information at an RVA. Raises DwarfError; `offset` is that of the entry in .pdata."""
    data = read(rva)
    if len(data) < 4:
        raise DwarfError(".pdata", offset, f"the unwind information at RVA {rva:#x} is not in the file")
    version, flags = data[0] & 7, data[0] >> 3
    if version not in VERSIONS:
        raise DwarfError(".pdata", offset, f"unknown version {version} of unwind information; known are 1 and 2")
    count = data[2]
    after = 4 + 2 * (count + (count & 1))
    needed = after + (12 if flags & CHAINED else 0)
    if needed > len(data):
        raise DwarfError(
            ".pdata", offset, f"unwind information of {needed} bytes, of which {len(data)} are in the file"
        )
    codes, slot = [], 0
    while slot < count:
        start, second = data[4 + 2 * slot], data[5 + 2 * slot]
        operation, info = second & 15, second >> 4
        if operation >= len(SLOTS):
            raise DwarfError(".pdata", offset, f"unknown operation {operation} of unwind information")
        size = 3 if operation == ALLOC_LARGE and info else SLOTS[operation]
        if slot + size > count:
            raise DwarfError(".pdata", offset, f"operation {operation} needs {size} slots, {count - slot} left")
        operand = 0
        if size > 1:
            operand = struct.unpack_from("<H" if size == 2 else "<I", data, 6 + 2 * slot)[0]
        if operation not in (EPILOG, SPARE):
            codes.append(UnwindCode(start, operation, info, operand))
        slot += size
    chained = struct.unpack_from("<III", data, after) if flags & CHAINED else None
    return UnwindInfo(codes, data[3] & 15, data[3] >> 4, chained)


def x64_fde(start: int, end: int, rva: int, base: int, read: InfoReader, offset: int) -> Fde:
    """Return the rows of a function at RVAs [start, end). Raises DwarfError if its information is damaged."""
    if rva & 1:  # the entry of another function
        entry = read(rva & ~1)
        if len(entry) < 12:
            raise DwarfError(".pdata", offset, f"the entry at RVA {rva & ~1:#x} is not in the file")
        rva = struct.unpack_from("<I", entry, 8)[0]
    info = read_info(rva, read, offset)
    before: list[UnwindCode] = []
    frame_register, frame_offset, parent = info.frame_register, info.frame_offset, info.chained
    for _ in range(CHAIN_LIMIT):
        if parent is None:
            break
        outer = read_info(parent[2], read, offset)
        before = [code._replace(offset=0) for code in reversed(outer.codes)] + before
        frame_register = frame_register or outer.frame_register
        frame_offset = frame_offset or outer.frame_offset
        parent = outer.chained
    else:
        raise DwarfError(".pdata", offset, f"unwind information is chained more than {CHAIN_LIMIT} times")
    prologue = Prologue(DWARF[frame_register], frame_offset)
    return prologue.fde(base + start, base + end, before + info.codes[::-1], offset)


class Prologue:
    """The state of a prologue: depth of the stack pointer below the CFA, saved registers, and how the CFA is found."""

    def __init__(self, frame_register: int, frame_offset: int) -> None:
        self._frame_register, self._frame_offset = frame_register, 16 * frame_offset

    def fde(self, start: int, end: int, codes: list[UnwindCode], offset: int) -> Fde:
        """Return the rows of a function by its codes in the order of execution."""
        depth, is_interrupted = 8, False
        cfa, rules = Cfa(RSP, depth), {**PRESERVED, RIP: Rule(How.OFFSET, -8)}
        base_depth = self._depth_of_saves(codes)
        rows = [CfiRow(start, cfa, dict(rules))]
        for code in codes:
            operation, info, operand = code.operation, code.info, code.operand
            depth += code.growth
            if operation == PUSH_NONVOL:
                rules[DWARF[info]] = Rule(How.OFFSET, -depth)
            elif operation == SET_FPREG:
                cfa = Cfa(self._frame_register, depth - self._frame_offset)
            elif operation == SAVE_NONVOL:
                rules[DWARF[info]] = Rule(How.OFFSET, 8 * operand - base_depth)
            elif operation == SAVE_NONVOL_FAR:
                rules[DWARF[info]] = Rule(How.OFFSET, operand - base_depth)
            elif operation == PUSH_MACHFRAME:  # rip, cs, rflags, rsp, ss; before them an error code if info is 1
                is_interrupted = True
                error = 8 if info & 1 else 0
                rules[RIP], rules[RSP] = Rule(How.OFFSET, error - 8), Rule(How.OFFSET, error + 16)
            if cfa.register == RSP:
                cfa = Cfa(RSP, depth)
            row = CfiRow(min(start + code.offset, end - 1), cfa, dict(rules))
            if rows[-1].start >= row.start:
                rows[-1] = row._replace(start=rows[-1].start)
            else:
                rows.append(row)
        return Fde(start, end, INTERRUPTED if is_interrupted else CIE, tuple(rows), ".pdata", offset)

    def _depth_of_saves(self, codes: list[UnwindCode]) -> int:
        """Return the depth that offsets of saved registers count from: at the set frame register, else the last one."""
        before = takewhile(lambda code: code.operation != SET_FPREG, codes)
        return 8 + sum(code.growth for code in before)


def with_epilogue(fde: Fde, vaddr: int, code: bytes, find: Finder) -> Fde:
    """Return a function with a row for `vaddr` if an epilogue continues there.

    `code` are the 8 bytes before `vaddr` and those from it; `find` returns the function at an address. The address
    before a return address is the last byte of a call, which does not start an epilogue.
    """
    if len(code) <= BEFORE or vaddr < fde.rows[-1].start or ends_call(code[: BEFORE + 1]):
        return fde
    row = epilogue_row(fde, vaddr, code[BEFORE:], find)
    if row is None:
        return fde
    after = fde.rows[-1]._replace(start=vaddr + 1)
    rows = (*fde.rows, row, after) if vaddr > fde.rows[-1].start else (*fde.rows[:-1], row, after)
    return Fde(fde.start, fde.end, fde.cie, rows, fde.section, fde.offset)


def ends_call(code: bytes) -> bool:
    """Return True if the bytes can end with a call: rel32, or by a register or memory."""
    if code[-5] == CALL_REL32 and abs(int.from_bytes(code[-4:], "little", signed=True)) < IMAGE_LIMIT:
        return True
    return any(code[-size] == GROUP_5 and code[1 - size] >> 3 & 7 == CALL_FIELD for size in (2, 3, 4, 6, 7))


def epilogue_row(fde: Fde, vaddr: int, code: bytes, find: Finder) -> CfiRow | None:
    """Return the row at the start of `code` if it is an epilogue up to a return or a jump out of the function.

    An epilogue is: add to rsp, or lea rsp from the frame register; pops; then ret or jmp.
    """
    register, depth, position = RSP, 0, 0
    frame = fde.rows[-1].cfa
    if code.startswith(ADD_RSP_8):
        position = 4
        depth = int.from_bytes(code[3:position], "little", signed=True)
    elif code.startswith(ADD_RSP_32):
        position = 7
        depth = int.from_bytes(code[3:position], "little", signed=True)
    elif code[:1] in (WIDE, WIDE_B) and code[1:2] == LEA and code[2:3] and code[2] >> 3 & 7 == RSP_FIELD:
        mode, source = code[2] >> 6, DWARF[(code[2] & 7) + (8 if code[:1] == WIDE_B else 0)]
        if mode not in (DISP8, DISP32) or frame is None or source != frame.register or source == RSP:
            return None
        position = 4 if mode == DISP8 else 7
        register, depth = source, int.from_bytes(code[3:position], "little", signed=True)
    saved: dict[int, int] = {}
    while position < len(code):
        byte = code[position]
        if byte & POP_MASK == POP:
            saved[DWARF[byte & 7]] = depth
            position, depth = position + 1, depth + 8
        elif byte == REX_B and code[position + 1 : position + 2] and code[position + 1] & POP_MASK == POP:
            saved[DWARF[8 + (code[position + 1] & 7)]] = depth
            position, depth = position + 2, depth + 8
        else:
            break
    if not returns(code[position:]) and not leaves(fde, vaddr + position, code[position:], position > 0, find):
        return None
    cfa = depth + 8
    rules = {**PRESERVED, **{number: Rule(How.OFFSET, offset - cfa) for number, offset in saved.items()}}
    return CfiRow(vaddr, Cfa(register, cfa), {**rules, RIP: Rule(How.OFFSET, -8)})


def returns(code: bytes) -> bool:
    """Return True if the first instruction is a return."""
    return code[:1] in (b"\xc3", b"\xc2") or code[:2] in (b"\xf3\xc3", b"\xf2\xc3")


def leaves(fde: Fde, vaddr: int, code: bytes, is_popped: bool, find: Finder) -> bool:
    """Return True if the first instruction is a jump to another function.

    `is_popped`: the instructions before it are those of an epilogue. Without them a jump may be to a part of the
    function elsewhere, which starts with the frame of the function, or one of a switch statement.
    """
    size = JUMPS.get(code[0] if code else 0, 0)
    if size and len(code) >= size:
        target = vaddr + size + int.from_bytes(code[1:size], "little", signed=True)
        if fde.start < target < fde.end:
            return False
        other = None if is_popped else find(target)
        return other is None or (other.start == target and other.rows[0].cfa == Cfa(RSP, 8))
    is_wide = code[:1] in (WIDE, WIDE_B)
    jump = code[is_wide : 2 + is_wide]
    if len(jump) < 1 + 1 or jump[0] != GROUP_5 or jump[1] >> 3 & 7 != JUMP_FIELD:
        return False
    return is_wide or (jump[1] >> 6 == 0 and (is_popped or jump[1] & 7 == RIP_RELATIVE))
