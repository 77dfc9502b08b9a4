"""Code of 32-bit ARM without tables, read instruction by instruction: A32, and Thumb with 16 and 32 bits.

    from_start  from a function's start to a place in it: what the instructions have put on the stack by then
    to_return   from a place to the function's returns: what the instructions take off the stack

Both make rows as call frame information has them. Only instructions that move the stack pointer or a frame pointer,
push, pop, branch or return are followed; a conditional branch is followed both ways.

Document: "Arm Architecture Reference Manual", ARMv7-A edition, chapters A6 (Thumb) and A8.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator
from typing import NamedTuple

from whence.unwind.cfi import Cfa, CfiRow, How, Rule

INSTRUCTIONS_LIMIT = 2000  # for one place
RETURNS_LIMIT = 8
WORD = 4
THUMB_FP, ARM_FP, SP, LINK, PC = 7, 11, 13, 14, 15
CALLEE_SAVED = range(4, 12)
CLOBBERED = (0, 1, 2, 3, 12, LINK)  # by a call
ALWAYS = 14  # the condition that always holds

Read = Callable[[int, int], bytes]  # bytes of code; LookupError where there are none


class Kind(enum.Enum):
    """What an instruction does, as far as it matters here."""

    OTHER = enum.auto()
    ADD = enum.auto()  # register = base + number
    ADD_REGISTER = enum.auto()  # register = base + number * another register
    CONSTANT = enum.auto()
    PUSH = enum.auto()  # the stack pointer moves by number, then the registers are stored from there on
    POP = enum.auto()  # the registers are loaded, then the stack pointer moves by number
    STORE = enum.auto()  # the registers, number bytes from the stack pointer
    LOAD = enum.auto()
    CALL = enum.auto()
    JUMP = enum.auto()
    BRANCH = enum.auto()
    RETURN = enum.auto()
    STOP = enum.auto()
    IF_THEN = enum.auto()  # the next instructions are conditional, as many as number says


class Instruction(NamedTuple):
    """An instruction. `number` is a distance, a constant, or the target of a jump or branch."""

    size: int
    kind: Kind
    number: int = 0
    registers: tuple[int, ...] = ()
    base: int = -1
    conditional: bool = False


class Place(NamedTuple):
    """What a register had at first, plus an offset; base -1: a constant. `loaded`: the word at that address."""

    base: int
    offset: int
    loaded: bool = False


class State:
    """Registers, and words of the stack by address, as far as they are known."""

    def __init__(self) -> None:
        self.registers: dict[int, Place | None] = {number: Place(number, 0) for number in range(PC)}
        self.stack: dict[Place, Place | None] = {}
        self.conditional = 0  # instructions of an IT block that are left
        self.has_called = False

    def copy(self) -> State:
        found = State()
        found.registers, found.stack = dict(self.registers), dict(self.stack)
        found.conditional, found.has_called = self.conditional, self.has_called
        return found

    def plus(self, register: int, distance: int) -> Place | None:
        place = self.registers.get(register)
        return None if place is None or place.loaded else place._replace(offset=place.offset + distance)

    def store(self, registers: tuple[int, ...], distance: int) -> None:
        for index, register in enumerate(registers):
            place = self.plus(SP, distance + WORD * index)
            if place is not None:
                self.stack[place] = self.registers.get(register)

    def load(self, registers: tuple[int, ...], distance: int) -> None:
        values = []
        for index in range(len(registers)):
            place = self.plus(SP, distance + WORD * index)
            values.append(None if place is None else self.stack.get(place, place._replace(loaded=True)))
        self.registers.update(zip(registers, values, strict=True))


class ArmPath:
    """Walks code of one instruction set from a place on, all ways, until a goal or returns are found."""

    def __init__(self, read: Read, is_thumb: bool) -> None:
        self.read, self.is_thumb = read, is_thumb

    def from_start(self, start: int, end: int, goal: int, is_exact: bool) -> CfiRow | None:
        """The row at a place of the function [start, end); None where no way leads there, or the caller is not known.

        `is_exact`: the thread is at that place; else it is in a call that returns there.
        """
        state = next((state for at, _, state in self.walk(start, start, end, goal) if at == goal), None)
        if state is None:
            return None
        rules: dict[int, Rule] = {}
        saved = {value.base: place for place, value in reversed(state.stack.items()) if value in _UNCHANGED}
        for register, place in saved.items():
            rules[register] = Rule(How.OFFSET, place.offset)
        if LINK not in rules and (not is_exact or state.registers.get(LINK) != Place(LINK, 0)):
            return None
        for register in (SP, THUMB_FP, ARM_FP):
            value = state.registers.get(register)
            if value is not None and value.base == SP and not value.loaded:
                return CfiRow(goal, Cfa(register, -value.offset), rules)
        return None

    def to_return(self, start: int, is_exact: bool) -> Iterator[CfiRow]:
        """A row for each way that leads from a place to a return, the nearest first."""
        count = 0
        for _, instruction, state in self.walk(start, 0, 1 << 32, -1):
            if instruction.kind is Kind.POP:
                state.load(instruction.registers, 0)
                state.registers[LINK] = state.registers[PC]
                state.registers[SP] = state.plus(SP, instruction.number)
            cfa, link = state.registers.get(SP), state.registers.get(LINK)
            if cfa is None or link is None:
                continue
            rules = dict[int, Rule]()
            if link.loaded and link.base == cfa.base:
                rules[LINK] = Rule(How.OFFSET, link.offset - cfa.offset)
            elif not is_exact or link != Place(LINK, 0):
                continue
            for register in CALLEE_SAVED:
                value = state.registers.get(register)
                if value is not None and value.loaded and value.base == cfa.base:
                    rules[register] = Rule(How.OFFSET, value.offset - cfa.offset)
                elif value != Place(register, 0):
                    rules[register] = Rule(How.UNDEFINED)
            yield CfiRow(start, Cfa(cfa.base, cfa.offset), rules)
            count += 1
            if count >= RETURNS_LIMIT:
                return

    def is_frameless(self, start: int, end: int) -> bool:
        """Whether no instruction in [start, end) keeps the return address, as a function that is called would."""
        try:
            while start < end:
                instruction = self.decode(start)
                if instruction.kind is Kind.PUSH and LINK in instruction.registers:
                    return False
                start += instruction.size
        except LookupError:
            return False
        return True

    def walk(self, at: int, start: int, end: int, goal: int) -> Iterator[tuple[int, Instruction, State]]:
        """Each return in [start, end) that is met (with a goal: only that), and the state before it."""
        waiting, seen = [(at, State())], set[int]()
        for _ in range(INSTRUCTIONS_LIMIT):
            if not waiting:
                return
            at, state = waiting.pop()
            if at in seen or not (start <= at < end or at == goal):  # a call that never returns can be the last
                continue
            seen.add(at)
            if at == goal:
                yield at, Instruction(0, Kind.OTHER), state
                return
            try:
                instruction = self.decode(at)
            except LookupError:
                continue
            conditional = instruction.conditional or state.conditional > 0
            state.conditional = max(0, state.conditional - 1)
            kind, after = instruction.kind, at + instruction.size
            if kind is Kind.RETURN or (kind is Kind.POP and PC in instruction.registers):
                if goal < 0:
                    yield at, instruction, state.copy()
                if not conditional:
                    continue
            elif kind in (Kind.JUMP, Kind.BRANCH):
                waiting.append((after, state.copy()))
                if kind is Kind.JUMP and not conditional:
                    waiting.pop()
                waiting.append((instruction.number, state))
                continue
            elif kind is Kind.STOP and not conditional:
                continue
            elif not conditional or kind is Kind.CALL:
                self.follow(instruction, state)
            waiting.append((after, state))

    def follow(self, instruction: Instruction, state: State) -> None:
        """Apply an instruction to a state."""
        _, kind, number, changed, base, _ = instruction
        registers = state.registers
        if kind is Kind.ADD:
            registers[changed[0]] = state.plus(base, number)
        elif kind is Kind.CONSTANT:
            registers[changed[0]] = Place(-1, number)
        elif kind is Kind.ADD_REGISTER:
            other = registers.get(changed[1])
            is_known = other is not None and other.base < 0
            registers[changed[0]] = state.plus(base, number * other.offset) if other and is_known else None
        elif kind is Kind.PUSH:
            state.store(changed, -number)
            registers[SP] = state.plus(SP, -number)
        elif kind is Kind.POP:
            state.load(changed, 0)
            registers[SP] = state.plus(SP, number)
        elif kind is Kind.STORE and not state.has_called:  # later ones keep other values than the caller's
            state.store(changed, number)
        elif kind is Kind.LOAD:
            state.load(changed, number)
        elif kind is Kind.IF_THEN:
            state.conditional = number
        elif kind is Kind.CALL:
            state.has_called = True
            registers.update(dict.fromkeys(CLOBBERED))

    # decoding

    def decode(self, at: int) -> Instruction:
        """The instruction at an address. Raises LookupError where there are no bytes."""
        if not self.is_thumb:
            return _a32(int.from_bytes(self.read(at, 4), "little"), at)
        first = self._half(at)
        if first >> 11 in (0b11101, 0b11110, 0b11111):
            return _thumb_32(first, self._half(at + 2), at)
        if first >> 11 == 0b01001:  # ldr from a literal pool
            place = (at & ~3) + 4 + ((first & 0xFF) << 2)
            return Instruction(2, Kind.CONSTANT, _signed(self.read(place, 4)), (first >> 8 & 7,))
        return _thumb_16(first, at)

    def _half(self, at: int) -> int:
        return int.from_bytes(self.read(at, 2), "little")


_UNCHANGED = {Place(register, 0) for register in (*CALLEE_SAVED, LINK)}


def _signed(data: bytes) -> int:
    return int.from_bytes(data, "little", signed=True)


def _extended(value: int, bits: int) -> int:
    """A signed number of some bits."""
    return value - (1 << bits) if value >> bits - 1 & 1 else value


def _listed(mask: int) -> tuple[int, ...]:
    return tuple(number for number in range(16) if mask >> number & 1)


def _thumb_16(word: int, at: int) -> Instruction:
    if word >> 9 == 0b1011010:
        registers = _listed(word & 0xFF | (word & 0x100) << 6)
        return Instruction(2, Kind.PUSH, WORD * len(registers), registers)
    if word >> 9 == 0b1011110:
        registers = _listed(word & 0xFF | (word & 0x100) << 7)
        return Instruction(2, Kind.POP, WORD * len(registers), registers)
    if word >> 8 == 0b10110000:
        distance = (word & 0x7F) << 2
        return Instruction(2, Kind.ADD, -distance if word & 0x80 else distance, (SP,), SP)
    if word >> 11 == 0b10101:
        return Instruction(2, Kind.ADD, (word & 0xFF) << 2, (word >> 8 & 7,), SP)
    if word >> 12 == 0b1001:
        kind = Kind.LOAD if word & 0x800 else Kind.STORE
        return Instruction(2, kind, (word & 0xFF) << 2, (word >> 8 & 7,))
    if word >> 8 in (0b01000100, 0b01000110):  # add and mov of any registers
        target, source = word & 7 | word >> 4 & 8, word >> 3 & 15
        if target == PC:
            return Instruction(2, Kind.RETURN if word >> 8 == 0x46 and source == LINK else Kind.STOP)
        if word >> 8 == 0b01000110:
            return Instruction(2, Kind.ADD, 0, (target,), source)
        return Instruction(2, Kind.ADD_REGISTER, 1, (target, source), target)
    if word >> 12 == 0b0011:  # add or subtract a number of 8 bits
        register = word >> 8 & 7
        return Instruction(2, Kind.ADD, -(word & 0xFF) if word & 0x800 else word & 0xFF, (register,), register)
    if word >> 7 == 0b010001110:
        return Instruction(2, Kind.RETURN if word >> 3 & 15 == LINK else Kind.STOP)
    if word >> 7 == 0b010001111:
        return Instruction(2, Kind.CALL)
    if word >> 12 == 0b1101:
        if word >> 8 & 15 == 14:
            return Instruction(2, Kind.STOP)  # undefined
        target = at + 4 + 2 * _extended(word & 0xFF, 8)
        return Instruction(2, Kind.OTHER if word >> 8 & 15 == 15 else Kind.BRANCH, target)
    if word >> 11 == 0b11100:
        return Instruction(2, Kind.JUMP, at + 4 + 2 * _extended(word & 0x7FF, 11))
    if word & 0xF500 == 0xB100:  # cbz, cbnz
        return Instruction(2, Kind.BRANCH, at + 4 + ((word >> 3 & 0x1F | word >> 4 & 0x20) << 1))
    if word >> 8 == 0xBF and word & 15:
        return Instruction(2, Kind.IF_THEN, 4 - ((word & -word & 15).bit_length() - 1))
    return Instruction(2, Kind.OTHER)


def _thumb_number(word: int) -> int:
    """ThumbExpandImm of 12 bits."""
    if word >> 10:
        shift = word >> 7
        value = 0x80 | word & 0x7F
        return (value >> shift | value << 32 - shift) & 0xFFFFFFFF
    byte = word & 0xFF
    return (byte, byte << 16 | byte, byte << 24 | byte << 8, byte * 0x01010101)[word >> 8 & 3]


def _thumb_32(first: int, second: int, at: int) -> Instruction:
    if first == 0xE92D:
        return Instruction(4, Kind.PUSH, WORD * second.bit_count(), _listed(second))
    if first == 0xE8BD:
        return Instruction(4, Kind.POP, WORD * second.bit_count(), _listed(second))
    target, number = second >> 12, second & 0xFF
    if first == 0xF84D and second >> 8 & 15 == 0b1101:
        return Instruction(4, Kind.PUSH, number, (target,))
    if first == 0xF85D and second >> 8 & 15 == 0b1011:
        return Instruction(4, Kind.POP, number, (target,))
    pair = (target, second >> 8 & 15)
    if first == 0xE96D:
        return Instruction(4, Kind.PUSH, number << 2, pair)
    if first == 0xE8FD:
        return Instruction(4, Kind.POP, number << 2, pair)
    if first in (0xE9CD, 0xE9DD):
        return Instruction(4, Kind.STORE if first == 0xE9CD else Kind.LOAD, number << 2, pair)
    if first in (0xF8CD, 0xF8DD) and target != PC:
        return Instruction(4, Kind.STORE if first == 0xF8CD else Kind.LOAD, second & 0xFFF, (target,))
    if first & 0xFFBF in (0xED2D, 0xECBD):  # vpush, vpop
        return Instruction(4, Kind.ADD, -(number << 2) if first & 0xFFBF == 0xED2D else number << 2, (SP,), SP)
    register, base = second >> 8 & 15, first & 15
    bits = (first & 0x400) << 1 | second >> 4 & 0x700 | number
    operation = first & 0xFBE0
    if not second & 0x8000 and operation in (0xF100, 0xF1A0):  # add, sub
        value = _thumb_number(bits)
        return Instruction(4, Kind.ADD, value if operation == 0xF100 else -value, (register,), base)
    if not second & 0x8000 and first & 0xFBF0 in (0xF200, 0xF2A0):  # addw, subw
        return Instruction(4, Kind.ADD, bits if first & 0xFBF0 == 0xF200 else -bits, (register,), base)
    if not second & 0x8000 and first & 0xFBEF == 0xF04F:  # mov
        return Instruction(4, Kind.CONSTANT, _thumb_number(bits), (register,))
    if not second & 0x8000 and first & 0xFBF0 == 0xF240:  # movw
        return Instruction(4, Kind.CONSTANT, base << 12 | bits, (register,))
    if first & 0xFFE0 in (0xEB00, 0xEBA0) and SP in (register, base) and not second & 0x70F0:
        sign = 1 if first & 0xFFE0 == 0xEB00 else -1
        return Instruction(4, Kind.ADD_REGISTER, sign, (register, second & 15), base)
    if first & 0xFFE0 in (0xEB00, 0xEBA0) and register == SP:
        return Instruction(4, Kind.ADD_REGISTER, 0, (SP, PC), SP)  # of a shifted register: not known
    if first == 0xE8DF and second & 0xFFE0 == 0xF000:  # a jump by a table
        return Instruction(4, Kind.STOP)
    if first & 0xFF70 == 0xF850 and target == PC:
        return Instruction(4, Kind.STOP)
    if first >> 11 == 0b11110 and second & 0x8000:
        return _thumb_branch(first, second, at)
    return Instruction(4, Kind.OTHER)


def _thumb_branch(first: int, second: int, at: int) -> Instruction:
    if second & 0xC000 == 0xC000:
        return Instruction(4, Kind.CALL)
    sign, one, two = first >> 10 & 1, second >> 13 & 1, second >> 11 & 1
    if second & 0x1000:
        high = sign << 24 | (1 ^ one ^ sign) << 23 | (1 ^ two ^ sign) << 22
        return Instruction(4, Kind.JUMP, at + 4 + _extended(high | (first & 0x3FF) << 12 | (second & 0x7FF) << 1, 25))
    if first >> 6 & 15 >= ALWAYS:  # barriers, system registers
        return Instruction(4, Kind.STOP if first & 0xFFF0 == 0xF7F0 else Kind.OTHER)
    distance = sign << 20 | two << 19 | one << 18 | (first & 0x3F) << 12 | (second & 0x7FF) << 1
    return Instruction(4, Kind.BRANCH, at + 4 + _extended(distance, 21))


def _a32(word: int, at: int) -> Instruction:
    condition, code = word >> 28, word & 0x0FFFFFFF
    if condition == 15:
        return Instruction(4, Kind.CALL if code >> 25 == 0b101 else Kind.OTHER)
    found = _a32_always(code, at)
    if condition == ALWAYS:
        return found
    if found.kind is Kind.JUMP:
        return found._replace(kind=Kind.BRANCH)
    return found._replace(conditional=True)


def _a32_always(code: int, at: int) -> Instruction:
    base, target, low = code >> 16 & 15, code >> 12 & 15, code & 0xFFF
    if code >> 16 in (0x92D, 0x8BD):
        registers = _listed(code & 0xFFFF)
        return Instruction(4, Kind.PUSH if code >> 16 == 0x92D else Kind.POP, WORD * len(registers), registers)
    if code >> 16 in (0x52D, 0x49D):
        return Instruction(4, Kind.PUSH if code >> 16 == 0x52D else Kind.POP, low, (target,))
    if code >> 16 in (0x58D, 0x59D) and target != PC:
        return Instruction(4, Kind.STORE if code >> 16 == 0x58D else Kind.LOAD, low, (target,))
    if code & 0x0FBF0E00 in (0x0D2D0A00, 0x0CBD0A00):
        size = (code & 0xFF) << 2
        return Instruction(4, Kind.ADD, -size if code & 0x0FBF0E00 == 0x0D2D0A00 else size, (SP,), SP)
    if code >> 21 in (0b0010100, 0b0010010):  # add, sub
        value, turn = low & 0xFF, low >> 8 << 1
        value = (value >> turn | value << 32 - turn) & 0xFFFFFFFF
        return Instruction(4, Kind.ADD, value if code >> 21 == 0b0010100 else -value, (target,), base)
    if code >> 21 in (0b0000100, 0b0000010) and target == SP:
        return Instruction(4, Kind.ADD_REGISTER, 0, (SP, PC), SP)
    if code & 0x0FFF0FF0 == 0x01A00000 and target != PC:
        return Instruction(4, Kind.ADD, 0, (target,), code & 15)
    if code & 0x0FFFFFF0 in (0x012FFF10, 0x01A0F000):  # bx, mov pc
        return Instruction(4, Kind.RETURN if code & 15 == LINK else Kind.STOP)
    if code & 0x0FFFFFF0 == 0x012FFF30 or code >> 24 == 0xB:
        return Instruction(4, Kind.CALL)
    if code >> 24 == 0xA:
        return Instruction(4, Kind.JUMP, at + 8 + 4 * _extended(code & 0xFFFFFF, 24))
    if code >> 26 in (0, 1) and target == PC and code >> 23 & 31 != 2:
        return Instruction(4, Kind.STOP)
    return Instruction(4, Kind.OTHER)


def call_before(pc: int, read: Read) -> bool | None:
    """Whether a call before a return address is Thumb's (True) or A32's (False); None where there is none.

    Raises LookupError where the code can't be read.
    """
    before = read(pc - 4, 4)
    first, second = int.from_bytes(before[:2], "little"), int.from_bytes(before[2:], "little")
    if (first >> 11 == 0b11110 and second >> 14 == 0b11) or second & 0xFF87 == 0x4780:
        return True
    if not pc & 2 and _a32(int.from_bytes(before, "little"), pc - 4).kind is Kind.CALL:
        return False
    return None


def call_target(pc: int, read: Read) -> tuple[int, bool] | None:
    """Where the direct call before a return address leads to, and whether that is Thumb; None for another one."""
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
        return (pc + 4 + 4 * _extended(word & 0xFFFFFF, 24), False) if word >> 24 & 15 == 0xB else None
    first, second = int.from_bytes(before[:2], "little"), int.from_bytes(before[2:], "little")
    if first >> 11 != 0b11110 or second >> 14 != 0b11:
        return None
    sign, one, two = first >> 10 & 1, second >> 13 & 1, second >> 11 & 1
    high = sign << 24 | (1 ^ one ^ sign) << 23 | (1 ^ two ^ sign) << 22
    target = pc + _extended(high | (first & 0x3FF) << 12 | (second & 0x7FF) << 1, 25)
    return (target, True) if second & 0x1000 else (target & ~3, False)
