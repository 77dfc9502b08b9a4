"""Explain how each frame of a stack was found: the rule that led to its caller, as text.

    frame 0x4011c3: .eh_frame+0x90: an FDE of 0x4011b0 to 0x4011d8, its row from 0x4011b4: CFA = rsp+16,
                    return address = [CFA-8]

Vaddrs are the file's; expressions are written as readelf does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from whence._base.errors import DwarfError
from whence._base.window import Cursor
from whence.unwind.cfi import Cfa, CfiRow, Fde, How, Rule
from whence.unwind.constants import Operation
from whence.unwind.registers import Machine
from whence.unwind.steps import FoundBy, FrameStep, StackFrame, Unwound
from whence.unwind.unwinder import INNER_KEPT, UnwindCode, Unwinder

if TYPE_CHECKING:
    from whence._base.window import ByteOrder
    from whence.unwind.memory import Memory

RULES = {
    FoundBy.CALL: "the address is not code: the return address is where a call leaves it",
    FoundBy.INSTRUCTIONS: "no CFI: by what the instructions up to a return pop, or have pushed since the start of the "
    "function",
    FoundBy.PROLOGUE: "no CFI: by the instructions at the start or the end of a function",
    FoundBy.LEAF: "no CFI: a function that saved nothing, its return address after a call of it",
    FoundBy.BACK_CHAIN: "no CFI: by the back chain at the stack pointer, or the link register",
    FoundBy.FRAME_POINTER: "no CFI: by the frame record at the frame pointer",
}
GUESS = "; a guess: the first word on the stack that may be the return address"


class ExplainingUnwinder(Unwinder):
    """An unwinder that records the rule of each step in `rules`."""

    def __init__(
        self, machine: Machine, code: UnwindCode, memory: Memory, order: ByteOrder = "little", *, stored: int = 0
    ) -> None:
        super().__init__(machine, code, memory, order, stored=stored)
        self.rules: list[str] = []

    def step(self, frame: StackFrame, registers: dict[int, int]) -> FrameStep:
        self.rules.append(self.rule_of(frame))
        caller = super().step(frame, registers)
        if caller.found_by in RULES:
            self.rules[-1] = RULES[caller.found_by]
        return caller

    def scanned(self, frame: StackFrame, registers: dict[int, int]) -> FrameStep | None:
        caller = super().scanned(frame, registers)
        if caller is not None:
            self.rules[-1] += GUESS
        return caller

    def rule_of(self, frame: StackFrame) -> str:
        """Return how a frame is unwound, by signal trampolines and CFI."""
        index = self.trampoline(frame)
        if index is not None:
            form = self.machine.trampolines[index]
            return (
                f"the code {form.code.hex()} returns from a signal handler: the registers that the kernel saved at "
                f"{self.machine.names[self.machine.sp]}={frame.sp:#x}; the pc at +{form.pc_offset:#x}"
            )
        try:
            row = self.row_of(frame)
        except DwarfError as error:
            return f"damaged: {error}"
        if row is None:
            data = self.frame_data(frame)
            if data is not None and data.effective:
                return (
                    f"{data.source}+{data.offset:#x}: frame data of {data.start:#x} to {data.end:#x}, with "
                    f"{data.params} bytes of parameters, {data.saved} of saved registers, {data.local} of local "
                    f"variables: {data.effective.strip()}"
                )
            return f"no CFI for {frame.lookup:#x}: {self.code.why_not(frame.lookup)}"
        return row_text(self.machine, *row)


def rules_of(unwound: Unwound, rules: list[str]) -> list[str]:
    """Return a rule for each frame of a stack. The rule of the last frame says why it has no caller."""
    if unwound.skipped:
        rules = rules[:INNER_KEPT] + rules[INNER_KEPT + unwound.skipped :]
    return rules[: len(unwound.frames)] + [""] * (len(unwound.frames) - len(rules))


def row_text(machine: Machine, row: CfiRow, fde: Fde) -> str:
    """Format a row and its FDE."""
    signal = " of a signal handler's return" if fde.cie.signal else ""
    rules = ", ".join(rule_texts(machine, row, fde.cie.return_column))
    about = f"{fde.section}+{fde.offset:#x}: an FDE{signal} of {fde.start:#x} to {fde.end:#x}"
    return f"{about}, its row from {row.start:#x}: {rules}"


def rule_texts(machine: Machine, row: CfiRow, return_column: int) -> Iterator[str]:
    """Yield `CFA = rsp+16`, then the rule of each register."""
    yield f"CFA = {cfa_text(machine, row.cfa)}"
    rules = dict(row.rules)
    for number in [*sorted(rules.keys() - {return_column}), return_column]:
        name = "return address" if number == return_column else name_of(machine, number)
        rule = rules.get(number)
        if rule is not None:
            yield f"{name} {rule_text(machine, rule)}"
        elif number == return_column and machine.link is not None:
            yield f"{name} in {name_of(machine, number)}"


def cfa_text(machine: Machine, cfa: Cfa | None) -> str:
    if cfa is None:
        return "unknown"
    if cfa.expression is not None:
        return f"({expression_text(cfa.expression)})"
    return f"{name_of(machine, cfa.register)}{cfa.offset:+d}"


def rule_text(machine: Machine, rule: Rule) -> str:
    """Format a rule, without the register's name."""
    if rule.how is How.UNDEFINED:
        return "is undefined"
    if rule.how is How.SAME:
        return "is kept"
    if rule.how is How.REGISTER:
        return f"in {name_of(machine, rule.number)}"
    inner = f"({expression_text(rule.expression)})" if rule.expression else f"CFA{rule.number:+d}"
    return f"= {inner}" if rule.how in (How.VAL_OFFSET, How.VAL_EXPRESSION) else f"= [{inner}]"


def name_of(machine: Machine, number: int) -> str:
    return machine.names.get(number, f"r{number}")


_FIXED = {  # bytes of an operation's operand
    Operation.ADDR: 8, Operation.CONST1U: 1, Operation.CONST1S: 1, Operation.CONST2U: 2, Operation.CONST2S: 2,
    Operation.CONST4U: 4, Operation.CONST4S: 4, Operation.CONST8U: 8, Operation.CONST8S: 8, Operation.PICK: 1,
    Operation.DEREF_SIZE: 1, Operation.BRA: 2, Operation.SKIP: 2,
}  # fmt: skip
_SIGNED = {
    Operation.CONST1S, Operation.CONST2S, Operation.CONST4S, Operation.CONST8S, Operation.BRA, Operation.SKIP
}  # fmt: skip


def expression_text(expression: bytes) -> str:
    """Format an expression, operations separated by commas; the rest in hex if it cannot be decoded.

    >>> expression_text(bytes.fromhex("77088000"))
    'breg7+8, breg16+0'
    """
    cursor = Cursor(expression, "CFI expression")
    operations = []
    try:
        while cursor.offset < cursor.end:
            operations.append(_operation(cursor))
    except DwarfError:
        operations.append(f"damaged: {expression.hex()}")
    return ", ".join(operations)


def _operation(cursor: Cursor) -> str:
    code = cursor.u8()
    if Operation.LIT0 <= code <= Operation.LIT31:
        return f"lit{code - Operation.LIT0}"
    if Operation.REG0 <= code <= Operation.REG31:
        return f"reg{code - Operation.REG0}"
    if Operation.BREG0 <= code <= Operation.BREG31:
        return f"breg{code - Operation.BREG0}{cursor.sleb():+d}"
    try:
        operation = Operation(code)
    except ValueError:
        raise DwarfError("CFI expression", cursor.offset - 1, f"unknown operation {code:#x}") from None
    name = operation.name.lower()
    if operation is Operation.BREGX:
        return f"{name} {cursor.uleb()}{cursor.sleb():+d}"
    if operation in (Operation.CONSTU, Operation.PLUS_UCONST):
        return f"{name} {cursor.uleb()}"
    if operation is Operation.CONSTS:
        return f"{name} {cursor.sleb()}"
    if operation in _FIXED:
        size = _FIXED[operation]
        return f"{name} {cursor.signed(size) if operation in _SIGNED else cursor.unsigned(size)}"
    return name
