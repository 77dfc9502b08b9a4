"""Instructions of prologues and epilogues, for tables that describe only the body of a function.

A prologue is followed from the function's start until the CFA is that of the body; each instruction that changes the
frame starts a row. Compilers may put other instructions first, often with an exit that needs no frame. In an epilogue,
the instructions from the address to the return give its row. Code of another form has the row of the body everywhere.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from whence.objects.machines import EM_X86_64
from whence.unwind import pdata_x64
from whence.unwind.cfi import Cfa, CfiRow, Fde, How, Rule
from whence.unwind.instructions import CALL, GROUP_5, decode

if TYPE_CHECKING:
    CodeReader = Callable[[int, int], bytes]

CODE_BYTES = 256  # of a prologue with the code before it, or of an epilogue
INSTRUCTION = 4  # bytes, of arm64
RSP, RBP, RIP = 7, 6, 16
ENTRY_DEPTH = 8  # bytes on the stack of x86-64 at a function's start: the return address
X29, X30, SP = 29, 30, 31
PUSH, PUSH_MASK, REX_B = 0x50, 0xF8, 0x41
MOV_RBP_RSP = (b"\x48\x89\xe5", b"\x48\x8b\xec")
SUB_RSP_8, SUB_RSP_32 = b"\x48\x83\xec", b"\x48\x81\xec"
LEAVE = 0xC9
RETURNS = (0xD65F03C0, 0xD65F0BFF, 0xD65F0FFF)  # ret, retaa, retab
BRANCHES = ((0x7C000000, 0x14000000), (0xFE000000, 0x54000000), (0x7C000000, 0x34000000), (0xFE000000, 0xD6000000))
JUMP_MASK, JUMP = 0xFC000000, 0x14000000  # b
SP_RESULT_MASK, SP_RESULTS = 0x3F000000, (0x11000000, 0x0B000000)  # additions and subtractions that set no flags
CALLS = ((0xFC000000, 0x94000000), (0xFEFFFC00, 0xD63F0000))  # bl; blr, blraa
SUB_IMM, ADD_IMM, IMM_MASK, SHIFTED = 0xD1000000, 0x91000000, 0xFF800000, 1 << 22  # of 64-bit registers
PAIR_MASK, PAIR_PRE, PAIR_AT, PAIR_LOAD, PAIR_POST = 0xFFC00000, 0xA9800000, 0xA9000000, 0xA9400000, 0xA8C00000
FLOAT_PRE, FLOAT_AT, FLOAT_LOAD, FLOAT_POST = 0x6D800000, 0x6D000000, 0x6D400000, 0x6CC00000
ONE_MASK, ONE_PRE, ONE_POST = 0xFFE00C00, 0xF8000C00, 0xF8400400
STORE_AT, LOAD_AT = 0xF9000000, 0xF9400000


def prologue_rows(body: CfiRow, end: int, read: CodeReader, machine: int) -> tuple[CfiRow, ...]:
    """Return the rows of a function from `body.start` to `end`; the last is that of the body."""
    code = read(body.start, min(CODE_BYTES, end - body.start))
    walk = x64_prologue if machine == EM_X86_64 else arm64_prologue
    rows = [row for row in walk(body, code) if row.start < end]
    return tuple(rows) if rows else (body,)


def with_epilogue(fde: Fde, vaddr: int, read: CodeReader, machine: int) -> Fde:
    """Return a function with a row for `vaddr` if an epilogue continues there."""
    if vaddr < fde.rows[-1].start:
        return fde
    if machine == EM_X86_64:
        return _with_x64_epilogue(fde, vaddr, read)
    if vaddr % INSTRUCTION:
        return fde  # looked up for a caller, before the return address
    row = arm64_epilogue(fde, vaddr, read(vaddr - INSTRUCTION, min(CODE_BYTES, fde.end - vaddr) + INSTRUCTION))
    return fde if row is None else with_row(fde, row)


def with_row(fde: Fde, row: CfiRow) -> Fde:
    """Return a function in whose body one instruction has another row."""
    body = fde.rows[-1]
    before = fde.rows if row.start > body.start else fde.rows[:-1]
    after = (body._replace(start=row.start + 1),) if row.start + 1 < fde.end else ()
    return Fde(fde.start, fde.end, fde.cie, (*before, row, *after), fde.section, fde.offset)


# x86-64


def x64_prologue(body: CfiRow, code: bytes) -> list[CfiRow]:
    """Return the rows from the start to the body; [] if the instructions do not lead to its CFA."""
    depth, offset = ENTRY_DEPTH, 0
    rules = {RIP: Rule(How.OFFSET, -8)}
    rows = [CfiRow(body.start, Cfa(RSP, depth), dict(rules))]
    while body.cfa != rows[-1].cfa and offset < len(code):
        byte = code[offset]
        size = 0
        if byte & PUSH_MASK == PUSH:
            number, size = pdata_x64.DWARF[byte & 7], 1
        elif byte == REX_B and code[offset + 1 : offset + 2] and code[offset + 1] & PUSH_MASK == PUSH:
            number, size = pdata_x64.DWARF[8 + (code[offset + 1] & 7)], 2
        if size:
            depth += 8
            if number in body.rules:
                rules[number] = Rule(How.OFFSET, -depth)
            cfa = Cfa(RSP, depth)
        elif code[offset : offset + 3] in MOV_RBP_RSP:
            size, cfa = 3, Cfa(RBP, depth)
        elif code.startswith(SUB_RSP_8, offset):
            size, depth = 4, depth + int.from_bytes(code[offset + 3 : offset + 4], "little", signed=True)
            cfa = Cfa(RSP, depth)
        elif code.startswith(SUB_RSP_32, offset):
            size, depth = 7, depth + int.from_bytes(code[offset + 3 : offset + 7], "little", signed=True)
            cfa = Cfa(RSP, depth)
        elif depth == ENTRY_DEPTH:  # before the prologue
            size = x64_frameless(code[offset:])
            if not size:
                return []
            offset += size
            continue
        else:
            return []
        offset += size
        rows.append(CfiRow(body.start + offset, cfa, dict(rules)))
    if body.cfa != rows[-1].cfa:
        return []
    pushed = pushes_after(code, offset) if rows[-1].cfa == Cfa(RBP, 16) else 0
    if pushed:  # registers that are saved below rbp
        rows += x64_saves(rows[-1], body.rules, code, offset, pushed)
        return rows
    rows[-1] = body._replace(start=rows[-1].start)
    return rows


def x64_frameless(code: bytes) -> int:
    """Return the size of an instruction before a prologue; 0 if it calls, or is not known."""
    instruction = decode(code, 64)
    if instruction is None or (not instruction.map and instruction.opcode in (CALL, GROUP_5)):
        return 0
    return instruction.size


def pushes_after(code: bytes, offset: int) -> int:
    """Return how many pushes follow."""
    count = 0
    while offset < len(code):
        if code[offset] & PUSH_MASK == PUSH:
            offset += 1
        elif code[offset] == REX_B and code[offset + 1 : offset + 2] and code[offset + 1] & PUSH_MASK == PUSH:
            offset += 2
        else:
            break
        count += 1
    return count


def x64_saves(first: CfiRow, rules: Mapping[int, Rule], code: bytes, offset: int, count: int) -> list[CfiRow]:
    """Return a row after each push of a register, the last with all rules of the body."""
    rows, saved = [], dict(first.rules)
    start = first.start
    for index in range(count):
        is_long = code[offset] == REX_B
        number = pdata_x64.DWARF[(8 if is_long else 0) + (code[offset + is_long] & 7)]
        offset, start = offset + 1 + is_long, start + 1 + is_long
        if number in rules:
            saved[number] = rules[number]
        rows.append(CfiRow(start, first.cfa, dict(rules) if index == count - 1 else dict(saved)))
    return rows


def _with_x64_epilogue(fde: Fde, vaddr: int, read: CodeReader) -> Fde:
    before = pdata_x64.BEFORE
    code = read(vaddr - before, before + CODE_BYTES)
    if len(code) <= before or pdata_x64.ends_call(code[: before + 1]):
        return fde
    cfa = fde.rows[-1].cfa
    if code[before] == LEAVE and pdata_x64.returns(code[before + 1 :]) and cfa == Cfa(RBP, 16):
        return with_row(fde, CfiRow(vaddr, cfa, {RIP: Rule(How.OFFSET, -8), RBP: Rule(How.OFFSET, -16)}))
    row = pdata_x64.epilogue_row(fde, vaddr, code[before:], lambda _: None)
    return fde if row is None else with_row(fde, row)


# arm64


def arm64_prologue(body: CfiRow, code: bytes) -> list[CfiRow]:
    """Return the rows from the start to the body; [] if the instructions do not lead to its CFA."""
    depth = 0
    rules = {X30: Rule(How.SAME)}
    rows = [CfiRow(body.start, Cfa(SP, 0), dict(rules))]
    for index, (word,) in enumerate(struct.iter_unpack("<I", code[: len(code) & -INSTRUCTION])):
        if body.cfa == rows[-1].cfa and rules.keys() == body.rules.keys():
            break
        if any(word & mask == value for mask, value in (BRANCHES if len(rows) > 1 else CALLS)):
            break
        grown, stored, frame = arm64_effect(word)
        depth += grown
        for register, offset in stored.items():
            if register in body.rules:
                rules[register] = Rule(How.OFFSET, offset - depth)
        cfa = rows[-1].cfa
        if frame is not None:
            cfa = Cfa(X29, depth - frame)
        elif cfa is not None and cfa.register == SP:
            cfa = Cfa(SP, depth)
        if grown or stored or frame is not None:
            rows.append(CfiRow(body.start + INSTRUCTION * (index + 1), cfa, dict(rules)))
    if body.cfa != rows[-1].cfa:
        return []
    rows[-1] = body._replace(start=rows[-1].start)
    return rows


def arm64_effect(word: int) -> tuple[int, dict[int, int], int | None]:
    """Return what an instruction of a prologue allocates, what it stores by offset from sp, and x29's new offset."""
    base, register, second = word >> 5 & 31, word & 31, word >> 10 & 31
    offset = 8 * signed(word >> 15, 7)
    if base != SP:
        return 0, {}, None
    if word & IMM_MASK == SUB_IMM and register == SP:
        return immediate(word), {}, None
    if word & IMM_MASK == ADD_IMM and register == X29:
        return 0, {}, immediate(word)
    if word & PAIR_MASK == PAIR_PRE:
        return -offset, {register: 0, second: 8}, None
    if word & PAIR_MASK == PAIR_AT:
        return 0, {register: offset, second: offset + 8}, None
    if word & PAIR_MASK == FLOAT_PRE:
        return -offset, {}, None
    if word & ONE_MASK == ONE_PRE:
        return -signed(word >> 12, 9), {register: 0}, None
    if word & PAIR_MASK == STORE_AT:
        return 0, {register: 8 * (word >> 10 & 0xFFF)}, None
    return 0, {}, None


def arm64_epilogue(fde: Fde, vaddr: int, code: bytes) -> CfiRow | None:
    """Return the row at `vaddr` if only instructions of an epilogue lead to a return, or to a jump out of the function.

    `code` starts with the instruction before.
    """
    register, depth = SP, 0
    loaded: dict[int, int] = {}
    before, *words = (word for (word,) in struct.iter_unpack("<I", code[: len(code) & -INSTRUCTION]))
    for index, word in enumerate(words):
        if word in RETURNS or is_tail_jump(word, vaddr + INSTRUCTION * index, fde):
            if word not in RETURNS and not depth and X30 not in loaded and (index or not restores(before)):
                return None
            rules = {number: Rule(How.OFFSET, offset - depth) for number, offset in loaded.items()}
            return CfiRow(vaddr, Cfa(register, depth), {X30: Rule(How.SAME), **rules})
        base, first, second = word >> 5 & 31, word & 31, word >> 10 & 31
        offset = 8 * signed(word >> 15, 7)
        if word & IMM_MASK in (ADD_IMM, SUB_IMM) and first == SP and base == X29 and not (depth or loaded):
            register, depth = X29, immediate(word) * (1 if word & IMM_MASK == ADD_IMM else -1)
        elif base != SP:
            if not keeps_frame(word):
                return None
        elif word & IMM_MASK == ADD_IMM and first == SP:
            depth += immediate(word)
        elif word & PAIR_MASK == PAIR_LOAD:
            loaded |= {first: depth + offset, second: depth + offset + 8}
        elif word & PAIR_MASK == PAIR_POST:
            loaded |= {first: depth, second: depth + 8}
            depth += offset
        elif word & PAIR_MASK == FLOAT_POST:
            depth += offset
        elif word & ONE_MASK == ONE_POST:
            loaded[first] = depth
            depth += signed(word >> 12, 9)
        elif word & PAIR_MASK == LOAD_AT:
            loaded[first] = depth + 8 * (word >> 10 & 0xFFF)
        elif word & PAIR_MASK != FLOAT_LOAD:
            return None
    return None


def is_tail_jump(word: int, vaddr: int, fde: Fde) -> bool:
    """Return True for a jump out of a function."""
    target = vaddr + INSTRUCTION * signed(word, 26)
    return word & JUMP_MASK == JUMP and not fde.start <= target < fde.end


def restores(word: int) -> bool:
    """Return True for an instruction that ends a frame: it loads a pair and adds to sp, or adds to sp."""
    pops = word & PAIR_MASK in (PAIR_POST, FLOAT_POST) and word >> 5 & 31 == SP
    return pops or (word & IMM_MASK == ADD_IMM and word & 31 == word >> 5 & 31 == SP)


def keeps_frame(word: int) -> bool:
    """Return True unless an instruction branches, or may write to sp, x29 or x30."""
    if any(word & mask == value for mask, value in BRANCHES) or word & 31 in (X29, X30):
        return False
    return word & 31 != SP or word & SP_RESULT_MASK not in SP_RESULTS


def immediate(word: int) -> int:
    """Return the operand of an addition or subtraction."""
    value = word >> 10 & 0xFFF
    return value << 12 if word & SHIFTED else value


def signed(value: int, bits: int) -> int:
    """Return the lowest bits of a number as a signed one.

    >>> signed(0x7F, 7)
    -1
    """
    value &= (1 << bits) - 1
    return value - (1 << bits) if value >> bits - 1 else value
