"""Unwinding: registers, memory and call frame information to stacks, each frame with how it was found.

    cfi.py          .eh_frame and .debug_frame of one file as rows: how to get the caller's registers at a vaddr;
                    kernels/cfi.py compiles them
    sframe.py       the same of .sframe
    exidx.py        the same of ARM's exception tables
    expressions.py  the stack machine of their expressions, bounded
    instructions.py code that has none of them, read instruction by instruction
    registers.py    the registers of each machine
    unwinder.py     one thread, frame by frame, and why its stack ends
    walking.py      frames that are plain, walked by kernels/walk.py
    samples.py      the stacks of many samples at once: registers, and a copy of the stack's bytes
    steps.py        frames, how each was found, and why there are no more
    gostack.py      callers of Go's functions, and Go's switches of stacks
    memory.py       what a core kept, and what files have instead
    modules.py      which file the code of a process is of
    signals.py      signals by name, with their cause
    core.py         all of that for every thread of a core file
    stopping.py     threads of a live process: stopped, copied, let go
    live.py         stacks of a live process
    reading.py, constants.py   numbers, as they are written and as the standards call them

Documents: DWARF 5, section 6.4; the LSB's "Exception Frames"; the psABIs of x86-64 and aarch64. Damaged input ends a
stack with a reason; it never raises, and never costs more than the bounds that each module names.
"""

from whence.unwind.core import ThreadStack, core_stacks
from whence.unwind.samples import SampleStacks, StackSamples, stacks
from whence.unwind.signals import Signal
from whence.unwind.steps import End, FoundBy, StackFrame, Unwound

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
