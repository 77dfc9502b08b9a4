"""Callers of Go functions: by pcsp, which has the depth of the stack pointer, and across Go's switches of stacks.

    systemstack     runs a function on the thread's own stack (g0): the stack continues on the goroutine's
    morestack       ran out of stack and grows it on g0: the stack continues at the function that called it
    mcall, gogo     left a goroutine for good: the thread's stack ends
    asmcgocall      runs C on g0, where it saved the goroutine and the depth of its stack; in which words depends on
                    release and machine, and is read from the instructions after the call
    goexit, mstart, rt0_go     have no caller, nor has clone in the thread that it made

The goroutine of a thread is m.curg. The offset of that word in m depends on the release, so it is
found as the pointer after gsignal to a g whose m is this m. See Go's runtime/traceback.go and runtime2.go.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from whence.gopclntab.frames import SPWRITE, TOPFRAME
from whence.unwind.memory import Unreadable
from whence.unwind.steps import End, Ended, FoundBy, FrameStep

if TYPE_CHECKING:
    from collections.abc import Callable

    from whence.gopclntab.frames import GoFunction
    from whence.unwind.registers import Machine
    from whence.unwind.steps import StackFrame

# offsets in struct g: stack.lo, stack.hi, m, sched.sp, sched.pc
LO, HI, M, SCHED_SP, SCHED_PC = 0x00, 0x08, 0x30, 0x38, 0x40
# offsets searched in struct m: after morebuf, which may refer to an earlier goroutine
SEARCHED = range(0x40, 0x200, 8)
G_REGISTER = 28  # aarch64: x28 is g
TLS_G = -8  # x86-64: offset of g from the thread pointer

SWITCH_FOR_GOOD = ("runtime.mcall", "runtime.gogo", "gogo", "runtime.switchToCrashStack0")
GROWING = ("runtime.morestack", "runtime.morestack_noctxt")
INJECTED = (
    "runtime.sigpanic",
    "runtime.asyncPreempt",
    "runtime.debugCallV2",
)  # look as if called by the interrupted code
CLONE = "runtime.clone"  # in the new thread, the stack is still empty
HANDLER = "runtime.sigtramp"  # has TOPFRAME, but the kernel's frame is its caller

AFTER_C_BYTES = 40  # of asmcgocall after its call of C, which restore the stack pointer
# x86-64: mov G(%rsp), %rdi; mov 8(%rdi), %rsi; sub DEPTH(%rsp), %rsi; or mov SP(%rsp), %rsi; mov %rsi, %rsp
X86_GOROUTINE = re.compile(rb"\x48\x8b\x7c\x24(.)\x48\x8b\x77\x08\x48\x2b(?:\x34\x24|\x74\x24(.))", re.DOTALL)
X86_SP = re.compile(rb"\x48\x8b(?:\x34\x24|\x74\x24(.))\x48\x89\xf4", re.DOTALL)
LDR_OF_SP_BITS, LDR_OF_SP = 0xFFC003E0, 0xF94003E0  # aarch64: ldr Xt, [sp, #offset]


def saved_by_x86(code: bytes) -> tuple[int | None, int | None]:
    """Return the stack offsets of the goroutine and the depth that asmcgocall saved, by the code that restores them.

    Without a goroutine (None), the second offset is that of the saved stack pointer.
    """
    goroutine, alone = X86_GOROUTINE.search(code), X86_SP.search(code)
    if goroutine is not None and (alone is None or goroutine.start() < alone.start()):
        return goroutine[1][0], goroutine[2][0] if goroutine[2] else 0
    if alone is not None:
        return None, alone[1][0] if alone[1] else 0
    return None, None


def saved_by_aarch64(code: bytes) -> tuple[int | None, int | None]:
    """Return the stack offsets that asmcgocall saved on aarch64, as `saved_by_x86` does on x86-64.

    The goroutine is loaded into x28, then the depth; without goroutine, the stack pointer into another register.
    """
    goroutine = None
    for index in range(0, len(code), 4):
        instruction = int.from_bytes(code[index : index + 4], "little")
        if instruction & LDR_OF_SP_BITS != LDR_OF_SP:
            continue
        offset = (instruction >> 10 & 0xFFF) * 8
        if instruction & 0x1F != G_REGISTER:
            return goroutine, offset
        goroutine = offset
    return None, None


class GoStacks:
    """Steps from Go functions to their callers. `word` reads a word of memory or raises Unreadable."""

    def __init__(self, machine: Machine, word: Callable[[int], int], is_code: Callable[[int], bool]) -> None:
        self.machine, self.word, self.is_code = machine, word, is_code

    def step(
        self, function: GoFunction, frame: StackFrame, registers: dict[int, int], thread_pointer: int
    ) -> FrameStep | None:
        """Return the caller of a frame, None if pcsp does not say. Raises Ended and Unreadable."""
        name = function.name
        if function.flag & TOPFRAME and name != HANDLER:
            raise Ended(End.COMPLETE)
        if name in SWITCH_FOR_GOOD:
            raise Ended(End.COMPLETE, f"{name} left a goroutine")
        sp, switched = registers[self.machine.sp], False
        if not frame.exact:  # its callee is on another stack
            if name in GROWING:
                return self.grown(name, self.goroutine(registers, thread_pointer))
            if name == "runtime.systemstack":
                goroutine = self.goroutine(registers, thread_pointer)
                if goroutine and not self.word(goroutine + LO) <= sp < self.word(goroutine + HI):
                    sp, switched = self.word(goroutine + SCHED_SP), True
            elif name == "runtime.asmcgocall":
                sp, switched = self.sp_before_c(frame.pc, sp), True
            elif function.flag & SPWRITE:
                return self.by_frame_pointer(registers)
        if name == CLONE and frame.exact and self.is_new(function, sp):
            raise Ended(End.COMPLETE)
        return self.called(function, frame, registers, sp, switched)

    def sp_before_c(self, pc: int, sp: int) -> int:
        """Return the stack pointer that asmcgocall restores when its call of C returns to `pc`.

        Called on a goroutine, it computes g.stack.hi - depth from two saved words. Called on g0 or without a goroutine,
        it saved the stack pointer itself. Raises Ended and Unreadable.
        """
        width = self.machine.word
        code = b"".join(self.word(pc + offset).to_bytes(width, "little") for offset in range(0, AFTER_C_BYTES, width))
        if self.machine.link is None:
            goroutine_offset, saved_offset = saved_by_x86(code)
        else:
            goroutine_offset, saved_offset = saved_by_aarch64(code)
        if saved_offset is None:
            raise Ended(End.NO_CFI, f"the instructions at {pc:#x} do not restore a stack pointer as asmcgocall does")
        saved = self.word(sp + saved_offset)
        if goroutine_offset is None:
            return saved
        goroutine = self.word(sp + goroutine_offset)
        low, high = self.word(goroutine + LO), self.word(goroutine + HI)
        if not low <= high - saved < high:
            raise Ended(End.UNREADABLE, f"{goroutine:#x} is not a goroutine whose stack is {saved:#x} bytes deep")
        return high - saved

    def is_new(self, function: GoFunction, sp: int) -> bool:
        """Return True if a thread is still in the function that made it: its stack has no return address."""
        if function.depth is None or self.machine.link is not None:
            return False
        try:
            return not self.is_code(self.word(sp + function.depth) - 1)
        except Unreadable:
            return True

    def called(
        self, function: GoFunction, frame: StackFrame, registers: dict[int, int], sp: int, switched: bool
    ) -> FrameStep | None:
        """Return the caller of a function whose stack pointer is `sp`."""
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
            raise Ended(End.NOT_CODE, f"{pc:#x} is not in executable memory")
        return FrameStep(pc, values, cfa, FoundBy.GO, exact=function.name in INJECTED, from_trampoline=switched)

    def grown(self, name: str, goroutine: int) -> FrameStep:
        """Return the function that ran out of stack or was preempted, if its goroutine was not left already."""
        if not goroutine:
            raise Ended(End.COMPLETE, f"{name} left a goroutine")
        sp, pc = self.word(goroutine + SCHED_SP), self.word(goroutine + SCHED_PC)
        if not (pc and self.is_code(pc)):
            raise Ended(End.NOT_CODE, f"{pc:#x} is not in executable memory")
        return FrameStep(pc, {self.machine.sp: sp}, sp, FoundBy.GO, exact=True, from_trampoline=True)

    def by_frame_pointer(self, registers: dict[int, int]) -> FrameStep | None:
        """Return the caller of a function that writes to the stack pointer and keeps a frame record."""
        machine = self.machine
        fp = registers.get(machine.fp, 0)
        if not fp or machine.frame_record is None:
            return None
        caller_offset, return_offset, size = machine.frame_record
        pc = self.word(fp + return_offset)
        if not (pc and self.is_code(pc - 1)):
            return None
        values = {machine.fp: self.word(fp + caller_offset), machine.sp: fp + size}
        return FrameStep(pc, values, fp + size, FoundBy.GO, from_trampoline=True)

    def goroutine(self, registers: dict[int, int], thread_pointer: int) -> int:
        """Return the goroutine that the thread runs (m.curg), 0 without one or if it is not found."""
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
        candidates = [g0]
        for offset in SEARCHED:
            try:
                candidate = self.word(m + offset)
                if candidate and not candidate % 8 and candidate not in candidates and self.word(candidate + M) == m:
                    candidates.append(candidate)
            except Unreadable:
                continue
            if len(candidates) == 3:  # g0, gsignal, curg
                return candidate
        return 0
