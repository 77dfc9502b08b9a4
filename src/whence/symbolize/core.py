"""A core file as a process: its mappings, its threads, and their stacks with names.

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
    from whence._base.window import ByteOrder
    from whence.procmap.core import CoreMappings, CoreThread
    from whence.procmap.mapping import Mapping
    from whence.symbolize.goroutines import NamedGoroutines
    from whence.unwind.core import ThreadStack


class Core(Snapshot):
    """A core file of Linux or of gdb: the mappings and threads of the process that left it.

    Args:
        path: the core file.
        programs: files that may be the program, for cores that do not name it (qemu-user's).
        sysroot: the folder with the files of another machine; pass it to the Locator as `root`, too.

    Attributes:
        threads: the threads; the first received the fatal signal.
        missing: number of bytes that are cut off at the end of the file.
        unproved: paths of files that fit, but that the core does not identify.
        problems: descriptions of damaged parts, which are left out.
        arguments: the command line, of which cores keep 79 bytes.
        executable: the path of the program.
        written: modification time of the core, in seconds since 1970.

    Raises OSError, ElfError, MapsError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        programs: Iterable[str | os.PathLike[str]] = (),
        sysroot: str | os.PathLike[str] = "",
    ) -> None:
        self._programs = tuple(os.fspath(program) for program in programs)
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

    @property
    def title(self) -> str:
        return f"the core {self.path}"

    def machine(self) -> tuple[int, int, ByteOrder]:
        """Return the number of its machine in ELF, its bits and its byte order. Raises OSError, WhenceError."""
        with self._opened() as elf:
            return elf.machine, elf.bits, elf.order

    def read(self, address: int, size: int) -> bytes:
        """Return all `size` bytes of memory at an address. Raises OSError, WhenceError if the core has not all."""
        with self._opened() as elf:
            return elf.read_vaddr(address, size)

    def stacks(
        self, symbolizer: Symbolizer | None = None, *, tids: Collection[int] | None = None, scan: bool = False
    ) -> list[Stack]:
        """Return the stack of every thread, in the order of `threads`, with names.

        Args:
            symbolizer: names the frames; its Locator finds files. By default a new one.
            tids: only these threads.
            scan: guess callers that no unwind table gives; such frames have FoundBy.SCAN.

        Raises OSError, ElfError and MapsError if the core can no longer be read; a bad thread, frame or file only ends
        a stack early (`Stack.end`).
        """
        if symbolizer is None:
            with Symbolizer() as own:
                return self.stacks(own, tids=tids, scan=scan)
        with self._opened() as elf:
            stacks = core_stacks(elf, self._read(elf), symbolizer.locator, tids=tids, scan=scan)
        frames = named(self, [stack.unwound for stack in stacks], symbolizer)
        return [_stack(stack, of_stack) for stack, of_stack in zip(stacks, frames, strict=True)]

    def goroutines(self, symbolizer: Symbolizer | None = None, *, system: bool = False) -> NamedGoroutines:
        """Return all goroutines of a Go program (1.17 to 1.27), in the order of their creation.

        With `system`, stacks include the runtime's own functions. `problems` of the result says what could not be read.
        Raises OSError, ElfError, MapsError.
        """
        if symbolizer is None:
            with Symbolizer() as own:
                return self.goroutines(own, system=system)
        with self._opened() as elf:
            goroutines = core_goroutines(elf, self._read(elf), symbolizer.locator)
        return name_goroutines(self, goroutines, symbolizer, system=system)

    def explain_stack(self, tid: int, symbolizer: Symbolizer, *, scan: bool = False) -> tuple[Stack, list[str]] | None:
        """Return a thread's stack and the rule that found each frame's caller; None for an unknown tid.

        Raises OSError, ElfError, MapsError.
        """
        with self._opened() as elf:
            explained = explain_core_stack(elf, self._read(elf), tid, symbolizer.locator, scan=scan)
        if explained is None:
            return None
        stack, rules = explained
        (frames,) = named(self, [stack.unwound], symbolizer)
        return _stack(stack, frames), rules


def _stack(stack: ThreadStack, frames: tuple[NamedFrame, ...]) -> Stack:
    unwound = stack.unwound
    return Stack(stack.tid, stack.signal, stack.registers, frames, unwound.end, unwound.detail, unwound.skipped)
