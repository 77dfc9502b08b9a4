"""The stack of every thread that a core file records.

    with ElfFile.open("core") as elf:
        for stack in core_stacks(elf, read_core(elf), locator):
            print(stack.tid, stack.signal, stack.unwound.end, [hex(frame.pc) for frame in stack.unwound.frames])

Notes of a thread follow its NT_PRSTATUS (core(5)); in cores of the kernel the thread that ended the process is first.
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
    """A thread of a core: the signal it received (None: none), its registers by name, and its stack."""

    tid: int
    signal: Signal | None
    registers: dict[str, int]
    unwound: Unwound


def explain_core_stack(
    elf: ElfFile, core: CoreMappings, tid: int, locator: Locator | None = None, *, scan: bool = False
) -> tuple[ThreadStack, list[str]] | None:
    """One thread of an open core, and by which rule the caller of each frame was found; None for no such thread.

    Raises MapsError for damaged notes.
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
                found = _stack(elf, core, thread, machine, unwinder)
                return found, rules_of(found.unwound, [] if unwinder is None else unwinder.ways)
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
    """The stacks of the threads of an open core in its order, or of those of `tids` alone; with guesses if `scan`.

    `locator` finds the files of the process. A damaged thread or file ends its stacks with a reason.

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
        wanted = [thread for thread in thread_notes(elf) if tids is None or thread.tid in tids]
        return [_stack(elf, core, thread, machine, unwinder) for thread in wanted]
    finally:
        modules.close()


def core_goroutines(elf: ElfFile, core: CoreMappings, locator: Locator | None = None) -> Goroutines:
    """The goroutines of the Go program that left a core. Raises MapsError for damaged notes."""
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
    """What was mapped of files, by NT_FILE; without one, what is known of the program."""
    return mapped_files(elf) or [
        FileEntry(one.start, one.end, one.offset, one.path) for one in core.snapshot.mappings if one.kind.has_file
    ]


def _stack(
    elf: ElfFile, core: CoreMappings, thread: ThreadNotes, machine: Machine | None, unwinder: Unwinder | None
) -> ThreadStack:
    status, order, tid = thread.status, elf.order, thread.tid
    signal = read_signal(thread.signal, thread.info, elf.bits, order) if thread.signal else None
    if machine is None or unwinder is None or len(status) < machine.status_size:
        detail = f"of {machine_name(elf.machine)}" if machine is None else f"NT_PRSTATUS has {len(status)} bytes"
        known = next((one for one in core.threads if one.tid == tid and one.pc is not None), None)
        place = () if known is None else (StackFrame(known.pc or 0, known.sp or 0, FoundBy.REGISTERS, exact=True),)
        return ThreadStack(tid, signal, {}, Unwound(place, End.NO_REGISTERS, detail))
    pc, values = machine.read_status(status, order)
    unwound = unwinder.unwind(pc, values, machine.thread_pointer(status, order))
    return ThreadStack(tid, signal, machine.named(pc, values), unwound)
