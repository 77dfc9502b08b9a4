"""What unwinding makes: frames, with how each was found, and why there are no more."""

from __future__ import annotations

import enum
from typing import NamedTuple


class FoundBy(enum.StrEnum):
    """How a frame was found."""

    REGISTERS = "registers"  # the innermost: the thread was there
    CFI = "cfi"
    SFRAME = "sframe"
    EXIDX = "exidx"  # by ARM's exception tables
    SIGNAL = "signal"  # what a signal interrupted, by the registers that the kernel saved
    FRAME_POINTER = "frame-pointer"
    INSTRUCTIONS = "instructions"  # by what they take off the stack up to a return, or have put there since a start
    PROLOGUE = "prologue"  # by the instructions at a function's beginning or end
    LEAF = "leaf"  # the caller of a function that keeps nothing on the stack, by the call there that leads to it
    BACK_CHAIN = "back-chain"  # ppc64le, s390x: by the word at the stack pointer
    GO = "go"  # by the tables that Go's own unwinder uses
    SCAN = "scan"  # a guess: a word on the stack that may be the return address
    CALL = "call"  # the caller of an address that is no code


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
        return _SENTENCES[self]


_SENTENCES = {
    End.COMPLETE: "the outermost frame is reached",
    End.NO_CFI: "nothing says how to unwind this code",
    End.UNREADABLE: "memory that is needed can't be read",
    End.NOT_CODE: "the return address is not in executable memory",
    End.LOOP: "a caller's frame is not above that of what it called",
    End.DAMAGED: "the call frame information is damaged",
    End.LIMIT: "the stacks together are longer than the core's memory can hold",
    End.NO_REGISTERS: "the thread's registers are not known",
}


class StackFrame(NamedTuple):
    """One frame: `pc` is where it goes on, `exact` whether that is the very place (else one behind a call).

    `sp` is its stack pointer there. `is_trampoline`: code that a signal handler returns to, called by the kernel.
    """

    pc: int
    sp: int
    found_by: FoundBy
    exact: bool = False
    is_trampoline: bool = False

    @property
    def lookup(self) -> int:
        """The runtime address that CFI and lines are looked up at."""
        return self.pc if self.exact or self.is_trampoline else self.pc - 1


class Unwound(NamedTuple):
    """The frames, innermost first, and why there are no more.

    `skipped` frames between the first INNER_KEPT and the others were counted, not kept. `detail` says what exactly
    ended the stack.
    """

    frames: tuple[StackFrame, ...]
    end: End
    detail: str = ""
    skipped: int = 0


class Ended(Exception):
    """There is no caller, or none that can be found."""

    def __init__(self, end: End, detail: str = "") -> None:
        self.end, self.detail = end, detail


class FrameStep(NamedTuple):
    """The caller of a frame: its pc, its registers, and where the frame of what it called ends.

    `from_trampoline`: it may be on another stack, because a signal interrupted it, or code switched stacks.
    `dead`: registers whose slots lie below the stack pointer, where nothing is kept, have their values again (1), or
    not (-1); 0: there are none, or some of both.
    """

    pc: int
    registers: dict[int, int]
    cfa: int
    found_by: FoundBy
    exact: bool = False
    from_trampoline: bool = False
    dead: int = 0
