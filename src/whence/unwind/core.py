"""The stacks of all threads in a core file.

    with ElfFile.open("core") as elf:
        for stack in core_stacks(elf, read_core(elf), locator):
            print(stack.tid, stack.signal, stack.unwound.end, [hex(frame.pc) for frame in stack.unwound.frames])

A thread's notes follow its NT_PRSTATUS (core(5)). In cores written by the kernel, the thread that crashed is first.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING, NamedTuple

from whence.objects.machines import machine_name
from whence.procmap.core import FileEntry, ThreadNotes, mapped_files, thread_notes
from whence.unwind.explaining import ExplainingUnwinder, rules_of
from whence.unwind.goroutines import Goroutines, read_goroutines
from whence.unwind.memory import CoreMemory
from whence.unwind.modules import CoreCode, Modules
from whence.unwind.registers import MACHINES
from whence.unwind.signals import Signal, read_signal
from whence.unwind.steps import End, FoundBy, StackFrame, Unwound
from whence.unwind.unwinder import Unwinder
from whence.unwind.walking import PlainWalker

if TYPE_CHECKING:
    from whence.locator.locator import Locator
    from whence.objects.elf import ElfFile
    from whence.procmap.core import CoreMappings
    from whence.unwind.registers import Machine


class ThreadStack(NamedTuple):
    """A thread of a core: the signal it received (or None), its registers by name, and its stack."""

    tid: int
    signal: Signal | None
    registers: dict[str, int]
    unwound: Unwound


def explain_core_stack(
    elf: ElfFile, core: CoreMappings, tid: int, locator: Locator | None = None, *, scan: bool = False
) -> tuple[ThreadStack, list[str]] | None:
    """Return the stack of one thread and the rule that led to the caller of each frame; None for an unknown tid.

    Raises:
        MapsError: the notes of the core are damaged.
    """
    machine = _machine_of(elf)
    modules = Modules(core.snapshot, locator)
    try:
        memory = CoreMemory(elf, _file_entries(elf, core), modules.bytes_of)
        unwinder = None
        if machine is not None:
            unwinder = ExplainingUnwinder(machine, CoreCode(modules, memory), memory, elf.order, stored=elf.size)
            unwinder.scan = scan
        for thread in thread_notes(elf):
            if thread.tid == tid:
                stack = _stack(elf, core, thread, machine, unwinder)
                return stack, rules_of(stack.unwound, [] if unwinder is None else unwinder.rules)
        return None
    finally:
        modules.close()


def core_stacks(
    elf: ElfFile,
    core: CoreMappings,
    locator: Locator | None = None,
    *,
    tids: Collection[int] | None = None,
    scan: bool = False,
) -> list[ThreadStack]:
    """Return the stacks of the threads of an open core, in its order.

    Args:
        elf: the core file.
        core: its mappings, by procmap's `read_core`.
        locator: finds the files of the process; without it only memory in the core is used.
        tids: only these threads.
        scan: guess callers that nothing else finds.

    Returns:
        One stack per thread. A damaged thread or file ends its stacks with a reason.

    Raises:
        MapsError: the notes of the core are damaged.
    """
    machine = _machine_of(elf)
    modules = Modules(core.snapshot, locator)
    try:
        memory = CoreMemory(elf, _file_entries(elf, core), modules.bytes_of)
        unwinder = None
        if machine is not None:
            code = CoreCode(modules, memory)
            walker = PlainWalker(machine, elf.order, code, memory.segments())
            unwinder = Unwinder(machine, code, memory, elf.order, stored=elf.size, walker=walker)
            unwinder.scan = scan
        selected = [thread for thread in thread_notes(elf) if tids is None or thread.tid in tids]
        return [_stack(elf, core, thread, machine, unwinder) for thread in selected]
    finally:
        modules.close()


def core_goroutines(elf: ElfFile, core: CoreMappings, locator: Locator | None = None) -> Goroutines:
    """Return the goroutines of the Go program that left a core. Raises MapsError for damaged notes."""
    machine = _machine_of(elf)
    if machine is None:
        return Goroutines("", 0, [], [f"stacks of {machine_name(elf.machine)} are not unwound"])
    modules = Modules(core.snapshot, locator)
    try:
        memory = CoreMemory(elf, _file_entries(elf, core), modules.bytes_of)
        unwinder = Unwinder(machine, CoreCode(modules, memory), memory, elf.order, stored=elf.size)
        threads = [_stack(elf, core, thread, machine, unwinder).unwound for thread in thread_notes(elf)]
        return read_goroutines(modules, memory, unwinder, threads)
    finally:
        modules.close()


def _machine_of(elf: ElfFile) -> Machine | None:
    machine = MACHINES.get((elf.machine, elf.bits))
    return machine if machine is not None and machine.order == elf.order else None


def _file_entries(elf: ElfFile, core: CoreMappings) -> list[FileEntry]:
    """Return the mapped files by NT_FILE or, without it, by the snapshot."""
    return mapped_files(elf) or [
        FileEntry(mapping.start, mapping.end, mapping.offset, mapping.path)
        for mapping in core.snapshot.mappings
        if mapping.kind.has_file
    ]


def _stack(
    elf: ElfFile, core: CoreMappings, thread: ThreadNotes, machine: Machine | None, unwinder: Unwinder | None
) -> ThreadStack:
    status, order, tid = thread.status, elf.order, thread.tid
    signal = read_signal(thread.signal, thread.info, elf.bits, order) if thread.signal else None
    if machine is None or unwinder is None or len(status) < machine.status_size:
        detail = f"of {machine_name(elf.machine)}" if machine is None else f"NT_PRSTATUS has {len(status)} bytes"
        about = next((other for other in core.threads if other.tid == tid and other.pc is not None), None)
        frames = () if about is None else (StackFrame(about.pc or 0, about.sp or 0, FoundBy.REGISTERS, exact=True),)
        return ThreadStack(tid, signal, {}, Unwound(frames, End.NO_REGISTERS, detail))
    pc, values = machine.read_status(status, order)
    unwound = unwinder.unwind(pc, values, machine.thread_pointer(status, order))
    return ThreadStack(tid, signal, machine.named(pc, values), unwound)
