"""Results of unwinding: frames, how each was found, and why a stack ends."""

from __future__ import annotations

import enum
from typing import NamedTuple


class FoundBy(enum.StrEnum):
    """How a frame was found."""

    REGISTERS = "registers"  # the innermost frame
    CFI = "cfi"
    SFRAME = "sframe"
    EXIDX = "exidx"  # ARM's exception tables
    PDATA = "pdata"  # the function table of a PE file
    COMPACT = "compact-unwind"  # that of a Mach-O file
    FRAME_DATA = "frame-data"  # that of a PDB or Breakpad symbol file, for 32-bit x86
    SIGNAL = "signal"  # interrupted by a signal: the kernel saved its registers
    FRAME_POINTER = "frame-pointer"
    INSTRUCTIONS = "instructions"  # by the pops up to a return, or the pushes since the function's start
    PROLOGUE = "prologue"  # by the instructions at a function's start or end
    LEAF = "leaf"  # the callee saved nothing; the return address follows a call of it
    BACK_CHAIN = "back-chain"  # ppc64le, s390x: the word at the stack pointer
    GO = "go"  # Go's own tables
    SCAN = "scan"  # a guess: a word on the stack that may be a return address
    CALL = "call"  # the caller of an address without code
    INTERPRETER = "interpreter"  # by the frames of a language's interpreter


class End(enum.StrEnum):
    """Why a stack ends."""

    COMPLETE = "complete"
    NO_CFI = "no-cfi"
    UNREADABLE = "unreadable"
    NOT_CODE = "not-code"
    LOOP = "loop"
    DAMAGED = "damaged"
    LIMIT = "limit"
    NO_REGISTERS = "no-registers"

    @property
    def sentence(self) -> str:
        """The reason in words."""
        return _SENTENCES[self]


_SENTENCES = {
    End.COMPLETE: "the outermost frame is reached",
    End.NO_CFI: "no table or heuristic unwinds this code",
    End.UNREADABLE: "required memory cannot be read",
    End.NOT_CODE: "the return address is not in executable memory",
    End.LOOP: "a caller's frame is not above its callee's",
    End.DAMAGED: "the call frame information is damaged",
    End.LIMIT: "the stacks need more frames than the memory can hold",
    End.NO_REGISTERS: "the thread's registers are unknown",
}


class StackFrame(NamedTuple):
    """A frame of a stack.

    `pc` is where the frame continues: the exact address if `exact`, otherwise a return address. `sp` is its stack
    pointer there. `is_trampoline`: code that a signal handler returns to, called by the kernel.
    """

    pc: int
    sp: int
    found_by: FoundBy
    exact: bool = False
    is_trampoline: bool = False

    @property
    def lookup(self) -> int:
        """The runtime address at which to look up CFI and source lines."""
        return self.pc if self.exact or self.is_trampoline else self.pc - 1


class Unwound(NamedTuple):
    """The frames of a stack, innermost first, and why it ends.

    `skipped` frames after the first INNER_KEPT were counted but not kept. `detail` says what exactly ended the stack.
    """

    frames: tuple[StackFrame, ...]
    end: End
    detail: str = ""
    skipped: int = 0


class Ended(Exception):
    """The stack ends: there is no caller, or none was found."""

    def __init__(self, end: End, detail: str = "") -> None:
        self.end, self.detail = end, detail


class FrameStep(NamedTuple):
    """The caller of a frame: its pc, its registers, and the callee's CFA.

    `from_trampoline`: the caller may be on another stack, because a signal interrupted it or code switched stacks.
    `dead`: registers whose slots are below the stack pointer have their values again (1), have lost them (-1), or
    neither (0).
    """

    pc: int
    registers: dict[int, int]
    cfa: int
    found_by: FoundBy
    exact: bool = False
    from_trampoline: bool = False
    dead: int = 0
