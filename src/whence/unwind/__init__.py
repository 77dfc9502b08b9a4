"""Unwinding: registers, memory and call frame information to stacks, each frame with how it was found.

    cfi.py          .eh_frame and .debug_frame of one file as rows: how to get the caller's registers at a vaddr;
                    kernels/cfi.py compiles them
    sframe.py       the same of .sframe
    exidx.py        the same of ARM's exception tables
    expressions.py  the stack machine of their expressions, bounded
    instructions.py code of x86 that has none of them, read instruction by instruction
    arm.py          the same of 32-bit ARM
    registers.py    the registers of each machine
    unwinder.py     one thread, frame by frame, and why its stack ends
    walking.py      frames that are plain, walked by kernels/walk.py
    samples.py      the stacks of many samples at once: registers, and a copy of the stack's bytes
    steps.py        frames, how each was found, and why there are no more
    gostack.py      callers of Go's functions, and Go's switches of stacks
    goroutines.py   all goroutines of a Go program, also those that no thread runs
    memory.py       what a core kept, and what files have instead
    modules.py      which file the code of a process is of
    signals.py      signals by name, with their cause
    core.py         all of that for every thread of a core file
    stopping.py     threads of a live process: stopped, copied, let go
    live.py         stacks of a live process
    constants.py    numbers, as the standards call them
    explaining.py     the rule that led from each frame to its caller, in words
    instructions.py   x86-64 and i386 code without unwind tables, read instruction by instruction

Documents: DWARF 5, section 6.4; the LSB's "Exception Frames"; the psABIs of x86-64 and aarch64. Damaged input ends a
stack with a reason; it never raises, and never costs more than the bounds that each module names.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence._base.lazy import attach
from whence.unwind.steps import End, FoundBy, StackFrame, Unwound

if TYPE_CHECKING:
    from whence.unwind.core import ThreadStack, core_stacks
    from whence.unwind.samples import SampleStacks, StackSamples, stacks
    from whence.unwind.signals import Signal

__all__ = [
    "End",
    "FoundBy",
    "SampleStacks",
    "Signal",
    "StackFrame",
    "StackSamples",
    "ThreadStack",
    "Unwound",
    "core_stacks",
    "stacks",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {  # where each lies: samples need no cores, cores no samples
            "Signal": "whence.unwind.signals",
            "SampleStacks": "whence.unwind.samples",
            "StackSamples": "whence.unwind.samples",
            "ThreadStack": "whence.unwind.core",
            "core_stacks": "whence.unwind.core",
            "stacks": "whence.unwind.samples",
        },
    )
