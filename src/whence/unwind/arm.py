"""Read code of 32-bit ARM without unwind tables, instruction by instruction: A32 and Thumb.

    from_start  from a function's start to an address in it: what the code has pushed by then
    to_return   from an address to the function's returns: what the code pops on the way

Both return rows as call frame information has them. Only instructions that move the stack pointer or a frame pointer,
push, pop, branch or return are modeled; both ways of a conditional branch are followed.

Reference: "Arm Architecture Reference Manual", ARMv7-A edition, chapters A6 (Thumb) and A8.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import NamedTuple

from whence.unwind.cfi import Cfa, CfiRow, How, Rule

INSTRUCTIONS_LIMIT = 2000  # per walk
RETURNS_LIMIT = 8
WORD = 4
THUMB_FP, ARM_FP, SP, LINK, PC = 7, 11, 13, 14, 15
CALLEE_SAVED = range(4, 12)
CLOBBERED = (0, 1, 2, 3, 12, LINK)  # not preserved by calls
ALWAYS = 14  # the condition that always holds

# Thumb, the first halfword of 32-bit instructions
T32_PUSH, T32_POP = 0xE92D, 0xE8BD
T32_PUSH_ONE, T32_POP_ONE = 0xF84D, 0xF85D  # str and ldr of one register, the stack pointer written back
T32_PUSH_TWO, T32_POP_TWO = 0xE96D, 0xE8FD  # strd and ldrd, written back
T32_STORE_TWO, T32_LOAD_TWO, T32_STORE, T32_LOAD = 0xE9CD, 0xE9DD, 0xF8CD, 0xF8DD  # relative to the stack pointer
T32_VPUSH, T32_VPOP = 0xED2D, 0xECBD
T32_ADD, T32_SUB, T32_ADDW, T32_SUBW = 0xF100, 0xF1A0, 0xF200, 0xF2A0
T32_MOV, T32_MOVW = 0xF04F, 0xF240
T32_ADD_REGISTER, T32_SUB_REGISTER = 0xEB00, 0xEBA0
T32_TABLE, T32_TABLE_SECOND = 0xE8DF, 0xF000  # tbb, tbh: a jump by a table
T32_LOAD_ANY, T32_UNDEFINED = 0xF850, 0xF7F0
T32_CALL_SECOND = 0xC000
# Thumb, 16 bits
T16_COMPARE_BRANCH, T16_IF_THEN, T16_CALL_REGISTER = 0xB100, 0xBF, 0x4780
T16_ADD_ANY, T16_MOV_ANY = 0b01000100, 0b01000110  # of any registers
# A32, without the condition
A32_PUSH, A32_POP, A32_PUSH_ONE, A32_POP_ONE, A32_STORE, A32_LOAD = 0x92D, 0x8BD, 0x52D, 0x49D, 0x58D, 0x59D
A32_VPUSH, A32_VPOP = 0x0D2D0A00, 0x0CBD0A00
A32_MOV, A32_MOV_PC, A32_BX, A32_BLX = 0x01A00000, 0x01A0F000, 0x012FFF10, 0x012FFF30
A32_JUMP, A32_CALL = 0xA, 0xB

Read = Callable[[int, int], bytes]  # (address, size) -> code; raises LookupError if unreadable


class ArmKind(enum.Enum):
    """The effect of an instruction, as far as unwinding needs it."""

    OTHER = enum.auto()
    ADD = enum.auto()  # register = base + `number`
    ADD_REGISTER = enum.auto()  # register = base + `number` * another register
    CONSTANT = enum.auto()
    PUSH = enum.auto()  # the stack pointer moves down by `number`, then the registers are stored there
    POP = enum.auto()  # the registers are loaded, then the stack pointer moves up by `number`
    STORE = enum.auto()  # the registers are stored `number` bytes above the stack pointer
    LOAD = enum.auto()
    CALL = enum.auto()
    JUMP = enum.auto()
    BRANCH = enum.auto()
    RETURN = enum.auto()
    STOP = enum.auto()
    IF_THEN = enum.auto()  # the next `number` instructions are conditional


class ArmInstruction(NamedTuple):
    """An instruction. `number` is a distance, a constant, or the target of a jump or branch."""

    size: int
    kind: ArmKind
    number: int = 0
    registers: tuple[int, ...] = ()
    base: int = -1
    conditional: bool = False


class RegisterValue(NamedTuple):
    """The initial value of a register plus an offset, or the word at that address (`loaded`); base -1 is a constant."""

    base: int
    offset: int
    loaded: bool = False


class ArmState:
    """Known registers, and known words of the stack by address."""

    def __init__(self) -> None:
        self.registers: dict[int, RegisterValue | None] = {number: RegisterValue(number, 0) for number in range(PC)}
        self.stack: dict[RegisterValue, RegisterValue | None] = {}
        self.conditional = 0  # remaining instructions of an IT block
        self.has_called = False

    def copy(self) -> ArmState:
        result = ArmState()
        result.registers, result.stack = dict(self.registers), dict(self.stack)
        result.conditional, result.has_called = self.conditional, self.has_called
        return result

    def plus(self, register: int, distance: int) -> RegisterValue | None:
        value = self.registers.get(register)
        return None if value is None or value.loaded else value._replace(offset=value.offset + distance)

    def store(self, registers: tuple[int, ...], distance: int) -> None:
        for index, register in enumerate(registers):
            address = self.plus(SP, distance + WORD * index)
            if address is not None:
                self.stack[address] = self.registers.get(register)

    def load(self, registers: tuple[int, ...], distance: int) -> None:
        values = []
        for index in range(len(registers)):
            address = self.plus(SP, distance + WORD * index)
            values.append(None if address is None else self.stack.get(address, address._replace(loaded=True)))
        self.registers.update(zip(registers, values, strict=True))


class ArmPath:
    """Walks code of one instruction set along every path until it reaches a goal or returns."""

    def __init__(self, read: Read, is_thumb: bool) -> None:
        self.read, self.is_thumb = read, is_thumb

    def from_start(self, start: int, end: int, goal: int, is_exact: bool) -> CfiRow | None:
        """Return the row at `goal` in the function [start, end); None if no path leads there or the caller is unknown.

        `is_exact`: the thread is at `goal`; otherwise it is in a call that returns there.
        """
        state = next((state for address, _, state in self.walk(start, start, end, goal) if address == goal), None)
        if state is None:
            return None
        rules: dict[int, Rule] = {}
        for address, value in reversed(state.stack.items()):
            if value is not None and value in _UNCHANGED:
                rules[value.base] = Rule(How.OFFSET, address.offset)
        if LINK not in rules and (not is_exact or state.registers.get(LINK) != RegisterValue(LINK, 0)):
            return None
        for register in (SP, THUMB_FP, ARM_FP):
            value = state.registers.get(register)
            if value is not None and value.base == SP and not value.loaded:
                return CfiRow(goal, Cfa(register, -value.offset), rules)
        return None

    def to_return(self, start: int, is_exact: bool) -> Iterator[CfiRow]:
        """Yield a row for each path from `start` to a return, nearest first."""
        count = 0
        for _, instruction, state in self.walk(start, 0, 1 << 32, -1):
            if instruction.kind is ArmKind.POP:
                state.load(instruction.registers, 0)
                state.registers[LINK] = state.registers[PC]
                state.registers[SP] = state.plus(SP, instruction.number)
            cfa, link = state.registers.get(SP), state.registers.get(LINK)
            if cfa is None or link is None:
                continue
            rules = dict[int, Rule]()
            if link.loaded and link.base == cfa.base:
                rules[LINK] = Rule(How.OFFSET, link.offset - cfa.offset)
            elif not is_exact or link != RegisterValue(LINK, 0):
                continue
            for register in CALLEE_SAVED:
                value = state.registers.get(register)
                if value is not None and value.loaded and value.base == cfa.base:
                    rules[register] = Rule(How.OFFSET, value.offset - cfa.offset)
                elif value != RegisterValue(register, 0):
                    rules[register] = Rule(How.UNDEFINED)
            yield CfiRow(start, Cfa(cfa.base, cfa.offset), rules)
            count += 1
            if count >= RETURNS_LIMIT:
                return

    def is_frameless(self, start: int, end: int) -> bool:
        """Return True if no instruction in [start, end) saves the return address."""
        try:
            while start < end:
                instruction = self.decode(start)
                if instruction.kind is ArmKind.PUSH and LINK in instruction.registers:
                    return False
                start += instruction.size
        except LookupError:
            return False
        return True

    def walk(self, address: int, start: int, end: int, goal: int) -> Iterator[tuple[int, ArmInstruction, ArmState]]:
        """Yield each return reached in [start, end), or only `goal` if it is not -1, with the state before it."""
        pending, seen = [(address, ArmState())], set[int]()
        for _ in range(INSTRUCTIONS_LIMIT):
            if not pending:
                return
            address, state = pending.pop()
            # a call that does not return can be the last instruction
            if address in seen or not (start <= address < end or address == goal):
                continue
            seen.add(address)
            if address == goal:
                yield address, ArmInstruction(0, ArmKind.OTHER), state
                return
            try:
                instruction = self.decode(address)
            except LookupError:
                continue
            conditional = instruction.conditional or state.conditional > 0
            state.conditional = max(0, state.conditional - 1)
            kind, after = instruction.kind, address + instruction.size
            if kind is ArmKind.RETURN or (kind is ArmKind.POP and PC in instruction.registers):
                if goal < 0:
                    yield address, instruction, state.copy()
                if not conditional:
                    continue
            elif kind in (ArmKind.JUMP, ArmKind.BRANCH):
                pending.append((after, state.copy()))
                if kind is ArmKind.JUMP and not conditional:
                    pending.pop()
                pending.append((instruction.number, state))
                continue
            elif kind is ArmKind.STOP and not conditional:
                continue
            elif not conditional or kind is ArmKind.CALL:
                self.follow(instruction, state)
            pending.append((after, state))

    def follow(self, instruction: ArmInstruction, state: ArmState) -> None:
        """Apply an instruction to `state`."""
        _, kind, number, changed, base, _ = instruction
        registers = state.registers
        if kind is ArmKind.ADD:
            registers[changed[0]] = state.plus(base, number)
        elif kind is ArmKind.CONSTANT:
            registers[changed[0]] = RegisterValue(-1, number)
        elif kind is ArmKind.ADD_REGISTER:
            other = registers.get(changed[1])
            is_known = other is not None and other.base < 0
            registers[changed[0]] = state.plus(base, number * other.offset) if other and is_known else None
        elif kind is ArmKind.PUSH:
            state.store(changed, -number)
            registers[SP] = state.plus(SP, -number)
        elif kind is ArmKind.POP:
            state.load(changed, 0)
            registers[SP] = state.plus(SP, number)
        elif kind is ArmKind.STORE and not state.has_called:  # later stores save other values than the caller's
            state.store(changed, number)
        elif kind is ArmKind.LOAD:
            state.load(changed, number)
        elif kind is ArmKind.IF_THEN:
            state.conditional = number
        elif kind is ArmKind.CALL:
            state.has_called = True
            registers.update(dict.fromkeys(CLOBBERED))

    def decode(self, address: int) -> ArmInstruction:
        """Return the instruction at an address. Raises LookupError if its bytes cannot be read."""
        if not self.is_thumb:
            return _a32(int.from_bytes(self.read(address, 4), "little"), address)
        first = self._half(address)
        if first >> 11 in (0b11101, 0b11110, 0b11111):
            return _thumb_32(first, self._half(address + 2), address)
        if first >> 11 == 0b01001:  # ldr from a literal pool
            literal = int.from_bytes(self.read((address & ~3) + 4 + ((first & 0xFF) << 2), 4), "little", signed=True)
            return ArmInstruction(2, ArmKind.CONSTANT, literal, (first >> 8 & 7,))
        return _thumb_16(first, address)

    def _half(self, address: int) -> int:
        return int.from_bytes(self.read(address, 2), "little")


_UNCHANGED = {RegisterValue(register, 0) for register in (*CALLEE_SAVED, LINK)}


def _extended(value: int, bits: int) -> int:
    """Sign-extend a number of `bits` bits."""
    return value - (1 << bits) if value >> bits - 1 & 1 else value


def _listed(mask: int) -> tuple[int, ...]:
    return tuple(number for number in range(16) if mask >> number & 1)


def _thumb_16(word: int, address: int) -> ArmInstruction:
    if word >> 9 == 0b1011010:
        registers = _listed(word & 0xFF | (word & 0x100) << 6)
        return ArmInstruction(2, ArmKind.PUSH, WORD * len(registers), registers)
    if word >> 9 == 0b1011110:
        registers = _listed(word & 0xFF | (word & 0x100) << 7)
        return ArmInstruction(2, ArmKind.POP, WORD * len(registers), registers)
    if word >> 8 == 0b10110000:
        distance = (word & 0x7F) << 2
        return ArmInstruction(2, ArmKind.ADD, -distance if word & 0x80 else distance, (SP,), SP)
    if word >> 11 == 0b10101:
        return ArmInstruction(2, ArmKind.ADD, (word & 0xFF) << 2, (word >> 8 & 7,), SP)
    if word >> 12 == 0b1001:
        kind = ArmKind.LOAD if word & 0x800 else ArmKind.STORE
        return ArmInstruction(2, kind, (word & 0xFF) << 2, (word >> 8 & 7,))
    if word >> 8 in (T16_ADD_ANY, T16_MOV_ANY):
        target, source = word & 7 | word >> 4 & 8, word >> 3 & 15
        if target == PC:
            return ArmInstruction(2, ArmKind.RETURN if word >> 8 == T16_MOV_ANY and source == LINK else ArmKind.STOP)
        if word >> 8 == T16_MOV_ANY:
            return ArmInstruction(2, ArmKind.ADD, 0, (target,), source)
        return ArmInstruction(2, ArmKind.ADD_REGISTER, 1, (target, source), target)
    if word >> 12 == 0b0011:  # add or subtract a number of 8 bits
        register = word >> 8 & 7
        return ArmInstruction(2, ArmKind.ADD, -(word & 0xFF) if word & 0x800 else word & 0xFF, (register,), register)
    if word >> 7 == 0b010001110:
        return ArmInstruction(2, ArmKind.RETURN if word >> 3 & 15 == LINK else ArmKind.STOP)
    if word >> 7 == 0b010001111:
        return ArmInstruction(2, ArmKind.CALL)
    if word >> 12 == 0b1101:
        if word >> 8 & 15 == 14:
            return ArmInstruction(2, ArmKind.STOP)  # undefined
        target = address + 4 + 2 * _extended(word & 0xFF, 8)
        return ArmInstruction(2, ArmKind.OTHER if word >> 8 & 15 == 15 else ArmKind.BRANCH, target)
    if word >> 11 == 0b11100:
        return ArmInstruction(2, ArmKind.JUMP, address + 4 + 2 * _extended(word & 0x7FF, 11))
    if word & 0xF500 == T16_COMPARE_BRANCH:  # cbz, cbnz
        return ArmInstruction(2, ArmKind.BRANCH, address + 4 + ((word >> 3 & 0x1F | word >> 4 & 0x20) << 1))
    if word >> 8 == T16_IF_THEN and word & 15:
        return ArmInstruction(2, ArmKind.IF_THEN, 4 - ((word & -word & 15).bit_length() - 1))
    return ArmInstruction(2, ArmKind.OTHER)


def _thumb_number(word: int) -> int:
    """Expand a 12-bit immediate (ThumbExpandImm)."""
    if word >> 10:
        shift = word >> 7
        value = 0x80 | word & 0x7F
        return (value >> shift | value << 32 - shift) & 0xFFFFFFFF
    byte = word & 0xFF
    return (byte, byte << 16 | byte, byte << 24 | byte << 8, byte * 0x01010101)[word >> 8 & 3]


def _thumb_32(first: int, second: int, address: int) -> ArmInstruction:
    if first == T32_PUSH:
        return ArmInstruction(4, ArmKind.PUSH, WORD * second.bit_count(), _listed(second))
    if first == T32_POP:
        return ArmInstruction(4, ArmKind.POP, WORD * second.bit_count(), _listed(second))
    target, number = second >> 12, second & 0xFF
    if first == T32_PUSH_ONE and second >> 8 & 15 == 0b1101:
        return ArmInstruction(4, ArmKind.PUSH, number, (target,))
    if first == T32_POP_ONE and second >> 8 & 15 == 0b1011:
        return ArmInstruction(4, ArmKind.POP, number, (target,))
    pair = (target, second >> 8 & 15)
    if first == T32_PUSH_TWO:
        return ArmInstruction(4, ArmKind.PUSH, number << 2, pair)
    if first == T32_POP_TWO:
        return ArmInstruction(4, ArmKind.POP, number << 2, pair)
    if first in (T32_STORE_TWO, T32_LOAD_TWO):
        return ArmInstruction(4, ArmKind.STORE if first == T32_STORE_TWO else ArmKind.LOAD, number << 2, pair)
    if first in (T32_STORE, T32_LOAD) and target != PC:
        return ArmInstruction(4, ArmKind.STORE if first == T32_STORE else ArmKind.LOAD, second & 0xFFF, (target,))
    if first & 0xFFBF in (T32_VPUSH, T32_VPOP):
        return ArmInstruction(4, ArmKind.ADD, -(number << 2) if first & 0xFFBF == T32_VPUSH else number << 2, (SP,), SP)
    register, base = second >> 8 & 15, first & 15
    bits = (first & 0x400) << 1 | second >> 4 & 0x700 | number
    operation = first & 0xFBE0
    if not second & 0x8000 and operation in (T32_ADD, T32_SUB):
        value = _thumb_number(bits)
        return ArmInstruction(4, ArmKind.ADD, value if operation == T32_ADD else -value, (register,), base)
    if not second & 0x8000 and first & 0xFBF0 in (T32_ADDW, T32_SUBW):
        return ArmInstruction(4, ArmKind.ADD, bits if first & 0xFBF0 == T32_ADDW else -bits, (register,), base)
    if not second & 0x8000 and first & 0xFBEF == T32_MOV:
        return ArmInstruction(4, ArmKind.CONSTANT, _thumb_number(bits), (register,))
    if not second & 0x8000 and first & 0xFBF0 == T32_MOVW:
        return ArmInstruction(4, ArmKind.CONSTANT, base << 12 | bits, (register,))
    if first & 0xFFE0 in (T32_ADD_REGISTER, T32_SUB_REGISTER) and SP in (register, base) and not second & 0x70F0:
        sign = 1 if first & 0xFFE0 == T32_ADD_REGISTER else -1
        return ArmInstruction(4, ArmKind.ADD_REGISTER, sign, (register, second & 15), base)
    if first & 0xFFE0 in (T32_ADD_REGISTER, T32_SUB_REGISTER) and register == SP:
        return ArmInstruction(4, ArmKind.ADD_REGISTER, 0, (SP, PC), SP)  # of a shifted register: not known
    if first == T32_TABLE and second & 0xFFE0 == T32_TABLE_SECOND:
        return ArmInstruction(4, ArmKind.STOP)
    if first & 0xFF70 == T32_LOAD_ANY and target == PC:
        return ArmInstruction(4, ArmKind.STOP)
    if first >> 11 == 0b11110 and second & 0x8000:
        return _thumb_branch(first, second, address)
    return ArmInstruction(4, ArmKind.OTHER)


def _thumb_branch(first: int, second: int, address: int) -> ArmInstruction:
    if second & 0xC000 == T32_CALL_SECOND:
        return ArmInstruction(4, ArmKind.CALL)
    sign, j1, j2 = first >> 10 & 1, second >> 13 & 1, second >> 11 & 1
    if second & 0x1000:
        high = sign << 24 | (1 ^ j1 ^ sign) << 23 | (1 ^ j2 ^ sign) << 22
        return ArmInstruction(
            4, ArmKind.JUMP, address + 4 + _extended(high | (first & 0x3FF) << 12 | (second & 0x7FF) << 1, 25)
        )
    if first >> 6 & 15 >= ALWAYS:  # barriers, system registers
        return ArmInstruction(4, ArmKind.STOP if first & 0xFFF0 == T32_UNDEFINED else ArmKind.OTHER)
    distance = sign << 20 | j2 << 19 | j1 << 18 | (first & 0x3F) << 12 | (second & 0x7FF) << 1
    return ArmInstruction(4, ArmKind.BRANCH, address + 4 + _extended(distance, 21))


def _a32(word: int, address: int) -> ArmInstruction:
    condition, code = word >> 28, word & 0x0FFFFFFF
    if condition == 15:
        return ArmInstruction(4, ArmKind.CALL if code >> 25 == 0b101 else ArmKind.OTHER)
    instruction = _a32_always(code, address)
    if condition == ALWAYS:
        return instruction
    if instruction.kind is ArmKind.JUMP:
        return instruction._replace(kind=ArmKind.BRANCH)
    return instruction._replace(conditional=True)


def _a32_always(code: int, address: int) -> ArmInstruction:
    base, target, low = code >> 16 & 15, code >> 12 & 15, code & 0xFFF
    if code >> 16 in (A32_PUSH, A32_POP):
        registers = _listed(code & 0xFFFF)
        return ArmInstruction(
            4, ArmKind.PUSH if code >> 16 == A32_PUSH else ArmKind.POP, WORD * len(registers), registers
        )
    if code >> 16 in (A32_PUSH_ONE, A32_POP_ONE):
        return ArmInstruction(4, ArmKind.PUSH if code >> 16 == A32_PUSH_ONE else ArmKind.POP, low, (target,))
    if code >> 16 in (A32_STORE, A32_LOAD) and target != PC:
        return ArmInstruction(4, ArmKind.STORE if code >> 16 == A32_STORE else ArmKind.LOAD, low, (target,))
    if code & 0x0FBF0E00 in (A32_VPUSH, A32_VPOP):
        size = (code & 0xFF) << 2
        return ArmInstruction(4, ArmKind.ADD, -size if code & 0x0FBF0E00 == A32_VPUSH else size, (SP,), SP)
    if code >> 21 in (0b0010100, 0b0010010):  # add, sub
        value, turn = low & 0xFF, low >> 8 << 1
        value = (value >> turn | value << 32 - turn) & 0xFFFFFFFF
        return ArmInstruction(4, ArmKind.ADD, value if code >> 21 == 0b0010100 else -value, (target,), base)
    if code >> 21 in (0b0000100, 0b0000010) and target == SP:
        return ArmInstruction(4, ArmKind.ADD_REGISTER, 0, (SP, PC), SP)
    if code & 0x0FFF0FF0 == A32_MOV and target != PC:
        return ArmInstruction(4, ArmKind.ADD, 0, (target,), code & 15)
    if code & 0x0FFFFFF0 in (A32_BX, A32_MOV_PC):
        return ArmInstruction(4, ArmKind.RETURN if code & 15 == LINK else ArmKind.STOP)
    if code & 0x0FFFFFF0 == A32_BLX or code >> 24 == A32_CALL:
        return ArmInstruction(4, ArmKind.CALL)
    if code >> 24 == A32_JUMP:
        return ArmInstruction(4, ArmKind.JUMP, address + 8 + 4 * _extended(code & 0xFFFFFF, 24))
    if code >> 26 in (0, 1) and target == PC and code >> 23 & 31 != 2:
        return ArmInstruction(4, ArmKind.STOP)
    return ArmInstruction(4, ArmKind.OTHER)


def call_before(pc: int, read: Read) -> bool | None:
    """Return True if a Thumb call precedes the return address `pc`, False for an A32 call, None if neither does.

    Raises LookupError if the code cannot be read.
    """
    before = read(pc - 4, 4)
    first, second = int.from_bytes(before[:2], "little"), int.from_bytes(before[2:], "little")
    if (first >> 11 == 0b11110 and second >> 14 == 0b11) or second & 0xFF87 == T16_CALL_REGISTER:
        return True
    if not pc & 2 and _a32(int.from_bytes(before, "little"), pc - 4).kind is ArmKind.CALL:
        return False
    return None


def call_target(pc: int, read: Read) -> tuple[int, bool] | None:
    """Return the target of the direct call before `pc`, and True if the target is Thumb; None for other code."""
    try:
        is_thumb = call_before(pc, read)
        before = read(pc - 4, 4)
    except LookupError:
        return None
    if is_thumb is None:
        return None
    if not is_thumb:
        word = int.from_bytes(before, "little")
        if word >> 25 == 0b1111101:  # blx
            return pc + 4 + 4 * _extended(word & 0xFFFFFF, 24) + (word >> 23 & 2), True
        return (pc + 4 + 4 * _extended(word & 0xFFFFFF, 24), False) if word >> 24 & 15 == A32_CALL else None
    first, second = int.from_bytes(before[:2], "little"), int.from_bytes(before[2:], "little")
    if first >> 11 != 0b11110 or second >> 14 != 0b11:
        return None
    sign, j1, j2 = first >> 10 & 1, second >> 13 & 1, second >> 11 & 1
    high = sign << 24 | (1 ^ j1 ^ sign) << 23 | (1 ^ j2 ^ sign) << 22
    target = pc + _extended(high | (first & 0x3FF) << 12 | (second & 0x7FF) << 1, 25)
    return (target, True) if second & 0x1000 else (target & ~3, False)
