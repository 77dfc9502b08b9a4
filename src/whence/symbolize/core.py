"""A core file as a process: its mappings and threads, and the stacks of these with names.

core = whence.Core("core")
for stack in core.stacks():
    print(stack.tid, stack.signal, stack.end)
    for frame in stack.frames:
        print(hex(frame.pc), frame.found_by, frame.place.frames)
"""

from __future__ import annotations

import os
from collections.abc import Collection
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from whence.elf import ElfFile
from whence.symbolize.process import Snapshot
from whence.symbolize.symbolizer import Symbolizer

if TYPE_CHECKING:
    from whence.procmap.core import CoreThread
    from whence.symbolize.symbolized import Symbolized
    from whence.unwind import End, FoundBy, Signal
    from whence.unwind.core import ThreadStack


class NamedFrame(NamedTuple):
    """A frame of a stack: where it goes on, how it was found, and what `place` calls that, inlined calls first.

    `sp` is its stack pointer there; `is_trampoline`: what a signal handler returns to.
    """

    pc: int
    sp: int
    found_by: FoundBy
    is_trampoline: bool
    place: Symbolized


@dataclass(frozen=True, slots=True)
class Stack:
    """The stack of a thread, innermost frame first, and why it ends: in a word, and what exactly.

    `signal` is what the thread got, if any; `registers` are the innermost frame's by name. `skipped` frames between the
    innermost 4,096 and the others were counted and not kept.
    """

    tid: int
    signal: Signal | None
    registers: dict[str, int]
    frames: tuple[NamedFrame, ...]
    end: End
    detail: str = ""
    skipped: int = 0


class Core(Snapshot):
    """A core file of Linux or of gdb: the mappings and threads of the process that left it.

    `threads` has the one that ended the process first. `missing` counts the bytes that the end of the file lacks,
    `problems` has what was damaged in it and left out. `arguments` is the command line, of which cores keep 79 bytes,
    `executable` the program's file, `written` when the core was, in seconds since 1970. Raises OSError, ElfError,
    MapsError.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        from whence.procmap.core import read_core

        with ElfFile.open(path) as elf:
            core = read_core(elf)
            self.problems = tuple(map(str, elf.problems))
        self.record, self.path = core.snapshot, os.fspath(path)
        self.threads: tuple[CoreThread, ...] = core.threads
        self.missing = core.missing
        self.arguments, self.executable = core.arguments, core.executable
        self.written = os.stat(path).st_mtime

    def stacks(self, symbolizer: Symbolizer | None = None, *, tids: Collection[int] | None = None) -> list[Stack]:
        """The stack of every thread, or of those of `tids`, in the order of `threads`, with names.

        The files of the process are those that the symbolizer's Locator finds (default: a symbolizer of its own). Never
        raises for what a thread, a frame or a file is: `end` says why a stack is no longer. Raises OSError, ElfError,
        MapsError when the core itself can no longer be read. Costs the steps from frame to frame, the FDEs on the way,
        and one search for all names.
        """
        if symbolizer is None:
            with Symbolizer() as own:
                return self.stacks(own, tids=tids)
        from whence.procmap.core import read_core
        from whence.unwind import core_stacks

        with ElfFile.open(self.path) as elf:
            found = core_stacks(elf, read_core(elf), symbolizer.finds, tids=tids)
        return self._named(found, symbolizer)

    def _named(self, found: list[ThreadStack], symbolizer: Symbolizer) -> list[Stack]:
        wanted = list(dict.fromkeys(frame.lookup for stack in found for frame in stack.unwound.frames))
        place_of = dict(zip(wanted, symbolizer.symbolize(self, wanted), strict=True))
        stacks = []
        for tid, signal, registers, unwound in found:
            frames = []
            for frame in unwound.frames:
                place = place_of[frame.lookup]
                if frame.lookup != frame.pc:
                    place = place.after()
                frames.append(NamedFrame(frame.pc, frame.sp, frame.found_by, frame.is_trampoline, place))
            stacks.append(Stack(tid, signal, registers, tuple(frames), unwound.end, unwound.detail, unwound.skipped))
        return stacks
