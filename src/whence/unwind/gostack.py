"""Callers of Go's functions: by how far pcsp says they moved the stack pointer, and across Go's switches of stacks.

    systemstack     runs a function on the thread's own stack (g0): on, where the goroutine's stack was left
    morestack       ran out of stack, and grows it from g0: on at the function that called it
    mcall, gogo     left a goroutine for good: the thread's stack ends there
    asmcgocall      runs C on g0; where the goroutine's stack was left lies on top of that
    goexit, mstart, rt0_go     nothing called them, nor clone in the thread that it made

The goroutine is the one that its thread is of (m.curg); where that word lies in m differs between releases of Go, so it
is found as the pointer behind gsignal's to a g whose m is this one. Document: Go's runtime/traceback.go, runtime2.go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence.gopclntab.frames import SPWRITE, TOPFRAME
from whence.unwind.memory import Unreadable
from whence.unwind.steps import End, Ended, FoundBy, FrameStep

if TYPE_CHECKING:
    from collections.abc import Callable

    from whence.gopclntab.frames import GoFunction
    from whence.unwind.registers import Machine
    from whence.unwind.steps import StackFrame

# In struct g: stack.lo, stack.hi, m, sched.sp, sched.pc; sched.bp is the last word of sched (six words since Go 1.25)
LO, HI, M, SCHED_SP, SCHED_PC = 0x00, 0x08, 0x30, 0x38, 0x40
# In struct m: g0 is the first word; morebuf, which may have a goroutine of old, ends before 0x40
SEARCHED = range(0x40, 0x200, 8)
G_REGISTER = 28  # of aarch64: x28 is g
TLS_G = -8  # x86-64: where g is, from the thread pointer

SWITCH_FOR_GOOD = ("runtime.mcall", "runtime.gogo", "gogo", "runtime.switchToCrashStack0")
GROWING = ("runtime.morestack", "runtime.morestack_noctxt")
INJECTED = ("runtime.sigpanic", "runtime.asyncPreempt", "runtime.debugCallV2")  # as if the interrupted code called them
CLONE = "runtime.clone"  # the thread that it made has a stack of its own, with nothing on it yet
HANDLER = "runtime.sigtramp"  # has TOPFRAME, but the kernel's frame is above it


class GoStacks:
    """Steps from Go's functions to their callers. `word` reads a word of memory (Unreadable)."""

    def __init__(self, machine: Machine, word: Callable[[int], int], is_code: Callable[[int], bool]) -> None:
        self.machine, self.word, self.is_code = machine, word, is_code

    def step(
        self, function: GoFunction, frame: StackFrame, registers: dict[int, int], thread_pointer: int
    ) -> FrameStep | None:
        """The caller; None where pcsp does not say. Raises Ended, Unreadable."""
        name = function.name
        if function.flag & TOPFRAME and name != HANDLER:
            raise Ended(End.COMPLETE)
        if name in SWITCH_FOR_GOOD:
            raise Ended(End.COMPLETE, f"{name} left a goroutine")
        sp, switched = registers[self.machine.sp], False
        if not frame.exact:  # it called what is on another stack
            if name in GROWING:
                return self.grown(name, self.goroutine(registers, thread_pointer))
            if name == "runtime.systemstack":
                goroutine = self.goroutine(registers, thread_pointer)
                if goroutine and not self.word(goroutine + LO) <= sp < self.word(goroutine + HI):
                    sp, switched = self.word(goroutine + SCHED_SP), True
            elif name == "runtime.asmcgocall":
                goroutine, used = self.word(sp + self.machine.word), self.word(sp)
                if goroutine:
                    sp, switched = self.word(goroutine + HI) - used, True
            elif function.flag & SPWRITE:
                return self.by_frame_pointer(registers)
        if name == CLONE and frame.exact and self.is_new(function, sp):
            raise Ended(End.COMPLETE)
        return self.called(function, frame, registers, sp, switched)

    def is_new(self, function: GoFunction, sp: int) -> bool:
        """Whether a thread is in the function that made it: then no return address is on its stack."""
        if function.depth is None or self.machine.link is not None:
            return False
        try:
            return not self.is_code(self.word(sp + function.depth) - 1)
        except Unreadable:
            return True

    def called(
        self, function: GoFunction, frame: StackFrame, registers: dict[int, int], sp: int, switched: bool
    ) -> FrameStep | None:
        """The caller of a function whose stack pointer is `sp`."""
        machine, depth, width = self.machine, function.depth, self.machine.word
        if depth is None:
            return None
        values = {G_REGISTER: registers[G_REGISTER]} if machine.link is not None and G_REGISTER in registers else {}
        if machine.fp in registers:
            values[machine.fp] = registers[machine.fp]
        if machine.link is None:
            cfa = sp + depth + width
            pc = self.word(cfa - width)
            if depth:
                values[machine.fp] = self.word(cfa - 2 * width)
        elif depth:
            cfa, pc = sp + depth, self.word(sp)
            values[machine.fp] = self.word(sp - width)
        elif frame.exact and machine.link in registers:
            cfa, pc = sp, registers[machine.link]
        else:
            return None
        values[machine.sp] = cfa
        if switched and not (pc and self.is_code(pc - 1)):
            raise Ended(End.NOT_CODE, f"{pc:#x} is no address of code")
        return FrameStep(pc, values, cfa, FoundBy.GO, exact=function.name in INJECTED, from_trampoline=switched)

    def grown(self, name: str, goroutine: int) -> FrameStep:
        """The function that ran out of stack, or was to be preempted: then its goroutine may have been left already."""
        if not goroutine:
            raise Ended(End.COMPLETE, f"{name} left a goroutine")
        sp, pc = self.word(goroutine + SCHED_SP), self.word(goroutine + SCHED_PC)
        if not (pc and self.is_code(pc)):
            raise Ended(End.NOT_CODE, f"{pc:#x} is no address of code")
        return FrameStep(pc, {self.machine.sp: sp}, sp, FoundBy.GO, exact=True, from_trampoline=True)

    def by_frame_pointer(self, registers: dict[int, int]) -> FrameStep | None:
        """The caller of a function that writes to the stack pointer, and keeps a frame record."""
        machine = self.machine
        fp = registers.get(machine.fp, 0)
        if not fp or machine.frame_record is None:
            return None
        caller_at, return_at, size = machine.frame_record
        pc = self.word(fp + return_at)
        if not (pc and self.is_code(pc - 1)):
            return None
        values = {machine.fp: self.word(fp + caller_at), machine.sp: fp + size}
        return FrameStep(pc, values, fp + size, FoundBy.GO, from_trampoline=True)

    # the goroutine of a thread

    def goroutine(self, registers: dict[int, int], thread_pointer: int) -> int:
        """The goroutine that the thread runs (m.curg); 0 where there is none, or it can't be found."""
        try:
            if self.machine.link is not None:
                current = registers.get(G_REGISTER, 0)
            else:
                current = self.word(thread_pointer + TLS_G) if thread_pointer else 0
            if not current:
                return 0
            m = self.word(current + M)
            g0 = self.word(m)
            if not g0 or self.word(g0 + M) != m:
                return 0
        except Unreadable:
            return 0
        found = [g0]
        for at in SEARCHED:
            try:
                candidate = self.word(m + at)
                if candidate and not candidate % 8 and candidate not in found and self.word(candidate + M) == m:
                    found.append(candidate)
            except Unreadable:
                continue
            if len(found) == 3:  # gsignal, then curg
                return candidate
        return 0
