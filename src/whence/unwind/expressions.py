"""Evaluate expressions of call frame information: a bounded stack machine (DWARF 5, sections 2.5.1 and 6.4.2).

Arithmetic is modulo 2^64 (2^32 on 32-bit machines); DW_OP_div, DW_OP_shra and comparisons are signed, as the standard
says. Only registers and memory are available: no calls and no pieces.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from whence._base.errors import DwarfError
from whence._base.window import Cursor
from whence.unwind.constants import Operation

if TYPE_CHECKING:
    from whence._base.window import ByteOrder
    from whence.unwind.memory import Memory

STACK_LIMIT = 64
STEP_LIMIT = 1000
PART = "CFI expression"

_CONSTANTS = {
    Operation.CONST1U: (1, False), Operation.CONST1S: (1, True), Operation.CONST2U: (2, False),
    Operation.CONST2S: (2, True), Operation.CONST4U: (4, False), Operation.CONST4S: (4, True),
    Operation.CONST8U: (8, False), Operation.CONST8S: (8, True),
}  # fmt: skip
ARITHMETIC: dict[int, Callable[[int, int], int]] = {
    Operation.AND: lambda a, b: a & b,
    Operation.OR: lambda a, b: a | b,
    Operation.XOR: lambda a, b: a ^ b,
    Operation.PLUS: lambda a, b: a + b,
    Operation.MINUS: lambda a, b: a - b,
    Operation.MUL: lambda a, b: a * b,
}
COMPARISONS: dict[int, Callable[[int, int], bool]] = {
    Operation.EQ: lambda a, b: a == b,
    Operation.GE: lambda a, b: a >= b,
    Operation.GT: lambda a, b: a > b,
    Operation.LE: lambda a, b: a <= b,
    Operation.LT: lambda a, b: a < b,
    Operation.NE: lambda a, b: a != b,
}


def evaluate(
    expression: bytes,
    registers: Mapping[int, int],
    memory: Memory,
    start: int | None = None,
    *,
    bits: int = 64,
    order: ByteOrder = "little",
) -> int:
    """Return the value on top of the stack after running `expression`.

    Args:
        registers: known values by DWARF number.
        start: pushed first, if given.

    Raises:
        DwarfError: the expression is invalid or needs a register whose value is unknown.
        LookupError: memory cannot be read.
    """
    machine = Evaluator(expression, registers, memory, bits, order)
    if start is not None:
        machine.push(start)
    return machine.run()


class Evaluator:
    """The stack machine of expressions. Subclasses add operations (`other`), and other sources of registers."""

    def __init__(
        self, expression: bytes, registers: Mapping[int, int], memory: Memory, bits: int, order: ByteOrder
    ) -> None:
        self.cursor = Cursor(expression, PART, order=order)
        self.registers, self.memory, self.bits, self.order = registers, memory, bits, order
        self.mask = (1 << bits) - 1
        self.stack: list[int] = []

    def push(self, value: int) -> None:
        if len(self.stack) >= STACK_LIMIT:
            raise DwarfError(PART, self.cursor.offset, f"the stack has more than {STACK_LIMIT} values")
        self.stack.append(value & self.mask)

    def pop(self) -> int:
        return self.peek(0, remove=True)

    def peek(self, depth: int, *, remove: bool = False) -> int:
        if depth >= len(self.stack):
            raise DwarfError(
                PART, self.cursor.offset, f"an operation needs more operands than the {len(self.stack)} on the stack"
            )
        return self.stack.pop(-1 - depth) if remove else self.stack[-1 - depth]

    def signed(self, value: int) -> int:
        return value - (1 << self.bits) if value >> self.bits - 1 else value

    def register(self, number: int) -> int:
        value = self.registers.get(number)
        if value is None:
            raise DwarfError(PART, self.cursor.offset, f"the value of register {number} is unknown")
        return value

    def load(self, size: int) -> int:
        return int.from_bytes(self.memory.read(self.pop(), size), self.order)

    def run(self) -> int:
        """Run the expression, and return the value on top of the stack."""
        self.run_all()
        return self.pop()

    def run_all(self) -> None:
        """Run the expression."""
        cursor = self.cursor
        steps = 0
        while cursor.offset < cursor.end:
            steps += 1
            if steps > STEP_LIMIT:
                raise DwarfError(PART, cursor.offset, f"the expression runs more than {STEP_LIMIT} operations")
            self.step(cursor.u8())

    def step(self, code: int) -> None:
        cursor, push, pop = self.cursor, self.push, self.pop
        if Operation.LIT0 <= code <= Operation.LIT31:
            push(code - Operation.LIT0)
        elif Operation.BREG0 <= code <= Operation.BREG31:
            push(self.register(code - Operation.BREG0) + cursor.sleb())
        elif Operation.REG0 <= code <= Operation.REG31:  # gcc's unwinder uses the register's value
            push(self.register(code - Operation.REG0))
        elif code in ARITHMETIC:
            second, first = pop(), pop()
            push(ARITHMETIC[code](first, second))
        elif code in COMPARISONS:
            second, first = self.signed(pop()), self.signed(pop())
            push(int(COMPARISONS[code](first, second)))
        elif code in _CONSTANTS:
            size, is_signed = _CONSTANTS[Operation(code)]
            push(cursor.signed(size) if is_signed else cursor.unsigned(size))
        elif code in (Operation.DIV, Operation.MOD):
            self.divide(code)
        elif code in (Operation.SHL, Operation.SHR, Operation.SHRA):
            self.shift(code)
        elif code in (Operation.BRA, Operation.SKIP):
            self.branch(code)
        else:
            self.other(code)

    def divide(self, code: int) -> None:
        second, first = self.pop(), self.pop()
        if not second:
            raise DwarfError(PART, self.cursor.offset, "division by zero")
        if code == Operation.MOD:  # unsigned
            self.push(first % second)
            return
        first, second = self.signed(first), self.signed(second)
        quotient = abs(first) // abs(second)
        self.push(-quotient if (first < 0) != (second < 0) else quotient)

    def shift(self, code: int) -> None:
        count, value = self.pop(), self.pop()
        count = min(count, self.bits)
        if code == Operation.SHL:
            self.push(value << count)
        else:
            self.push((self.signed(value) if code == Operation.SHRA else value) >> count)

    def branch(self, code: int) -> None:
        cursor = self.cursor
        distance = cursor.signed(2)
        if code == Operation.BRA and not self.pop():
            return
        target = cursor.offset + distance
        if not 0 <= target <= cursor.end:
            raise DwarfError(PART, cursor.offset, f"the branch target {target:#x} is outside the expression")
        cursor.offset = target

    def other(self, code: int) -> None:
        cursor, push, pop = self.cursor, self.push, self.pop
        if code == Operation.ADDR:
            push(cursor.unsigned(self.bits // 8))
        elif code == Operation.CONSTU:
            push(cursor.uleb())
        elif code == Operation.CONSTS:
            push(cursor.sleb())
        elif code == Operation.BREGX:
            register = cursor.uleb()
            push(self.register(register) + cursor.sleb())
        elif code == Operation.PLUS_UCONST:
            push(pop() + cursor.uleb())
        elif code == Operation.DEREF:
            push(self.load(self.bits // 8))
        elif code == Operation.DEREF_SIZE:
            size = cursor.u8()
            if not 1 <= size <= self.bits // 8:
                raise DwarfError(PART, cursor.offset - 1, f"invalid size {size} of DW_OP_deref_size")
            push(self.load(size))
        elif code == Operation.DUP:
            push(self.peek(0))
        elif code == Operation.DROP:
            pop()
        elif code == Operation.OVER:
            push(self.peek(1))
        elif code == Operation.PICK:
            push(self.peek(cursor.u8()))
        elif code == Operation.SWAP:
            push(self.peek(1, remove=True))
        elif code == Operation.ROT:  # moves the top below the next two
            first, second, third = pop(), pop(), pop()
            push(first)
            push(third)
            push(second)
        elif code == Operation.ABS:
            push(abs(self.signed(pop())))
        elif code == Operation.NEG:
            push(-pop())
        elif code == Operation.NOT:
            push(~pop())
        elif code != Operation.NOP:
            raise DwarfError(PART, cursor.offset - 1, f"operation {code:#x} is not allowed in call frame information")
