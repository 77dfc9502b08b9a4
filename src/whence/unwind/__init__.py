"""Unwinding: from registers, memory and call frame information to stacks, each frame with how it was found.

    cfi.py           .eh_frame and .debug_frame of one file as rows: how to compute the caller's registers at a vaddr;
                     compiled by kernels/cfi.py
    sframe.py        .sframe as rows
    exidx.py         ARM's exception tables as rows
    pdata.py         the function table of PE files as rows
    pdata_x64.py     unwind information of x64: prologues by codes, epilogues by instructions
    pdata_arm64.py   unwind information of arm64, packed or by codes
    stack_cfi.py     STACK CFI records of Breakpad symbol files as rows
    frame_data.py    frame data of 32-bit x86: of PDB files, STACK WIN records
    compact.py       compact unwind information of Mach-O files as rows
    compact_code.py  prologues and epilogues of functions whose table describes only the body
    encoding.py      rows of any table encoded as .eh_frame, for archives
    expressions.py   evaluates DWARF expressions
    instructions.py  x86-64 and i386 code without tables, read instruction by instruction
    arm.py           32-bit ARM code without tables, read instruction by instruction
    registers.py     the registers of each machine
    unwinder.py      one thread, frame by frame, and why its stack ends: the reference
    walking.py       plain frames, walked by kernels/walk.py: a fast path that must give the reference's answers
    samples.py       the stacks of many samples: registers, and a copy of the stack's bytes
    recording.py     an unwinder that keeps the registers and the CFA of each frame, for readers of variables
    steps.py         frames, how each was found, and why a stack ends
    gostack.py       callers of Go functions, across Go's switches of stacks
    goroutines.py    all goroutines of a Go program, running or parked
    memory.py        memory in a dump and in the mapped files
    modules.py       the file of each executable mapping
    core.py          the stacks of all threads of a core or a minidump
    to_minidump.py   a core as a minidump
    stopping.py      threads of a live process: stopped, copied, released
    live.py          the stacks of a live process
    constants.py     operations of DWARF expressions
    explaining.py    the rule that led from each frame to its caller, as text

There are two unwinders. unwinder.py is the reference: it handles every frame. kernels/walk.py repeats its steps for
plain frames (three times as fast on recordings) and leaves all others to it; tests compare both.

See DWARF 5, section 6.4; the LSB's "Exception Frames"; the psABI of each machine. Damaged input ends a stack with a
reason, within the bounds that each module states; it raises no errors.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence._base.lazy import attach
from whence.unwind.steps import End, FoundBy, StackFrame, Unwound

if TYPE_CHECKING:
    from whence.dumps.signals import Signal
    from whence.unwind.core import ThreadStack, core_stacks
    from whence.unwind.samples import SampleStacks, StackSamples, stacks

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
        {
            "Signal": "whence.dumps.signals",
            "SampleStacks": "whence.unwind.samples",
            "StackSamples": "whence.unwind.samples",
            "ThreadStack": "whence.unwind.core",
            "core_stacks": "whence.unwind.core",
            "stacks": "whence.unwind.samples",
        },
    )
