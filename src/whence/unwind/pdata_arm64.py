"""Unwind information of arm64: codes of prologues and epilogues as rows.

    packed     the second word of the entry in .pdata describes a prologue of the usual form: the sizes of the saved
               registers and of the frame, and whether x29 points to a frame record
    .xdata     a header: length, number of epilogues, words of codes; epilogues by offset and first code; the codes, the
               last instruction of the prologue first, which is the order of an epilogue

Each code represents an instruction of 4 bytes. The CFA is the stack pointer at the start of the function; the return
address is in x30 or saved.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from whence._base.errors import DwarfError
from whence.unwind.cfi import Cfa, CfiRow, Cie, Fde, How, Rule

if TYPE_CHECKING:
    InfoReader = Callable[[int], memoryview]

FP, LR, SP, FLOATS = 29, 30, 31, 64  # DWARF's numbers; v0 is 64
INSTRUCTION = 4
RETURN = {LR: Rule(How.SAME)}
CIE = Cie(4, -8, LR, 0, 0, False, False, 8, memoryview(b""))
END, END_C = 0xE4, 0xE5  # unwind codes
PACKED, PACKED_PART = 1, 2  # kinds of entries
RETURN_SIGNED, CHAINED_SIGNED, CHAINED = 1, 2, 3  # CR of a packed entry: x30 is saved; with x29, signed or not
SUB_LIMIT, PAIR_LIMIT = 4080, 512  # the largest immediate of one sub, of stp with a new sp
HOMES = 4  # instructions that store x0 to x7


class Op(NamedTuple):
    """An instruction: `grow` bytes are allocated, then `registers` are stored from sp + `offset` on.

    `frame` is the offset from sp that x29 is set to; None if it is not set.
    """

    grow: int = 0
    registers: tuple[int, ...] = ()
    offset: int = 0
    frame: int | None = None
    is_next: bool = False  # stores the pair after the one stored before


NOTHING = Op()


class Xdata(NamedTuple):
    """Unwind information: length of the function, codes of the prologue, and (start, first code) of each epilogue."""

    length: int
    codes: memoryview
    epilogues: list[tuple[int, int]]
    is_last_epilogue: bool  # the only epilogue ends the function; its start is not stated


def arm64_fde(start: int, info: int, base: int, read: InfoReader, offset: int) -> Fde | None:
    """Return the rows of the function at RVA `start`; None if it is empty. Raises DwarfError if damaged."""
    kind = info & 3
    if kind == 0:
        return from_xdata(start, info, base, read, offset)
    if kind not in (PACKED, PACKED_PART):
        raise DwarfError(".pdata", offset, f"unknown kind {kind} of an entry")
    length = (info >> 2 & 0x7FF) * INSTRUCTION
    if not length:
        return None
    prologue = packed_prologue(info)
    begin = base + start
    if kind == PACKED_PART:  # without prologue and epilogue
        return Fde(begin, begin + length, CIE, (state_row(begin, prologue),), ".pdata", offset)
    rows = [state_row(begin + INSTRUCTION * index, prologue[:index]) for index in range(len(prologue) + 1)]
    is_signed = info >> 21 & 3 == CHAINED_SIGNED
    undone = [op for op in prologue if op.grow or op.registers]  # not stores of x0 to x7, and moves to x29
    epilogue = [*([NOTHING] if is_signed else []), *undone]
    first = begin + length - INSTRUCTION * (len(epilogue) + 1)
    rows += epilogue_rows(first, epilogue, begin + length, None)
    return Fde(begin, begin + length, CIE, ordered(rows, begin + length), ".pdata", offset)


def packed_prologue(info: int) -> list[Op]:
    """Return the instructions of the prologue that a packed entry describes."""
    floats, integers, homes, chain, frame = (
        info >> 13 & 7, info >> 16 & 15, info >> 20 & 1, info >> 21 & 3, (info >> 23 & 0x1FF) * 16,
    )  # fmt: skip
    integer_size = 8 * integers + (8 if chain == RETURN_SIGNED else 0)
    float_size = 8 * (floats + 1) if floats else 0
    saved_size = integer_size + float_size + 64 * homes + 15 & ~15
    local_size = max(0, frame - saved_size)
    registers = [*range(19, 19 + integers), *([LR] if chain == RETURN_SIGNED else [])]
    pairs = range(0, len(registers), 2)
    stores = [(tuple(registers[index : index + 2]), 8 * index) for index in pairs]
    float_registers = [FLOATS + 8 + index for index in range(floats + 1 if floats else 0)]
    pairs = range(0, len(float_registers), 2)
    stores += [(tuple(float_registers[index : index + 2]), integer_size + 8 * index) for index in pairs]
    stores += [((), 0)] * (HOMES * homes)
    ops = [NOTHING] if chain == CHAINED_SIGNED else []
    if stores and stores[0][0] == (19, LR):  # no code stores this pair with a new sp
        ops.append(Op(saved_size))
        saved_size = 0
    for index, (stored, offset) in enumerate(stores):
        ops.append(Op(saved_size if index == 0 else 0, stored, offset))
    if chain in (CHAINED_SIGNED, CHAINED):
        if local_size <= PAIR_LIMIT:
            ops.append(Op(local_size, (FP, LR), 0))
        else:
            ops += [*allocations(local_size), Op(0, (FP, LR), 0)]
        ops.append(Op(frame=0))
    else:
        ops += allocations(local_size)
    return ops


def allocations(size: int) -> list[Op]:
    """Return the instructions that allocate `size` bytes."""
    if not size:
        return []
    return [Op(size)] if size <= SUB_LIMIT else [Op(SUB_LIMIT), Op(size - SUB_LIMIT)]


def state_row(vaddr: int, ops: Sequence[Op]) -> CfiRow:
    """Return the row after instructions of a prologue."""
    depth, cfa = 0, None
    rules = dict(RETURN)
    last: tuple[int, int] | None = None  # of a pair: its first register and its offset from the CFA
    for op in ops:
        depth += op.grow
        registers, offset = op.registers, op.offset - depth
        if op.is_next and last is not None:
            registers, offset = (last[0] + 2, last[0] + 3), last[1] + 16
        for index, register in enumerate(registers):
            rules[register] = Rule(How.OFFSET, offset + 8 * index)
        if len(registers) > 1 and registers[1] == registers[0] + 1:
            last = registers[0], offset
        if op.frame is not None:
            cfa = Cfa(FP, depth - op.frame)
    rules = {register: rule for register, rule in rules.items() if register < FLOATS}
    return CfiRow(vaddr, cfa or Cfa(SP, depth), rules)


def epilogue_rows(first: int, ops: Sequence[Op], end: int, after: CfiRow | None, outer: int = 0) -> list[CfiRow]:
    """Return a row for each instruction of an epilogue, which undoes `ops` from the last to the first and returns.

    `after`: the rules that apply after its return, to code before `end`. The first `outer` of `ops` are undone by
    another part of the function.
    """
    count = len(ops) - outer
    rows = [state_row(first + INSTRUCTION * index, ops[: len(ops) - index]) for index in range(count + 1)]
    following = first + INSTRUCTION * (count + 1)
    if after is not None and following < end:
        rows.append(after._replace(start=following))
    return rows


def ordered(rows: list[CfiRow], end: int) -> tuple[CfiRow, ...]:
    """Return rows in order of start, of equal starts the last, without rows from `end` on."""
    by_start = {row.start: row for row in rows if row.start < end}
    return tuple(by_start[start] for start in sorted(by_start))


# .xdata


def from_xdata(start: int, rva: int, base: int, read: InfoReader, offset: int) -> Fde | None:
    """Return the rows of a function by its information at an RVA."""
    about = read_xdata(rva, read, offset)
    if not about.length:
        return None
    begin, end = base + start, base + start + about.length
    prologue, outer = decode(about.codes, 0, offset)
    count = len(prologue) - outer
    rows = [state_row(begin + INSTRUCTION * index, prologue[: outer + index]) for index in range(count + 1)]
    body = rows[-1]
    for where, index in about.epilogues:
        ops, outer = decode(about.codes, index, offset)
        first = begin + where
        if about.is_last_epilogue:
            first = max(begin, end - INSTRUCTION * (len(ops) - outer + 1))
        rows += epilogue_rows(first, ops, end, body, outer)
    return Fde(begin, end, CIE, ordered(rows, end), ".pdata", offset)


def read_xdata(rva: int, read: InfoReader, offset: int) -> Xdata:
    """Return the parts of unwind information. Raises DwarfError if it is damaged."""
    data = read(rva)

    def word(index: int) -> int:
        if 4 * index + 4 > len(data):
            raise DwarfError(".pdata", offset, f"the unwind information at RVA {rva:#x} is not in the file")
        value: int = struct.unpack_from("<I", data, 4 * index)[0]
        return value

    header = word(0)
    length, version = (header & 0x3FFFF) * INSTRUCTION, header >> 18 & 3
    if version:
        raise DwarfError(".pdata", offset, f"unknown version {version} of unwind information; known is 0")
    is_packed, count, words = header >> 21 & 1, header >> 22 & 31, header >> 27
    position = 1
    if not count and not words:
        extended = word(1)
        count, words, position = extended & 0xFFFF, extended >> 16 & 0xFF, 2
    epilogues = []
    if is_packed:
        epilogues = [(0, count)]
    else:
        for index in range(count):
            scope = word(position + index)
            epilogues.append(((scope & 0x3FFFF) * INSTRUCTION, scope >> 22))
        position += count
    codes = data[4 * position : 4 * (position + words)]
    if len(codes) < 4 * words:
        raise DwarfError(".pdata", offset, f"{4 * words} bytes of codes, of which {len(codes)} are in the file")
    return Xdata(length, codes, epilogues, bool(is_packed))


def decode(codes: memoryview, index: int, offset: int) -> tuple[list[Op], int]:
    """Return the instructions from a code to the end of its sequence, in the order of a prologue.

    Also return how many of them ran before the start of this part of a function.
    """
    ops: list[Op] = []
    own: int | None = None
    while index < len(codes):
        byte = codes[index]
        form = form_of(byte)
        size = form.size
        if index + size > len(codes):
            raise DwarfError(".pdata", offset, f"unwind code {byte:#x} needs {size} bytes, {len(codes) - index} left")
        value = int.from_bytes(codes[index : index + size], "big")
        index += size
        if byte == END:
            break
        if byte == END_C:  # the instructions of the whole function follow
            own = len(ops)
            continue
        ops.append(form.op(value))
    return ops[::-1], 0 if own is None else len(ops) - own


class CodeForm(NamedTuple):
    """An unwind code: its first byte (or the first of a range), its bytes, and the instruction by all of them."""

    first: int
    size: int
    op: Callable[[int], Op]


def _pair(value: int, base: int = 19) -> tuple[int, ...]:
    first = base + (value >> 6 & 15)
    return first, first + 1


def _any_register(value: int) -> Op:
    """Return the instruction of save_any_reg: pair, new sp, register (5), kind (2), offset (6)."""
    is_pair, moves = value >> 14 & 1, value >> 13 & 1
    register, kind, amount = value >> 8 & 31, value >> 6 & 3, value & 0x3F
    registers = (FLOATS + register,) if kind else (register, register + 1) if is_pair else (register,)
    if moves:
        return Op(16 * (amount + 1), registers)
    return Op(0, registers, (16 if is_pair or kind == WIDE else 8) * amount)


WIDE = 2  # kind of a register of 16 bytes
FLOAT = FLOATS + 8  # d8, the first that calls preserve
FORMS = (
    CodeForm(0x00, 1, lambda value: Op(16 * (value & 0x1F))),  # alloc_s
    CodeForm(0x20, 1, lambda value: Op(8 * (value & 0x1F), (19, 20))),  # save_r19r20_x
    CodeForm(0x40, 1, lambda value: Op(0, (FP, LR), 8 * (value & 0x3F))),  # save_fplr
    CodeForm(0x80, 1, lambda value: Op(8 * (value & 0x3F) + 8, (FP, LR))),  # save_fplr_x
    CodeForm(0xC0, 2, lambda value: Op(16 * (value & 0x7FF))),  # alloc_m
    CodeForm(0xC8, 2, lambda value: Op(0, _pair(value), 8 * (value & 0x3F))),  # save_regp
    CodeForm(0xCC, 2, lambda value: Op(8 * (value & 0x3F) + 8, _pair(value))),  # save_regp_x
    CodeForm(0xD0, 2, lambda value: Op(0, _pair(value)[:1], 8 * (value & 0x3F))),  # save_reg
    CodeForm(0xD4, 2, lambda value: Op(8 * (value & 0x1F) + 8, (19 + (value >> 5 & 15),))),  # save_reg_x
    CodeForm(0xD6, 2, lambda value: Op(0, (19 + 2 * (value >> 6 & 7), LR), 8 * (value & 0x3F))),  # save_lrpair
    CodeForm(0xD8, 2, lambda value: Op(0, _pair(value & 0x1FF, FLOAT), 8 * (value & 0x3F))),  # save_fregp
    CodeForm(0xDA, 2, lambda value: Op(8 * (value & 0x3F) + 8, _pair(value & 0x1FF, FLOAT))),  # save_fregp_x
    CodeForm(0xDC, 2, lambda value: Op(0, _pair(value & 0x1FF, FLOAT)[:1], 8 * (value & 0x3F))),  # save_freg
    CodeForm(0xDE, 2, lambda value: Op(8 * (value & 0x1F) + 8, (FLOAT + (value >> 5 & 7),))),  # save_freg_x
    CodeForm(0xDF, 2, lambda _: NOTHING),  # alloc_z
    CodeForm(0xE0, 4, lambda value: Op(16 * (value & 0xFFFFFF))),  # alloc_l
    CodeForm(0xE1, 1, lambda _: Op(frame=0)),  # set_fp
    CodeForm(0xE2, 2, lambda value: Op(frame=8 * (value & 0xFF))),  # add_fp
    CodeForm(0xE3, 1, lambda _: NOTHING),  # nop; END and END_C are not instructions
    CodeForm(0xE6, 1, lambda _: Op(is_next=True)),  # save_next
    CodeForm(0xE7, 3, _any_register),  # save_any_reg
    CodeForm(0xE8, 1, lambda _: NOTHING),  # of hand-written code; pac_sign_lr
    CodeForm(0xF8, 2, lambda _: NOTHING),  # reserved
    CodeForm(0xF9, 3, lambda _: NOTHING),
    CodeForm(0xFA, 4, lambda _: NOTHING),
    CodeForm(0xFB, 5, lambda _: NOTHING),
    CodeForm(0xFC, 1, lambda _: NOTHING),
)
_FIRST = [form.first for form in FORMS]


def form_of(byte: int) -> CodeForm:
    """Return the form of an unwind code by its first byte.

    >>> form_of(0xC9).op(0xC988)
    Op(grow=0, registers=(25, 26), offset=64, frame=None, is_next=False)
    """
    return FORMS[bisect_right(_FIRST, byte) - 1]
