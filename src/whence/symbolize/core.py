"""A core or a minidump as a process: its mappings, its threads, and their stacks with names.

core = whence.Core("core")
for stack in core.stacks():
    print(stack.tid, stack.signal, stack.end)
    for frame in stack.frames:
        print(hex(frame.pc), frame.found_by, frame.place.frames)
"""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

from whence._base.errors import CHANGED, ElfError, FormatError, MapsError, WrongUse, naming
from whence._base.files import atomic_write, open_regular, read_at, stamp_of
from whence._base.records import replaced
from whence.dumps.core import core_regions, read_core
from whence.dumps.process import LocalPaths
from whence.interpreters.model import ThreadKey
from whence.interpreters.process import Interpreters, NativeThread
from whence.objects.elf import ElfFile
from whence.objects.elf.layout import MAGIC as ELF_MAGIC
from whence.procmap.vdso import SIZE_LIMIT as VDSO_LIMIT
from whence.symbolize.goroutines import name_goroutines
from whence.symbolize.process import Snapshot
from whence.symbolize.stacks import FrameVariables, NamedFrame, Stack, named, only_interpreted, with_interpreter
from whence.symbolize.symbolizer import Symbolizer
from whence.symbolize.tasks import Tasks, named_tasks
from whence.unwind.core import core_dump, dump_goroutines, explain_dump_stack, opened_stacks, recorded_stacks

if TYPE_CHECKING:
    from whence._base.window import ByteOrder
    from whence.dumps.facts import MinidumpFacts
    from whence.dumps.process import AddressRegion, CoreMappings, CoreThread, ProcessDump
    from whence.dumps.unpacked import UnpackedCore
    from whence.interpreters.process import InterpretedThread
    from whence.locator.locator import Locator
    from whence.procmap.mapping import Mapping
    from whence.symbolize.goroutines import NamedGoroutines
    from whence.types.decoding import Limits
    from whence.unwind.core import RecordedStacks, ThreadStack
    from whence.unwind.to_minidump import WrittenMinidump


class Core(Snapshot):
    """A core file of Linux or of gdb, or a minidump: the mappings and threads of the process that left it.

    Args:
        path: the core, also compressed (zstd, xz, gzip, lz4) or in a report of apport, or the minidump.
        programs: files that may be the program, for cores that do not name it (qemu-user's), or modules that a minidump
            does not identify.
        sysroot: the folder with the files of another machine; pass it to the Locator as `root`, too.
        allows: returns True for paths of this machine that may be read, where the core names files; by default all.

    Attributes:
        threads: the threads; the first received the fatal signal.
        missing: number of bytes that are cut off at the end of the file.
        fault: why the rest of a compressed core was not read, "" if it was.
        dropped: bytes of large segments of a compressed core that were left out.
        unproved: paths of files that fit, but that the core does not identify.
        problems: descriptions of damaged parts, which are left out.
        interpreter_problems: why interpreters could not be read, after `stacks`.
        interpreter_titles: names and versions of interpreters, after `stacks`.
        arguments: the command line, of which cores keep 79 bytes.
        executable: the path of the program.
        written: when the dump was written, in seconds since 1970.
        minidump: what a minidump says of the process and its system; None for a core.

    Raises OSError, ElfError, MapsError, MinidumpError.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        programs: Iterable[str | os.PathLike[str]] = (),
        sysroot: str | os.PathLike[str] = "",
        allows: Callable[[str], bool] | None = None,
    ) -> None:
        self._programs = tuple(os.fspath(program) for program in programs)
        self._paths = LocalPaths(os.fspath(sysroot).rstrip("/"), allows)
        self.path = os.fspath(path)
        self.minidump: MinidumpFacts | None = None
        self._unpacked: UnpackedCore | None = None
        self._stamp = stamp_of(path)
        core = None if _is_elf(path) else self._read_other()
        if core is None:
            with self._elf() as elf:
                core = read_core(elf, self._programs, self._paths)
                self.problems = tuple(map(str, elf.problems))
            self.written = os.stat(path).st_mtime
        self.fault, self.dropped = "", 0
        if self._unpacked is not None:
            self.fault, self.dropped = self._unpacked.fault, self._unpacked.dropped
        self.record = core.snapshot
        self.threads: tuple[CoreThread, ...] = core.threads
        self.missing, self.unproved = core.missing, core.unproved
        if self._unpacked is not None:
            self.missing = self._unpacked.missing
        self.arguments, self.executable = core.arguments, core.executable
        self.interpreter_problems: tuple[str, ...] = ()
        self.interpreter_titles: tuple[str, ...] = ()

    def _read_other(self) -> CoreMappings | None:
        """Read a minidump; None for other files, after the core in one of them has been unpacked."""
        from whence.dumps.facts import MinidumpFacts
        from whence.dumps.minidump import Minidump, is_minidump
        from whence.dumps.minidump_process import read_minidump
        from whence.dumps.unpacked import unpacked

        with naming(self.path):
            self._unpacked = unpacked(self.path)
        if self._unpacked is not None or not is_minidump(self.path):
            return None
        with Minidump.open(self.path) as dump:
            core = read_minidump(dump, self._programs, self._paths)
            self.minidump = MinidumpFacts.of(dump)
            self.problems = tuple(map(str, dump.problems))
            self.written = float(dump.time)
        return core

    def _elf(self) -> ElfFile:
        return ElfFile.open(self.path) if self._unpacked is None else self._unpacked.elf(self.path)

    def _check_unchanged(self) -> None:
        if stamp_of(self.path) != self._stamp:
            raise MapsError("", None, "the file changed since it was opened", code=CHANGED, path=self.path)

    @contextmanager
    def _opened(self) -> Iterator[ProcessDump]:
        """Open the file again, which must be unchanged. Raises OSError, ElfError, MapsError, MinidumpError."""
        self._check_unchanged()
        if self.minidump is not None:
            from whence.dumps.minidump import Minidump
            from whence.dumps.minidump_process import minidump_dump, read_minidump

            with Minidump.open(self.path) as dump:
                yield minidump_dump(dump, read_minidump(dump, self._programs, self._paths))
        else:
            with self._elf() as elf:
                yield core_dump(elf, read_core(elf, self._programs, self._paths))

    def vdso_image(self, mapping: Mapping) -> bytes:
        with suppress(OSError, FormatError), self._opened() as dump:
            return dump.read(mapping.start, min(mapping.size, VDSO_LIMIT))
        return b""

    @property
    def title(self) -> str:
        return f"the core {self.path}"

    def machine(self) -> tuple[int, int, ByteOrder]:
        """Return the number of its machine in ELF, its bits and its byte order. Raises OSError, WhenceError."""
        with self._opened() as dump:
            return dump.machine, dump.bits, dump.order

    def read(self, address: int, size: int) -> bytes:
        """Return all `size` bytes of memory at an address. Raises OSError, WhenceError if the dump has not all."""
        with self._opened() as dump:
            content = dump.read(address, size)
        if len(content) < size:
            fault = f"the dump does not have the {size} bytes at {address:#x}"
            raise MapsError("", None, fault, path=self.path)
        return content

    def read_available(self, ranges: Sequence[tuple[int, int]]) -> list[bytes]:
        """Return memory at (address, size) pairs, as far as the dump has it. Raises OSError, WhenceError."""
        with self._opened() as dump:
            return [dump.read(address, size) for address, size in ranges]

    def regions(self) -> list[AddressRegion]:
        """Return what the process had mapped, in order of address, as far as the dump says. Raises like `read`."""
        self._check_unchanged()
        if self.minidump is not None:
            from whence.dumps.minidump import Minidump
            from whence.dumps.minidump_process import minidump_regions

            with Minidump.open(self.path) as dump:
                return minidump_regions(dump)
        with self._elf() as elf:
            return core_regions(elf)

    def save_minidump(
        self, path: str | os.PathLike[str], locator: Locator | None = None, *, all_memory: bool = False
    ) -> WrittenMinidump:
        """Write a core as a minidump, with the memory that stacks need or, with `all_memory`, all memory.

        `locator` finds the files whose tables unwinding reads; by default those of this machine. Raises OSError,
        FormatError; Unsupported for a machine that minidumps do not have; WrongUse if it is a minidump already.
        """
        from whence.unwind.to_minidump import write_core_minidump

        if self.minidump is not None:
            raise WrongUse(f"{self.path} is a minidump already")
        if locator is None:
            with Symbolizer() as own:
                return self.save_minidump(path, own.locator, all_memory=all_memory)
        self._check_unchanged()
        with self._elf() as elf, atomic_write(path) as file:
            core = read_core(elf, self._programs, self._paths)
            return write_core_minidump(elf, core, file, locator, written=int(self.written), all_memory=all_memory)

    def stacks(
        self,
        symbolizer: Symbolizer | None = None,
        *,
        tids: Collection[int] | None = None,
        scan: bool = False,
        variables: bool = False,
        limits: Limits | None = None,
        interpreters: bool = True,
        native: bool = True,
    ) -> list[Stack]:
        """Return the stack of every thread, in the order of `threads`, with names.

        Args:
            symbolizer: names the frames; its Locator finds files. By default a new one.
            tids: only these threads.
            scan: guess callers that no unwind table gives; such frames have FoundBy.SCAN.
            variables: read the arguments and local variables of each frame (`NamedFrame.variables`).
            limits: how much of each variable is read.
            interpreters: put the frames of CPython in their places.
            native: unwind native frames; False for the frames of CPython only, which is faster.

        Raises OSError and FormatError if the dump can no longer be read; a bad thread, frame or file only ends
        a stack early (`Stack.end`).
        """
        if symbolizer is None:
            with Symbolizer() as own:
                return self.stacks(
                    own, tids=tids, scan=scan, variables=variables, limits=limits, interpreters=interpreters,
                    native=native,
                )  # fmt: skip
        if not native:
            return self._interpreted_stacks(symbolizer, tids)
        values: list[FrameVariables] | None = None
        interpreted: dict[int, InterpretedThread] = {}
        names: dict[int, str] = {}
        unwound = recorded_stacks if variables else opened_stacks
        with self._opened() as dump, unwound(dump, symbolizer.locator, tids=tids, scan=scan) as opened:
            stacks = opened.stacks
            if variables:
                values = _variables(dump, opened, symbolizer.locator, limits)
            if interpreters:
                reader = Interpreters.of_dump(dump, opened)
                threads = [NativeThread(stack.tid, stack.thread_pointer, stack.unwound) for stack in stacks]
                reader.walk(threads)
                self.interpreter_problems, self.interpreter_titles = tuple(reader.problems), tuple(reader.titles)
                interpreted = reader.merged(threads, opened.memory.read)
                keys = [ThreadKey(thread.tid, thread.pointer) for thread in threads]
                names = reader.thread_names(keys, opened.memory.read)
        frames = named(self, [stack.unwound for stack in stacks], symbolizer, values)
        return [
            replaced(
                with_interpreter(_stack(stack, of_stack), stack.unwound, interpreted.get(stack.tid)),
                python_name=names.get(stack.tid, ""),
            )
            for stack, of_stack in zip(stacks, frames, strict=True)
        ]

    def _interpreted_stacks(self, symbolizer: Symbolizer, tids: Collection[int] | None) -> list[Stack]:
        """Return the stacks of CPython's threads without native frames."""
        with self._opened() as dump, opened_stacks(dump, symbolizer.locator, tids=tids, unwinds=False) as opened:
            interpreters, threads = _walked(dump, opened)
            self.interpreter_problems, self.interpreter_titles = (
                tuple(interpreters.problems),
                tuple(interpreters.titles),
            )
            interpreted = interpreters.stacks(threads, opened.memory.read)
            names = interpreters.thread_names(threads, opened.memory.read)
        return [
            replaced(
                only_interpreted(_stack(stack, ()), interpreted.get(stack.tid)), python_name=names.get(stack.tid, "")
            )
            for stack in opened.stacks
        ]

    def tasks(self, symbolizer: Symbolizer | None = None, *, tids: Collection[int] | None = None) -> Tasks:
        """Return the tasks of asyncio (of threads `tids`), with the coroutines that each one awaits.

        `problems` of the result says what could not be read. Raises OSError, FormatError.
        """
        if symbolizer is None:
            with Symbolizer() as own:
                return self.tasks(own, tids=tids)
        with self._opened() as dump, opened_stacks(dump, symbolizer.locator, tids=tids, unwinds=False) as opened:
            interpreters, threads = _walked(dump, opened)
            located = interpreters.tasks(opened.memory.read)
            located.read()
            return named_tasks(interpreters, located, threads, opened.memory.read, tids=tids, is_live=False)

    def goroutines(self, symbolizer: Symbolizer | None = None, *, system: bool = False) -> NamedGoroutines:
        """Return all goroutines of a Go program (1.17 to 1.27), in the order of their creation.

        With `system`, stacks include the runtime's own functions. `problems` of the result says what could not be read.
        Raises OSError, FormatError.
        """
        if symbolizer is None:
            with Symbolizer() as own:
                return self.goroutines(own, system=system)
        with self._opened() as dump:
            goroutines = dump_goroutines(dump, symbolizer.locator)
        return name_goroutines(self, goroutines, symbolizer, system=system)

    def explain_stack(self, tid: int, symbolizer: Symbolizer, *, scan: bool = False) -> tuple[Stack, list[str]] | None:
        """Return a thread's stack and the rule that found each frame's caller; None for an unknown tid.

        Raises OSError, FormatError.
        """
        with self._opened() as dump:
            explained = explain_dump_stack(dump, tid, symbolizer.locator, scan=scan)
        if explained is None:
            return None
        stack, rules = explained
        (frames,) = named(self, [stack.unwound], symbolizer)
        return _stack(stack, frames), rules


def _is_elf(path: str | os.PathLike[str]) -> bool:
    with open_regular(path, ElfError) as (descriptor, _):
        return read_at(descriptor, len(ELF_MAGIC), 0) == ELF_MAGIC


def _walked(dump: ProcessDump, opened: RecordedStacks) -> tuple[Interpreters, list[ThreadKey]]:
    """Return the interpreters of a dump and the threads that were walked."""
    interpreters = Interpreters.of_dump(dump, opened)
    threads = [ThreadKey(stack.tid, stack.thread_pointer) for stack in opened.stacks]
    interpreters.walk(threads)
    return interpreters, threads


def _variables(
    dump: ProcessDump, recorded: RecordedStacks, locator: Locator, limits: Limits | None
) -> list[FrameVariables]:
    from whence.symbolize.values import OpenedValues

    if recorded.machine is None:
        return [[] for _ in recorded.stacks]
    with OpenedValues(
        recorded.machine, dump.order, recorded.code, recorded.memory, locator, stored=dump.size, limits=limits
    ) as opened:
        return [
            opened.values.of(stack.unwound, states)
            for stack, states in zip(recorded.stacks, recorded.states, strict=True)
        ]


def _stack(stack: ThreadStack, frames: tuple[NamedFrame, ...]) -> Stack:
    unwound = stack.unwound
    return Stack(
        stack.tid, stack.signal, stack.registers, frames, unwound.end, unwound.detail, unwound.skipped, stack.name
    )
