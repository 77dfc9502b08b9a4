"""Registers and CFA of each frame of a stack, for readers of variables."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, NamedTuple

from whence._base.errors import DwarfError
from whence.unwind.expressions import evaluate
from whence.unwind.steps import Ended, FrameStep, StackFrame, Unwound
from whence.unwind.unwinder import INNER_KEPT, UnwindCode, Unwinder

if TYPE_CHECKING:
    from whence._base.window import ByteOrder
    from whence.unwind.memory import Memory
    from whence.unwind.registers import Machine

STATES_KEPT = INNER_KEPT


class FrameState(NamedTuple):
    """The known registers of a frame by DWARF number, and its canonical frame address (None: unknown).

    `wide` has the bytes of floating-point and vector registers, of innermost frames only.
    """

    registers: Mapping[int, int]
    cfa: int | None = None
    wide: Mapping[int, bytes] = {}


class RecordingUnwinder(Unwinder):
    """An unwinder that records the state of each frame. It walks without the compiled fast path."""

    def __init__(
        self, machine: Machine, code: UnwindCode, memory: Memory, order: ByteOrder = "little", *, stored: int = 0
    ) -> None:
        super().__init__(machine, code, memory, order, stored=stored)
        self._states: list[FrameState] = []

    def unwind(self, pc: int, registers: Mapping[int, int], thread_pointer: int = 0) -> Unwound:
        self._states = []
        return super().unwind(pc, registers, thread_pointer)

    def states_of(self, unwound: Unwound) -> list[FrameState]:
        """Return the states of the first frames, at most STATES_KEPT, of the stack that was unwound last."""
        return self._states[: len(unwound.frames)]

    def step(self, frame: StackFrame, registers: dict[int, int]) -> FrameStep:
        is_kept = len(self._states) < STATES_KEPT
        if is_kept:
            self._states.append(FrameState(registers))
        try:
            caller = super().step(frame, registers)
        except Ended:
            if is_kept:
                self._states[-1] = FrameState(registers, self._cfa_of(frame, registers))
            raise
        if is_kept and not caller.from_trampoline:
            self._states[-1] = FrameState(registers, caller.cfa)
        return caller

    def _cfa_of(self, frame: StackFrame, registers: dict[int, int]) -> int | None:
        """Return the CFA of a frame without a caller; None if no table has it."""
        try:
            row = self.row_of(frame)
            if row is None or row[0].cfa is None:
                return None
            cfa = row[0].cfa
            if cfa.expression is not None:
                return evaluate(cfa.expression, registers, self.memory, bits=self.machine.bits, order=self.order)
        except (DwarfError, LookupError):
            return None
        base = registers.get(cfa.register)
        return None if base is None else base + cfa.offset & self.mask
