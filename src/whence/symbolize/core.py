"""A core file as a process: its mappings and threads, and the stacks of these with names.

core = whence.Core("core")
for stack in core.stacks():
    print(stack.tid, stack.signal, stack.end)
    for frame in stack.frames:
        print(hex(frame.pc), frame.found_by, frame.place.frames)
"""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from whence._base.errors import CHANGED, ElfError, MapsError
from whence._base.files import stamp_of
from whence.objects.elf import ElfFile
from whence.procmap.core import read_core
from whence.procmap.vdso import SIZE_LIMIT as VDSO_LIMIT
from whence.symbolize.goroutines import name_goroutines
from whence.symbolize.process import Snapshot
from whence.symbolize.stacks import NamedFrame, Stack, named
from whence.symbolize.symbolizer import Symbolizer
from whence.unwind import core_stacks
from whence.unwind.core import core_goroutines, explain_core_stack

if TYPE_CHECKING:
    from whence.procmap.core import CoreMappings, CoreThread
    from whence.procmap.mapping import Mapping
    from whence.symbolize.goroutines import NamedGoroutines
    from whence.unwind.core import ThreadStack


class Core(Snapshot):
    """A core file of Linux or of gdb: the mappings and threads of the process that left it.

    `threads` has the one that ended the process first. `missing` counts the bytes that the end of the file lacks,
    `unproved` has the paths of files that are taken because they fit, though the core lacks what would identify them,
    `problems` has what was damaged in it and left out. `arguments` is the command line, of which cores keep 79 bytes,
    `executable` the program's file, `written` when the core was, in seconds since 1970. `programs` are files that may
    be the program, for cores that do not say which it was (qemu-user's). The files of a process of another machine are
    those below `sysroot`, which its Symbolizer's Locator has as `root`. Raises OSError, ElfError, MapsError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        programs: Iterable[str | os.PathLike[str]] = (),
        sysroot: str | os.PathLike[str] = "",
    ) -> None:
        self._programs = tuple(os.fspath(one) for one in programs)
        self._sysroot = os.fspath(sysroot).rstrip("/")
        with ElfFile.open(path) as elf:
            core = self._read(elf)
            self.problems = tuple(map(str, elf.problems))
        self.record, self.path = core.snapshot, os.fspath(path)
        self.threads: tuple[CoreThread, ...] = core.threads
        self.missing, self.unproved = core.missing, core.unproved
        self.arguments, self.executable = core.arguments, core.executable
        self.written = os.stat(path).st_mtime
        self._stamp = stamp_of(path)

    def _read(self, elf: ElfFile) -> CoreMappings:
        return read_core(elf, self._programs, self._sysroot)

    @contextmanager
    def _opened(self) -> Iterator[ElfFile]:
        """Open the file again, which must be unchanged. Raises OSError, ElfError, MapsError."""
        if stamp_of(self.path) != self._stamp:
            raise MapsError("", None, "the file changed since it was opened", code=CHANGED, path=self.path)
        with ElfFile.open(self.path) as elf:
            yield elf

    def vdso_image(self, mapping: Mapping) -> bytes:
        with suppress(OSError, ElfError, MapsError), self._opened() as elf:
            return elf.read_vaddr(mapping.start, min(mapping.size, VDSO_LIMIT))
        return b""

    def stacks(
        self, symbolizer: Symbolizer | None = None, *, tids: Collection[int] | None = None, scan: bool = False
    ) -> list[Stack]:
        """The stack of every thread, or of those of `tids`, in the order of `threads`, with names.

        With `scan` callers that no table gives are guessed: frames that are found by FoundBy.SCAN.

        The files of the process are those that the symbolizer's Locator finds (default: a symbolizer of its own). Never
        raises for what a thread, a frame or a file is: `end` says why a stack is no longer. Raises OSError, ElfError,
        MapsError when the core itself can no longer be read. Costs the steps from frame to frame, the FDEs on the way,
        and one search for all names.
        """
        if symbolizer is None:
            with Symbolizer() as own:
                return self.stacks(own, tids=tids, scan=scan)
        with self._opened() as elf:
            found = core_stacks(elf, self._read(elf), symbolizer.locator, tids=tids, scan=scan)
        frames = named(self, [one.unwound for one in found], symbolizer)
        return [_stack(one, place) for one, place in zip(found, frames, strict=True)]

    def goroutines(self, symbolizer: Symbolizer | None = None, *, system: bool = False) -> NamedGoroutines:
        """All goroutines of a Go program (1.17 to 1.27), also those that no thread ran, in the order of their making.

        With `system` the runtime's own functions are among the calls of each. `problems` says what could not be read.
        Raises as `stacks` does.
        """
        if symbolizer is None:
            with Symbolizer() as own:
                return self.goroutines(own, system=system)
        with self._opened() as elf:
            found = core_goroutines(elf, self._read(elf), symbolizer.locator)
        return name_goroutines(self, found, symbolizer, system=system)

    def explain_stack(self, tid: int, symbolizer: Symbolizer, *, scan: bool = False) -> tuple[Stack, list[str]] | None:
        """A thread's stack as `stacks` has it, and by which rule the caller of each frame was found; None for no such
        thread. Raises as `stacks` does."""
        with self._opened() as elf:
            found = explain_core_stack(elf, self._read(elf), tid, symbolizer.locator, scan=scan)
        if found is None:
            return None
        one, rules = found
        (frames,) = named(self, [one.unwound], symbolizer)
        return _stack(one, frames), rules


def _stack(one: ThreadStack, frames: tuple[NamedFrame, ...]) -> Stack:
    unwound = one.unwound
    return Stack(one.tid, one.signal, one.registers, frames, unwound.end, unwound.detail, unwound.skipped)
