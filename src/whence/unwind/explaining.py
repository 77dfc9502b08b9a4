"""How each frame of a stack was found: the rule that led from it to its caller, in words.

    frame 0x4011c3: .eh_frame+0x90: an FDE of 0x4011b0 to 0x4011d8, its row from 0x4011b4: CFA = rsp+16,
                    return address = [CFA-8]

Vaddrs are those of the file; expressions are written as readelf does.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

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

WAYS = {
    FoundBy.CALL: "no code is there: the return address is where a call leaves it",
    FoundBy.INSTRUCTIONS: "no CFI: by what the instructions up to a return take off the stack, or have put there since "
    "the start of a function that a call leads to",
    FoundBy.PROLOGUE: "no CFI: by the instructions at the beginning or the end of a function",
    FoundBy.LEAF: "no CFI: a function that keeps nothing, its return address behind a call of it",
    FoundBy.BACK_CHAIN: "no CFI: by the word at the stack pointer, which is the caller's, or the link register",
    FoundBy.FRAME_POINTER: "no CFI: by the frame record at the frame pointer",
}


GUESS = "; a guess: the first word on the stack that may be the return address"


class Way(NamedTuple):
    """How the caller of a frame was found, in words; of the last frame, how it was looked for."""

    frame: StackFrame
    rule: str


class ExplainingUnwinder(Unwinder):
    """Notes how it went from each frame to the next in `ways`."""

    def __init__(
        self, machine: Machine, code: UnwindCode, memory: Memory, order: ByteOrder = "little", *, stored: int = 0
    ) -> None:
        super().__init__(machine, code, memory, order, stored=stored)
        self.ways: list[Way] = []

    def step(self, frame: StackFrame, registers: dict[int, int]) -> FrameStep:
        self.ways.append(Way(frame, self.searched(frame)))
        found = super().step(frame, registers)
        if found.found_by in WAYS:
            self.ways[-1] = Way(frame, WAYS[found.found_by])
        return found

    def scanned(self, frame: StackFrame, registers: dict[int, int]) -> FrameStep | None:
        found = super().scanned(frame, registers)
        if found is not None:
            self.ways[-1] = Way(frame, self.ways[-1].rule + GUESS)
        return found

    def searched(self, frame: StackFrame) -> str:
        """What says how to unwind a frame."""
        index = self.trampoline(frame)
        if index is not None:
            form = self.machine.trampolines[index]
            return (
                f"its bytes {form.code.hex()} return from a signal handler: the registers that the kernel saved, from "
                f"{self.machine.names[self.machine.sp]}={frame.sp:#x} on; the pc at +{form.pc_at:#x}"
            )
        try:
            found = self.row_of(frame)
        except DwarfError as error:
            return f"damaged: {error}"
        if found is None:
            return f"no CFI for {frame.lookup:#x}: {self.code.why_not(frame.lookup)}"
        return row_text(self.machine, *found)


def rules_of(unwound: Unwound, ways: list[Way]) -> list[str]:
    """The rule of each frame that was kept: that of the last one is the one that there was no caller by."""
    rules = [way.rule for way in ways]
    if unwound.skipped:
        rules[INNER_KEPT : INNER_KEPT + unwound.skipped] = []
    return rules[: len(unwound.frames)] + [""] * (len(unwound.frames) - len(rules))


def row_text(machine: Machine, row: CfiRow, fde: Fde) -> str:
    """A row and the FDE that it is of."""
    signal = " of a signal handler's return" if fde.cie.signal else ""
    rules = ", ".join(rule_texts(machine, row, fde.cie.return_column))
    about = f"{fde.section}+{fde.offset:#x}: an FDE{signal} of {fde.start:#x} to {fde.end:#x}"
    return f"{about}, its row from {row.start:#x}: {rules}"


def rule_texts(machine: Machine, row: CfiRow, return_column: int) -> Iterator[str]:
    """`CFA = rsp+16`, then each register's rule."""
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
    """What follows a register's name."""
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


_FIXED = {  # how many bytes an operation's operand has
    Operation.ADDR: 8, Operation.CONST1U: 1, Operation.CONST1S: 1, Operation.CONST2U: 2, Operation.CONST2S: 2,
    Operation.CONST4U: 4, Operation.CONST4S: 4, Operation.CONST8U: 8, Operation.CONST8S: 8, Operation.PICK: 1,
    Operation.DEREF_SIZE: 1, Operation.BRA: 2, Operation.SKIP: 2,
}  # fmt: skip
_SIGNED = {
    Operation.CONST1S, Operation.CONST2S, Operation.CONST4S, Operation.CONST8S, Operation.BRA, Operation.SKIP
}  # fmt: skip


def expression_text(expression: bytes) -> str:
    """An expression, an operation after another; what can't be read in hex.

    >>> expression_text(bytes.fromhex("77088000"))
    'breg7+8, breg16+0'
    """
    cursor = Cursor(expression, "CFI expression")
    found = []
    try:
        while cursor.at < cursor.end:
            found.append(_operation(cursor))
    except DwarfError:
        found.append(f"damaged: {expression.hex()}")
    return ", ".join(found)


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
        raise DwarfError("CFI expression", cursor.at - 1, "an operation", code) from None
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
