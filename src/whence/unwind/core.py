"""The stacks of all threads in a dump.

    with ElfFile.open("core") as elf:
        for stack in core_stacks(elf, read_core(elf), locator):
            print(stack.tid, stack.signal, stack.unwound.end, [hex(frame.pc) for frame in stack.unwound.frames])

A thread's notes follow its NT_PRSTATUS (core(5)). In cores written by the kernel, the thread that crashed is first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

from whence._base.records import replaced
from whence.dumps.core import ThreadNotes, mapped_files, thread_notes
from whence.dumps.process import FileEntry, MemoryRange, ProcessDump, ThreadState
from whence.dumps.signals import Signal, read_signal, signal_code
from whence.objects.machines import machine_name
from whence.unwind.explaining import ExplainingUnwinder, rules_of
from whence.unwind.memory import DumpMemory, RecordedMemory
from whence.unwind.modules import CoreCode, Modules
from whence.unwind.recording import FrameState, RecordingUnwinder
from whence.unwind.registers import MACHINES
from whence.unwind.steps import End, FoundBy, StackFrame, Unwound
from whence.unwind.unwinder import Unwinder
from whence.unwind.walking import PlainWalker

if TYPE_CHECKING:
    from whence.dumps.process import CoreMappings
    from whence.locator.locator import Locator
    from whence.objects.elf import ElfFile
    from whence.unwind.goroutines import Goroutines
    from whence.unwind.registers import Machine

NOT_UNWOUND = "native frames are not unwound"


class ThreadStack(NamedTuple):
    """A thread of a dump: the signal it received (or None), its registers by name, its stack, and its name.

    `thread_pointer` is the address of its thread-local storage, 0 if unknown.
    """

    tid: int
    signal: Signal | None
    registers: dict[str, int]
    unwound: Unwound
    name: str = ""
    thread_pointer: int = 0


def explain_dump_stack(
    dump: ProcessDump, tid: int, locator: Locator | None = None, *, scan: bool = False
) -> tuple[ThreadStack, list[str]] | None:
    """Return the stack of one thread and the rule that led to the caller of each frame; None for an unknown tid."""
    machine = _machine_of(dump)
    with _opened(dump, locator) as (_, code, memory):
        unwinder = None
        if machine is not None:
            unwinder = ExplainingUnwinder(machine, code, memory, dump.order, stored=dump.size)
            unwinder.scan = scan
        for thread in dump.threads:
            if thread.tid == tid:
                stack = _stack(dump, thread, machine, unwinder)
                return stack, rules_of(stack.unwound, [] if unwinder is None else unwinder.rules)
        return None


def core_stacks(
    elf: ElfFile,
    core: CoreMappings,
    locator: Locator | None = None,
    *,
    tids: Collection[int] | None = None,
    scan: bool = False,
) -> list[ThreadStack]:
    """Return the stacks of the threads of an open core, as `dump_stacks` does. Raises MapsError for damaged notes."""
    return dump_stacks(core_dump(elf, core), locator, tids=tids, scan=scan)


def dump_stacks(
    dump: ProcessDump,
    locator: Locator | None = None,
    *,
    tids: Collection[int] | None = None,
    scan: bool = False,
) -> list[ThreadStack]:
    """Return the stacks of the threads of a dump, in its order.

    Args:
        dump: a core, by `core_dump`, or a minidump.
        locator: finds the files of the process; without it only memory in the dump is used.
        tids: only these threads.
        scan: guess callers that nothing else finds.

    Returns:
        One stack per thread. A damaged thread or file ends its stacks with a reason.
    """
    with opened_stacks(dump, locator, tids=tids, scan=scan) as opened:
        return opened.stacks


class RecordedStacks(NamedTuple):
    """Stacks, and what variables and the frames of interpreters are read from: the process's files, code and memory.

    `states` are those of the frames of each stack, if they were recorded.
    """

    machine: Machine | None
    modules: Modules
    code: CoreCode
    memory: DumpMemory
    stacks: list[ThreadStack]
    states: list[list[FrameState]]


@contextmanager
def opened_stacks(
    dump: ProcessDump,
    locator: Locator | None = None,
    *,
    tids: Collection[int] | None = None,
    scan: bool = False,
    unwinds: bool = True,
) -> Iterator[RecordedStacks]:
    """Return the stacks that `dump_stacks` returns, while the files are open; without `unwinds`, no frames."""
    machine = _machine_of(dump)
    with _opened(dump, locator) as (modules, code, memory):
        unwinder = None
        if machine is not None and unwinds:
            walker = PlainWalker(machine, dump.order, code, dump.memory)
            unwinder = Unwinder(machine, code, memory, dump.order, stored=dump.size, walker=walker)
            unwinder.scan = scan
        selected = [thread for thread in dump.threads if tids is None or thread.tid in tids]
        if not unwinds:
            stacks = [_without_frames(thread) for thread in selected]
        else:
            stacks = [_stack(dump, thread, machine, unwinder) for thread in selected]
        yield RecordedStacks(machine, modules, code, memory, stacks, [])


@contextmanager
def stacks_with_reads(
    dump: ProcessDump, locator: Locator | None = None
) -> Iterator[tuple[RecordedStacks, RecordedMemory]]:
    """Return the stacks of all threads, and memory that has recorded what was read for them, while files are open."""
    machine = _machine_of(dump)
    with _opened(dump, locator) as (modules, code, memory):
        recorded = RecordedMemory(memory)
        unwinder = None
        if machine is not None:
            unwinder = Unwinder(machine, code, recorded, dump.order, stored=dump.size)
        stacks = [_stack(dump, thread, machine, unwinder) for thread in dump.threads]
        yield RecordedStacks(machine, modules, code, memory, stacks, []), recorded


@contextmanager
def recorded_stacks(
    dump: ProcessDump, locator: Locator | None = None, *, tids: Collection[int] | None = None, scan: bool = False
) -> Iterator[RecordedStacks]:
    """Return the stacks that `dump_stacks` returns with the states of their frames, while the files are open."""
    machine = _machine_of(dump)
    with _opened(dump, locator) as (modules, code, memory):
        recorded = RecordedStacks(machine, modules, code, memory, [], [])
        unwinder = None
        if machine is not None:
            unwinder = RecordingUnwinder(machine, code, memory, dump.order, stored=dump.size)
            unwinder.scan = scan
        for thread in dump.threads:
            if tids is not None and thread.tid not in tids:
                continue
            recorded.stacks.append(_stack(dump, thread, machine, unwinder))
            states = []
            if machine is not None and unwinder is not None and thread.registers:
                states = unwinder.states_of(recorded.stacks[-1].unwound)
                states[:1] = [state._replace(wide=machine.wide_registers(thread.wide)) for state in states[:1]]
            recorded.states.append(states)
        yield recorded


def dump_goroutines(dump: ProcessDump, locator: Locator | None = None) -> Goroutines:
    """Return the goroutines of the Go program that left a dump."""
    from whence.unwind.goroutines import Goroutines, read_goroutines

    machine = _machine_of(dump)
    if machine is None:
        return Goroutines("", 0, [], [f"stacks of {machine_name(dump.machine)} are not unwound"])
    with _opened(dump, locator) as (modules, code, memory):
        unwinder = Unwinder(machine, code, memory, dump.order, stored=dump.size)
        threads = [_stack(dump, thread, machine, unwinder).unwound for thread in dump.threads]
        return read_goroutines(modules, memory, unwinder, threads)


@contextmanager
def _opened(dump: ProcessDump, locator: Locator | None) -> Iterator[tuple[Modules, CoreCode, DumpMemory]]:
    """Open the files of a dump as they are needed, and close them at the end."""
    modules = Modules(dump.snapshot, locator)
    try:
        memory = DumpMemory(dump.memory, dump.files, modules.read_entry)
        yield modules, CoreCode(modules, memory), memory
    finally:
        modules.close()


def core_dump(elf: ElfFile, core: CoreMappings) -> ProcessDump:
    """Return what an open core has for unwinding. Raises MapsError if its notes are damaged."""
    machine = MACHINES.get((elf.machine, elf.bits))
    if machine is not None and machine.order != elf.order:
        machine = None
    return ProcessDump(
        elf.machine, elf.bits, elf.order, elf.size, core.snapshot, _memory_of(elf), _file_entries(elf, core),
        [_thread_state(elf, core, thread, machine) for thread in thread_notes(elf)],
    )  # fmt: skip


def _memory_of(elf: ElfFile) -> list[MemoryRange]:
    """Return the bytes of the PT_LOAD segments by address; the first of overlapping segments wins."""
    ranges, end = list[MemoryRange](), 0
    for segment in sorted((each for each in elf.segments if each.is_loaded), key=lambda each: each.vaddr):
        size = max(0, min(segment.file_size, segment.memory_size, elf.size - segment.file_offset))
        if size and segment.vaddr >= end:
            ranges.append(MemoryRange(segment.vaddr, elf.data[segment.file_offset : segment.file_offset + size]))
            end = ranges[-1].end
    return ranges


def _machine_of(dump: ProcessDump) -> Machine | None:
    machine = MACHINES.get((dump.machine, dump.bits))
    if machine is None or machine.order != dump.order:
        return None
    return replaced(machine, address_mask=machine.address_mask & dump.address_mask)


def _file_entries(elf: ElfFile, core: CoreMappings) -> list[FileEntry]:
    """Return the mapped files by NT_FILE or, without it, by the snapshot."""
    return mapped_files(elf) or [
        FileEntry(mapping.start, mapping.end, mapping.offset, mapping.path)
        for mapping in core.snapshot.mappings
        if mapping.kind.has_file
    ]


def _thread_state(elf: ElfFile, core: CoreMappings, thread: ThreadNotes, machine: Machine | None) -> ThreadState:
    status, order, tid = thread.status, elf.order, thread.tid
    signal = read_signal(thread.signal, thread.info, elf.bits, order) if thread.signal else None
    if machine is None or len(status) < machine.status_size:
        problem = f"of {machine_name(elf.machine)}" if machine is None else f"NT_PRSTATUS has {len(status)} bytes"
        about = next((other for other in core.threads if other.tid == tid and other.pc is not None), None)
        pc, sp = (None, None) if about is None else (about.pc, about.sp)
        return ThreadState(tid, signal, {}, pc, sp, problem=problem)
    pc, values = machine.read_status(status, order)
    registers, pointer = machine.named(pc, values), machine.thread_pointer(status, order)
    code = signal_code(thread.info, order) if signal is not None else 0
    sp = values[machine.sp]
    return ThreadState(tid, signal, registers, pc, sp, pointer, wide=thread.wide, signal_code=code)


def _without_frames(thread: ThreadState) -> ThreadStack:
    unwound = Unwound((), End.COMPLETE, NOT_UNWOUND)
    return ThreadStack(thread.tid, thread.signal, thread.registers, unwound, thread.name, thread.thread_pointer)


def _stack(dump: ProcessDump, thread: ThreadState, machine: Machine | None, unwinder: Unwinder | None) -> ThreadStack:
    tid, signal, name = thread.tid, thread.signal, thread.name
    if machine is None or unwinder is None or not thread.registers:
        problem = thread.problem or f"of {machine_name(dump.machine)}"
        frames: tuple[StackFrame, ...] = ()
        if thread.pc is not None:
            frames = (StackFrame(thread.pc, thread.sp or 0, FoundBy.REGISTERS, exact=True),)
        return ThreadStack(tid, signal, thread.registers, Unwound(frames, End.NO_REGISTERS, problem), name)
    pc, values = machine.numbered(thread.registers)
    pointer = thread.thread_pointer
    return ThreadStack(tid, signal, thread.registers, unwinder.unwind(pc, values, pointer), name, pointer)
