"""Read x86-64 and i386 code without call frame information, instruction by instruction.

    to_return   from an address to the function's returns: where the code on the way pops the return address and the
                saved registers from
    from_start  from a function's start to an address in it: what the code has pushed by then

Both return rows as call frame information has them. Only the stack pointer, registers saved on the stack and copies
between registers are modeled; both ways of a branch are followed. A call preserves the stack and the callee-saved
registers.

Reference: Intel's "Software Developer's Manual", volume 2, chapters 2 and 3 and appendix A.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import NamedTuple

from whence.unwind.cfi import Cfa, CfiRow, How, Rule
from whence.unwind.constants import Operation

INSTRUCTIONS_LIMIT = 500  # per walk
RETURNS_LIMIT = 8  # paths to a return per walk
CODE_BYTES = 16  # longer than any instruction

# DWARF register numbers by the numbers that instructions use
DWARF_64 = (0, 2, 1, 3, 7, 6, 4, 5, 8, 9, 10, 11, 12, 13, 14, 15)
DWARF_32 = tuple(range(8))
RETURN_COLUMNS = {64: 16, 32: 8}  # DWARF number of the return address
SP, BP, SIB_FOLLOWS = 4, 5, 4  # as instructions encode them
CALLEE_SAVED = frozenset((3, 5, 12, 13, 14, 15))  # rbx, rbp, r12 to r15
CALLEE_SAVED_32 = frozenset((3, 5, 6, 7))  # ebx, ebp, esi, edi


def _bytes(text: str) -> frozenset[int]:
    """Parse a set of opcodes: "0-3 8-b" is 0 to 3 and 8 to 0xb."""
    opcodes: set[int] = set()
    for item in text.split():
        first, _, last = item.partition("-")
        opcodes.update(range(int(first, 16), int(last or first, 16) + 1))
    return frozenset(opcodes)


# what follows a one-byte opcode; with _0F, an opcode of map 1 (0f, VEX, EVEX)
MODRM = _bytes("0-3 8-b 10-13 18-1b 20-23 28-2b 30-33 38-3b 63 69 6b 80-8f c0-c1 c6-c7 d0-d3 d8-df f6-f7 fe-ff")
BYTE = _bytes("4 c 14 1c 24 2c 34 3c 6a 6b 70-7f 80 82 83 a8 b0-b7 c0 c1 c6 cd d4 d5 e0-e7 eb")
WORD = _bytes("5 d 15 1d 25 2d 35 3d 68 69 81 a9 b8-bf c7 e8 e9")  # 4 bytes, or 2
NO_MODRM_0F = _bytes("5-9 b e 30-37 77 80-8f a0-a2 a8-aa c8-cf")
BYTE_0F = _bytes("f 70-73 a4 ac ba c2 c4-c6")
PREFIXES = _bytes("26 2e 36 3e 64-67 f0 f2 f3")
REX = range(0x40, 0x50)
ESCAPE, ESCAPE_38, ESCAPE_3A = 0x0F, 0x38, 0x3A
VEX_3, VEX_2, EVEX = 0xC4, 0xC5, 0x62
OPERAND_SIZE, ADDRESS_SIZE = 0x66, 0x67
MAP_1, MAP_2, MAP_3 = 1, 2, 3
TEST_GROUP = _bytes("f6 f7")  # only its first two operations have an immediate
REX_WIDE, MOVE_NUMBER = 8, range(0xB8, 0xC0)  # the immediate is as wide as the register
MOVE_OFFSETS = _bytes("a0-a3")
ENTER, RETURN_NEAR, RETURN_FAR = 0xC8, 0xC2, 0xCA

# opcodes with an effect on the state
PUSH, POP = range(0x50, 0x58), range(0x58, 0x60)
PUSH_NUMBER = _bytes("68 6a")
PUSH_FLAGS, POP_FLAGS = 0x9C, 0x9D
POP_MEMORY = 0x8F
GROUP_1 = _bytes("81 83")
ADD, AND, SUB = 0, 4, 5  # operations of group 1
GROUP_5, CALL_INDIRECT, JUMP_INDIRECT, PUSH_MEMORY = 0xFF, 2, 4, 6
STORE, LOAD, ADDRESS_OF = 0x89, 0x8B, 0x8D
ARITHMETIC_TO_RM = _bytes("1 9 11 19 21 29 31")
ARITHMETIC_TO_REGISTER = _bytes("3 b 13 1b 23 2b 33")
LEAVE, RETURN, CALL, JUMP, JUMP_SHORT = 0xC9, 0xC3, 0xE8, 0xE9, 0xEB
BRANCHES_SHORT, BRANCHES = _bytes("70-7f e0-e3"), range(0x80, 0x90)  # the second of two bytes
STOPS, STOPS_0F = _bytes("cc f4"), _bytes("b")  # int3, hlt, ud2
NOP, LONG_NOP = 0x90, 0x1F
ENDBR = (b"\xf3\x0f\x1e\xfa", b"\xf3\x0f\x1e\xfb")

UNKNOWN = Rule(How.UNDEFINED)

Read = Callable[[int, int], bytes]  # (address, size) -> code; raises LookupError if unreadable


class X86Instruction(NamedTuple):
    """A decoded instruction. `map` is 0 for one-byte opcodes, 1 for opcodes after 0f.

    `mod`, `reg` and `rm` are from the ModRM byte (-1 without one), extended to 4 bits. `base` is the register that a
    memory operand counts from, -1 for other addressing forms. `number` is the immediate.
    """

    size: int
    map: int
    opcode: int
    mod: int = -1
    reg: int = -1
    rm: int = -1
    base: int = -1
    displacement: int = 0
    number: int = 0


def sleb(value: int) -> bytes:
    """Encode a signed LEB128 number."""
    encoded = bytearray()
    while True:
        byte, value = value & 0x7F, value >> 7
        if value == (-1 if byte & 0x40 else 0):
            return bytes([*encoded, byte])
        encoded.append(byte | 0x80)


def decode(code: bytes, bits: int) -> X86Instruction | None:
    """Decode the instruction at the start of `code`; None if it is truncated or unknown."""
    try:
        return _decode(code, bits)
    except IndexError:
        return None


def _decode(code: bytes, bits: int) -> X86Instruction | None:
    offset, rex, operand = 0, 0, 4
    while code[offset] in PREFIXES:
        if code[offset] == ADDRESS_SIZE and bits == 32:
            return None
        operand = 2 if code[offset] == OPERAND_SIZE else operand
        offset += 1
    if bits == 64 and code[offset] in REX:
        rex = code[offset]
        offset += 1
    opcode, map_, is_vector = code[offset], 0, False
    offset += 1
    if opcode == ESCAPE:
        opcode, map_ = code[offset], MAP_1
        offset += 1
        if opcode in (ESCAPE_38, ESCAPE_3A):
            opcode, map_ = code[offset], MAP_2 if opcode == ESCAPE_38 else MAP_3
            offset += 1
    elif opcode in (VEX_3, VEX_2, EVEX) and (bits == 64 or code[offset] >> 6 == 3):
        is_vector = True
        map_ = MAP_1 if opcode == VEX_2 else code[offset] & (7 if opcode == EVEX else 0x1F)
        offset += {VEX_2: 1, VEX_3: 2, EVEX: 3}[opcode]
        opcode = code[offset]
        offset += 1
        if map_ not in (MAP_1, MAP_2, MAP_3):
            return None
    elif opcode in (VEX_3, VEX_2, EVEX):  # lds, les and bound of i386
        return None
    has_modrm = opcode in MODRM if not map_ else map_ != MAP_1 or opcode not in NO_MODRM_0F
    mod = reg = rm = base = -1
    displacement = number = 0
    if has_modrm:
        byte = code[offset]
        offset += 1
        mod, reg, rm = byte >> 6, byte >> 3 & 7 | (rex & 4) << 1, byte & 7 | (rex & 1) << 3
        if mod != 3:
            base = rm
            if byte & 7 == SIB_FOLLOWS:
                sib = code[offset]
                offset += 1
                base = sib & 7 | (rex & 1) << 3 if (sib >> 3 & 7 | (rex & 2) << 2) == SP else -1
                if mod == 0 and sib & 7 == BP:
                    base, mod = -1, 2
            elif mod == 0 and byte & 7 == BP:
                base, mod = -1, 2
            size = (0, 1, 4)[mod]
            displacement = int.from_bytes(code[offset : offset + size], "little", signed=True)
            offset += size
            mod = 0
    size = 0
    if map_ == 0:
        if opcode in BYTE:
            size = 1
        elif opcode in WORD:
            size = 8 if rex & REX_WIDE and opcode in MOVE_NUMBER else 4 if opcode in (CALL, JUMP) else operand
        elif opcode in TEST_GROUP and reg & 7 < 2:
            size = 1 if opcode == min(TEST_GROUP) else operand
        elif opcode in MOVE_OFFSETS:
            size = bits // 8
        elif opcode in (RETURN_NEAR, RETURN_FAR):
            size = 2
        elif opcode == ENTER:
            size = 3
    elif map_ == MAP_1:
        size = 4 if opcode in BRANCHES and not is_vector else 1 if opcode in BYTE_0F else 0
    elif map_ == MAP_3:
        size = 1
    number = int.from_bytes(code[offset : offset + size], "little", signed=True)
    offset += size
    if offset > len(code):
        return None
    if map_ == 0 and (opcode in PUSH or opcode in POP):
        reg = opcode & 7 | (rex & 1) << 3
    return X86Instruction(offset, map_ | is_vector << 4, opcode, mod, reg, rm, base, displacement, number)


class Value(NamedTuple):
    """The initial value of register `base` plus an offset, or the word at address `base` plus an offset."""

    base: int | Value
    offset: int

    def plus(self, distance: int) -> Value:
        return Value(self.base, self.offset + distance)


class X86State:
    """Registers, and words of the stack by address; None and missing entries are unknown."""

    def __init__(self, registers: dict[int, Value | None], stack: dict[Value, Value | None]) -> None:
        self.registers, self.stack = registers, stack

    def copy(self) -> X86State:
        return X86State(dict(self.registers), dict(self.stack))

    def address_of(self, register: int, displacement: int = 0) -> Value | None:
        """Return the value of a register plus `displacement`, None if unknown."""
        value = self.registers.get(register)
        return None if value is None else value.plus(displacement)

    def load(self, address: Value | None) -> Value | None:
        """Return the word at `address`: what was stored there, else a reference to the initial word."""
        if address is None:
            return None
        if address in self.stack:
            return self.stack[address]
        return Value(address, 0) if isinstance(address.base, int) or isinstance(address.base.base, int) else None

    def move_sp(self, distance: int) -> None:
        self.registers[SP] = self.address_of(SP, distance)

    def push(self, value: Value | None, word: int) -> None:
        self.move_sp(-word)
        address = self.address_of(SP)
        if address is not None:
            self.stack[address] = value

    def pop(self, word: int) -> Value | None:
        value = self.load(self.address_of(SP))
        self.move_sp(word)
        return value


class CodePath:
    """Walks x86-64 or i386 code along every path until it reaches a goal or returns."""

    def __init__(self, bits: int, read: Read) -> None:
        self.bits, self.word, self.read = bits, bits // 8, read
        self.dwarf = DWARF_64 if bits == 64 else DWARF_32
        self.callee_saved = CALLEE_SAVED if bits == 64 else CALLEE_SAVED_32
        self.return_column = RETURN_COLUMNS[bits]

    def to_return(self, start: int) -> list[CfiRow]:
        """Return a row for each path from `start` to a return, nearest first."""
        rows: list[CfiRow] = []
        for instruction, state in self.walk(start):
            row = self.row(start, state, instruction)
            if row is not None and row not in rows:
                rows.append(row)
            if len(rows) >= RETURNS_LIMIT:
                break
        return rows

    def from_start(self, start: int, goal: int) -> CfiRow | None:
        """Return the row at `goal` in the function that starts at `start`; None if no path leads there."""
        reached = next((state for _, state in self.walk(start, goal)), None)
        sp = None if reached is None else reached.address_of(SP)
        if reached is None or sp is None or sp.base != SP:
            return None
        rules = {self.return_column: Rule(How.OFFSET, -self.word)}
        for address, value in reached.stack.items():
            if address.base == SP and value is not None and value.base in self.callee_saved and not value.offset:
                rules.setdefault(self.dwarf[value.base], Rule(How.OFFSET, address.offset - self.word))
        return CfiRow(goal, Cfa(self.dwarf[SP], self.word - sp.offset), rules)

    def leads_to(self, start: int, goal: int) -> bool:
        """Return True if a path leads from `start` to `goal`."""
        return any(True for _ in self.walk(start, goal))

    def row(self, start: int, state: X86State, instruction: X86Instruction) -> CfiRow | None:
        """Return the row at `start`, given the state at a return; None if the return address is unknown."""
        sp = state.address_of(SP)
        if sp is None:
            return None
        cfa = sp.plus(self.word + (instruction.number & 0xFFFF if instruction.opcode == RETURN_NEAR else 0))
        values = {self.return_column: state.load(sp)}
        values |= {self.dwarf[register]: state.registers.get(register) for register in sorted(self.callee_saved)}
        rules = {}
        for register, value in values.items():
            if value is None or value.offset:
                rules[register] = UNKNOWN
            elif not isinstance(value.base, int):
                rules[register] = self.saved(value.base, cfa)
            elif self.dwarf[value.base] != register:
                rules[register] = UNKNOWN
        if rules.get(self.return_column, UNKNOWN) is UNKNOWN:
            return None
        if isinstance(cfa.base, int):
            return CfiRow(start, Cfa(self.dwarf[cfa.base], cfa.offset), rules)
        address = self.expression(cfa.base)
        if not address:
            return None
        added = bytes([Operation.DEREF, Operation.CONSTS]) + sleb(cfa.offset) + bytes([Operation.PLUS])
        return CfiRow(start, Cfa(0, 0, address + added), rules)

    def saved(self, address: Value, cfa: Value) -> Rule:
        """Return the rule of a register saved at `address`."""
        if address.base == cfa.base:
            return Rule(How.OFFSET, address.offset - cfa.offset)
        expression = self.expression(address)
        return Rule(How.EXPRESSION, 0, expression) if expression else UNKNOWN

    def expression(self, address: Value) -> bytes:
        """Return `address` as a DWARF expression if it counts from a register, else b""."""
        if not isinstance(address.base, int):
            return b""
        return bytes([Operation.BREG0 + self.dwarf[address.base]]) + sleb(address.offset)

    def walk(self, start: int, goal: int = -1) -> Iterator[tuple[X86Instruction, X86State]]:
        """Yield each return reached, or only `goal` if it is not -1, with the state before it."""
        first = X86State({number: Value(number, 0) for number in range(len(self.dwarf))}, {})
        pending = [(start, first, False)]
        seen: set[int] = set()
        for _ in range(INSTRUCTIONS_LIMIT):
            if not pending:
                return
            address, state, after_call = pending.pop()
            if address in seen:
                continue
            seen.add(address)
            code = self.code(address)
            instruction = decode(code, self.bits)
            if instruction is None:
                continue
            opcode, end = instruction.opcode, address + instruction.size
            is_return = instruction.map == 0 and opcode in (RETURN, RETURN_NEAR)
            if address == goal or (is_return and goal < 0):
                yield instruction, state
            if address == goal or is_return or self.stops(instruction):
                continue
            if address != start and self.begins_function(code, instruction, after_call):
                continue
            target = self.target(instruction, end)
            if target is not None and not instruction.map and opcode in (JUMP, JUMP_SHORT):
                pending.append((target, state, False))
                continue
            if target is not None:
                pending.append((target, state.copy(), False))
            called = self.follow(instruction, state) or (after_call and self.is_padding(instruction))
            pending.append((end, state, called))

    def code(self, address: int) -> bytes:
        for size in range(CODE_BYTES, 0, -1):  # fewer where readable code ends
            try:
                return self.read(address, size)
            except LookupError:
                continue
        return b""

    def begins_function(self, code: bytes, instruction: X86Instruction, after_call: bool) -> bool:
        """Return True if code after a call starts another function, so that the call does not return."""
        if not after_call or instruction.map:
            return after_call and code.startswith(ENDBR)
        pushes = instruction.opcode in PUSH and instruction.reg in self.callee_saved and self.bits == 64
        return pushes or (self.is_on_sp(instruction, SUB) and self.bits == 64)

    @staticmethod
    def is_on_sp(instruction: X86Instruction, operation: int) -> bool:
        """Return True if an instruction applies `operation` of group 1 to the stack pointer."""
        return (
            instruction.opcode in GROUP_1
            and instruction.mod == 3
            and instruction.rm == SP
            and instruction.reg & 7 == operation
        )

    @staticmethod
    def is_padding(instruction: X86Instruction) -> bool:
        return (instruction.map, instruction.opcode) in ((0, NOP), (MAP_1, LONG_NOP))

    @staticmethod
    def stops(instruction: X86Instruction) -> bool:
        opcode = instruction.opcode
        if instruction.map == 0:
            jumps = opcode == GROUP_5 and instruction.reg & 7 in (JUMP_INDIRECT, JUMP_INDIRECT + 1)
            return jumps or opcode in STOPS or opcode in (RETURN_FAR, RETURN_FAR + 1, ENTER)
        return instruction.map == MAP_1 and opcode in STOPS_0F

    @staticmethod
    def target(instruction: X86Instruction, end: int) -> int | None:
        """Return the target of a direct jump or branch, None for other instructions."""
        opcode = instruction.opcode
        if instruction.map == 0:
            jumps = opcode in BRANCHES_SHORT or opcode in (JUMP, JUMP_SHORT)
        else:
            jumps = instruction.map == MAP_1 and opcode in BRANCHES
        return end + instruction.number if jumps else None

    def follow(self, instruction: X86Instruction, state: X86State) -> bool:
        """Apply an instruction to `state`. Returns True for a call."""
        _, map_, opcode, mod, reg, rm, base, displacement, number = instruction
        registers, word = state.registers, self.word
        if map_:
            return False
        if opcode in PUSH:
            state.push(registers.get(reg), word)
        elif opcode in POP:
            registers[reg] = state.pop(word)
        elif opcode in PUSH_NUMBER or opcode == PUSH_FLAGS or (opcode == GROUP_5 and reg & 7 == PUSH_MEMORY):
            state.push(None, word)
        elif opcode in (POP_FLAGS, POP_MEMORY):
            state.pop(word)
        elif self.is_on_sp(instruction, ADD):
            state.move_sp(number)
        elif self.is_on_sp(instruction, SUB):
            state.move_sp(-number)
        elif opcode == LEAVE:
            registers[SP] = registers.get(BP)
            registers[BP] = state.pop(word)
        elif opcode == STORE and mod == 3:
            registers[rm] = registers.get(reg)
        elif opcode == LOAD and mod == 3:
            registers[reg] = registers.get(rm)
        elif opcode == STORE:
            address = state.address_of(base, displacement) if base >= 0 else None
            if address is not None:
                state.stack[address] = registers.get(reg)
        elif opcode == LOAD:
            address = state.address_of(base, displacement) if base >= 0 else None
            if address is not None or reg not in self.callee_saved:
                registers[reg] = state.load(address)
        elif opcode == ADDRESS_OF:
            address = state.address_of(base, displacement) if base >= 0 else None
            if address is not None or reg == SP:
                registers[reg] = None if address is None else Value(*address)
        elif opcode == CALL and not number:  # of the next instruction: pushes its address
            state.push(None, word)
        elif opcode == CALL or (opcode == GROUP_5 and reg & 7 == CALL_INDIRECT):
            for register in registers:
                if register not in self.callee_saved and register != SP:
                    registers[register] = None
            return True
        elif mod == 3:
            changed = reg if opcode in ARITHMETIC_TO_REGISTER else rm
            if changed == SP and opcode in ARITHMETIC_TO_REGISTER | ARITHMETIC_TO_RM | GROUP_1:
                registers[SP] = None
        return False
