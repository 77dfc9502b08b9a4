"""The stacks of all threads of a live process: copied while the threads are stopped, unwound afterwards.

    with LiveProcess(1234, "/proc/1234", SnapshotMappings.take(1234), locator) as process:
        for stack in process.stacks():
            print(stack.tid, stack.name, stack.unwound.end, [hex(frame.pc) for frame in stack.unwound.frames])

Memory that unwinding needs beyond the copied stacks (code, the program's tables, alternate signal stacks) is read after
the threads were released. If that memory is writable, the stack's detail says so.
"""

from __future__ import annotations

import os
from bisect import bisect_right, insort
from collections.abc import Collection
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from whence._base.closing import Closing
from whence._base.reasons import Missing
from whence.objects import machines
from whence.procmap.threads import Thread, find_thread, threads
from whence.unwind.explaining import ExplainingUnwinder, rules_of
from whence.unwind.memory import Unreadable
from whence.unwind.modules import CoreCode, Modules
from whence.unwind.recording import FrameState, RecordingUnwinder
from whence.unwind.registers import MACHINES
from whence.unwind.steps import End, FoundBy, StackFrame, Unwound
from whence.unwind.stopping import (
    STACK_LIMIT,
    StackPointer,
    StopOutcome,
    StoppedProcess,
    StoppedThread,
    ended,
    stop_threads,
    why_denied,
    why_not_stopped,
)
from whence.unwind.unwinder import FRAME_BYTES, STEPS_LIMIT, Unwinder
from whence.unwind.walking import PlainWalker

if TYPE_CHECKING:
    from whence.locator.locator import Locator
    from whence.procmap.snapshot import SnapshotMappings
    from whence.unwind.goroutines import Goroutines
    from whence.unwind.kernels.stopped import StoppedReader
    from whence.unwind.registers import Machine

PAGE = 4096
LATER_LIMIT = 256 << 20  # bytes of a stack read after the copy
PAGE_CACHE = 4096  # pages read after the threads were released
# ELF machine and bits by the size of a register set, by the host's machine (uname(2))
HOSTS = {
    "x86_64": {216: (machines.EM_X86_64, 64), 68: (machines.EM_386, 32)},
    "aarch64": {272: (machines.EM_AARCH64, 64), 72: (machines.EM_ARM, 32)},
}
STATUS_REGISTERS = {64: 112, 32: 72}  # pr_reg in struct elf_prstatus


class LiveStack(NamedTuple):
    """A thread of a live process: name, state before it was stopped, registers by name, and stack.

    It was stopped for at most `stopped_seconds`; `why` says why it was not. `thread_pointer` is the address of its
    thread-local storage, 0 if the registers do not have it.
    """

    tid: int
    name: str
    state: str
    registers: dict[str, int]
    unwound: Unwound
    stopped_seconds: float = 0.0
    why: Missing | None = None
    thread_pointer: int = 0


class RecordedThread(NamedTuple):
    """The context of a thread's variables: its machine, the process's code, and the states of its frames."""

    machine: Machine
    code: CoreCode
    states: list[FrameState]


def unseen_stacks(directory: str, tids: Collection[int] | None = None) -> list[LiveStack]:
    """Return names and states of the threads of a process that must not be traced, and why there is no more.

    Raises:
        OSError: the process has ended.
    """
    stacks = []
    for thread in threads(directory):
        if tids is None or thread.tid in tids:
            why = ended() if thread.has_ended else why_denied(directory, thread.tid)
            unwound = Unwound((), End.NO_REGISTERS, why.detail)
            stacks.append(LiveStack(thread.tid, thread.name, thread.state, {}, unwound, why=why))
    return stacks


class LiveMemory:
    """Memory of a live process (memory.Memory): stacks as they were copied, everything else as it is now."""

    def __init__(self, directory: str) -> None:
        self._path = f"{directory}/mem"
        self._file = -1
        self._pages: dict[int, bytes] = {}
        self._copies: list[tuple[int, memoryview]] = []
        self._starts: list[int] = []
        self.read_later = 0  # writable address read after the threads were released; 0: none

    def close(self) -> None:
        if self._file >= 0:
            os.close(self._file)
            self._file = -1

    def reset(self, stopped: StoppedProcess) -> None:
        """Use the stacks copied from these threads, and forget what was read before."""
        self._pages.clear()
        self._regions = stopped.regions
        self._copies = sorted(
            ((thread.stack_start, thread.stack) for thread in stopped.threads if len(thread.stack)), key=itemgetter(0)
        )
        self._starts = [start for start, _ in self._copies]

    def forget(self) -> None:
        """Forget everything that was read, copied stacks too."""
        self._pages.clear()
        self._copies, self._starts = [], []

    def copy(self, address: int) -> memoryview:
        """Copy a stack, from an address to its end, as it is now."""
        bounds = self.region(address)
        stack = memoryview(b"" if bounds is None else self._read_now(address, min(bounds[1] - address, STACK_LIMIT)))
        if len(stack):
            insort(self._copies, (address, stack), key=itemgetter(0))
            self._starts = [start for start, _ in self._copies]
        return stack

    def stack_bytes(self, thread: StoppedThread) -> int:
        """Return the size of a thread's stack, copied or not."""
        bounds = self.region(thread.stack_start) if len(thread.stack) else None
        return 0 if bounds is None else bounds[1] - thread.stack_start

    def full_stack(self, thread: StoppedThread) -> memoryview:
        """Return a thread's stack: the copy, then what follows it as it is now."""
        copied = len(thread.stack)
        missing = min(self.stack_bytes(thread) - copied, LATER_LIMIT)
        if not copied or missing <= 0:
            return thread.stack
        later = self._read_now(thread.stack_start + copied, missing)
        return memoryview(bytes(thread.stack) + later)

    def read(self, address: int, size: int) -> bytes:
        index = bisect_right(self._starts, address) - 1
        if index >= 0:
            start, data = self._copies[index]
            if address + size <= start + len(data):
                return bytes(data[address - start : address - start + size])
        content = self._page(address)[address % PAGE : address % PAGE + size]
        while len(content) < size:
            content += self._page(address + len(content))[: size - len(content)]
        return content

    def _page(self, address: int) -> bytes:
        number = address // PAGE
        if number not in self._pages:
            region = self._regions.index(address)
            if region is None:
                raise Unreadable(address, "in the process")
            if len(self._pages) >= PAGE_CACHE:
                self._pages.clear()
            if self._regions.writable[region]:
                self.read_later = address
            self._pages[number] = self._read_now(number * PAGE)
        if len(self._pages[number]) < PAGE:  # the process has ended
            raise Unreadable(address, "in the process")
        return self._pages[number]

    def read_now(self, address: int, size: int) -> bytes:
        """Return all `size` bytes at an address as they are now. Raises Unreadable."""
        data = self._read_now(address, size)
        if len(data) < size:
            raise Unreadable(address + len(data), "in the process")
        return data

    def _read_now(self, start: int, size: int = PAGE) -> bytes:
        try:
            if self._file < 0:
                self._file = os.open(self._path, os.O_RDONLY)
            return os.pread(self._file, size, start)
        except (OSError, OverflowError):
            return b""

    def region(self, address: int) -> tuple[int, int] | None:
        index = self._regions.index(address)
        return None if index is None else (self._regions.start[index], self._regions.end[index])


class LiveProcess(Closing):
    """A live process whose stacks are requested once or repeatedly. A context manager: it keeps files open."""

    def __init__(
        self,
        pid: int,
        directory: str,
        snapshot: SnapshotMappings,
        locator: Locator | None = None,
        *,
        scan: bool = False,
    ) -> None:
        """Open a process; threads are stopped by the methods.

        Args:
            directory: the process's folder in /proc.
            snapshot: the mappings of the process.
            locator: finds files and debug files.
            scan: guess callers that nothing else finds.
        """
        self.pid, self.directory, self._locator, self._scan = pid, directory, locator, scan
        self._memory = LiveMemory(directory)
        self._sets = HOSTS.get(os.uname().machine, {})
        self._machines = {size: MACHINES[key] for size, key in self._sets.items() if key in MACHINES}
        self._unwinders: dict[int, Unwinder] = {}
        self._explains = self._records = False
        self._recorded: dict[int, RecordedThread] = {}
        self._steps = STEPS_LIMIT
        self._modules: Modules | None = None
        self.update(snapshot)

    @property
    def memory(self) -> LiveMemory:
        """The memory of the process."""
        return self._memory

    @property
    def modules(self) -> Modules:
        """The mapped files."""
        assert self._modules is not None
        return self._modules

    @property
    def machine(self) -> Machine | None:
        """The machine of the process by its files, None if it is not supported."""
        snapshot = self.modules.snapshot
        for mapping, file in zip(snapshot.mappings, snapshot.file_of, strict=True):
            elf = None if file is None else self.modules.of_file(file, mapping).elf
            if elf is not None:
                return MACHINES.get((elf.machine, elf.bits))
        return None

    def update(self, snapshot: SnapshotMappings) -> None:
        """Use new mappings of the process."""
        if self._modules is not None:
            self._modules.close()
        self._modules = Modules(snapshot, self._locator)
        self._unwinders.clear()

    def close(self) -> None:
        if self._modules is not None:
            self._modules.close()
        self._memory.close()

    def stacks(self, tids: Collection[int] | None = None, reader: StoppedReader | None = None) -> list[LiveStack]:
        """Stop all threads (or `tids`), copy and release them, and unwind the copies.

        Args:
            reader: reads more of the threads while they are stopped.

        Raises:
            OSError: the process has ended, or its memory map must not be read.
        """
        layouts = [
            StackPointer(size, machine.status_offsets[machine.sp] - STATUS_REGISTERS[machine.bits], machine.word)
            for size, machine in self._machines.items()
        ]
        about = {thread.tid: thread for thread in threads(self.directory)}
        stopped = stop_threads(self.pid, self.directory, layouts, tids, reader)
        self._memory.reset(stopped)
        self._steps = STEPS_LIMIT + sum(map(self._memory.stack_bytes, stopped.threads)) // FRAME_BYTES
        for unwinder in self._unwinders.values():
            unwinder.steps_left = self._steps
        return [
            self._stack(thread, about.get(thread.tid, Thread(thread.tid, "", "?")))
            for thread in stopped.threads
            if thread.outcome is not StopOutcome.GONE
        ]

    def goroutines(self) -> Goroutines:
        """Stop, copy and release the threads, then read the goroutines.

        Goroutines that no thread runs are read as they are then, each until two readings are equal.

        Raises:
            OSError: the process has ended, or its memory map must not be read.
        """
        from whence.unwind.goroutines import Goroutines, read_goroutines

        stacks = self.stacks()
        if not self._unwinders:
            return Goroutines("", 0, [], ["no thread of the process could be stopped"])
        assert self._modules is not None
        unwinder = next(iter(self._unwinders.values()))
        if unwinder.walker is not None:
            unwinder.walker.set_stack(0, b"")
        threads = [stack.unwound for stack in stacks]
        return read_goroutines(self._modules, self._memory, unwinder, threads, self._memory.forget)

    def explain(self, tid: int) -> tuple[LiveStack, list[str]] | None:
        """Return the stack of a thread and the rule that led to the caller of each frame.

        None if the thread does not exist.

        Raises:
            OSError: the process has ended, or its memory map must not be read.
        """
        self._explains = True
        self._unwinders.clear()
        try:
            stacks = self.stacks([tid])
            unwinders = [each for each in self._unwinders.values() if isinstance(each, ExplainingUnwinder)]
        finally:
            self._explains = False
            self._unwinders.clear()
        rules = [rule for unwinder in unwinders for rule in unwinder.rules]
        return (stacks[0], rules_of(stacks[0].unwound, rules)) if stacks else None

    def recorded(
        self, tids: Collection[int] | None = None, reader: StoppedReader | None = None
    ) -> list[tuple[LiveStack, RecordedThread | None]]:
        """Return what `stacks` does, and for each thread what its variables are read from, as far as it is known.

        Raises:
            OSError: the process has ended, or its memory map must not be read.
        """
        self._records = True
        self._recorded = {}
        self._unwinders.clear()
        try:
            return [(stack, self._recorded.get(stack.tid)) for stack in self.stacks(tids, reader)]
        finally:
            self._records = False
            self._unwinders.clear()

    def _stack(self, thread: StoppedThread, about: Thread) -> LiveStack:
        if thread.outcome is StopOutcome.BUSY:
            stack = self._blocked(thread)
            if stack is not None:
                return stack
        size = len(thread.registers)
        machine = self._machines.get(size)
        if machine is None:
            why = why_not_stopped(thread, self.directory) if thread.outcome is not StopOutcome.COPIED else None
            why = ended() if about.has_ended and why is not None else why
            detail = why.detail if why is not None else f"no supported machine has {size} bytes of registers"
            frames = () if about.pc is None else (StackFrame(about.pc, about.sp or 0, FoundBy.REGISTERS, exact=True),)
            unwound = Unwound(frames, End.NO_REGISTERS, detail)
            return LiveStack(thread.tid, about.name, about.state, {}, unwound, thread.stopped_seconds, why)
        status = bytes(STATUS_REGISTERS[machine.bits]) + thread.registers
        pc, values = machine.read_status(status, "little")
        self._memory.read_later = 0
        unwinder = self._unwinder(size, machine)
        if unwinder.walker is not None:
            unwinder.walker.set_stack(thread.stack_start, self._memory.full_stack(thread))
        pointer = machine.thread_pointer(status, "little")
        unwound = unwinder.unwind(pc, values, pointer)
        if isinstance(unwinder, RecordingUnwinder) and isinstance(unwinder.code, CoreCode):
            self._recorded[thread.tid] = RecordedThread(machine, unwinder.code, unwinder.states_of(unwound))
        if unwound.frames and len(thread.stack) and unwound.frames[-1].sp > thread.stack_start + len(thread.stack):
            self._memory.read_later = self._memory.read_later or thread.stack_start + len(thread.stack)
        if self._memory.read_later:
            later = f"memory at {self._memory.read_later:#x} was read after the thread was released"
            unwound = unwound._replace(detail="; ".join(filter(None, (unwound.detail, later))))
        registers = machine.named(pc, values)
        return LiveStack(
            thread.tid, about.name, about.state, registers, unwound, thread.stopped_seconds, thread_pointer=pointer
        )

    def _blocked(self, thread: StoppedThread) -> LiveStack | None:
        """Unwind a thread that is blocked in the kernel and does not stop, by the registers in /proc.

        These are the pc, the stack pointer and the arguments of its system call. Returns None if they are unknown or
        change meanwhile.
        """
        about = find_thread(self.directory, thread.tid)
        candidate = self._machine_of_files()
        if about is None or about.pc is None or about.sp is None or candidate is None:
            return None
        size, machine = candidate
        values = {**dict(zip(machine.arguments, about.arguments)), machine.sp: about.sp}
        self._memory.read_later = 0
        stack = self._memory.copy(about.sp)
        unwinder = self._unwinder(size, machine)
        if unwinder.walker is not None:
            unwinder.walker.set_stack(about.sp, stack)
        unwound = unwinder.unwind(about.pc, values)
        if find_thread(self.directory, thread.tid) != about:
            return None
        why = why_not_stopped(thread, self.directory)
        details = [f"{why.detail}; unwound by the registers in /proc/{self.pid}/task/{thread.tid}/syscall"]
        if unwound.end is not End.COMPLETE:
            details.append(unwound.detail or unwound.end.sentence)
            unwound = unwound._replace(end=End.NO_REGISTERS)
        unwound = unwound._replace(detail="; ".join(details))
        return LiveStack(thread.tid, about.name, about.state, machine.named(about.pc, values), unwound, why=why)

    def _machine_of_files(self) -> tuple[int, Machine] | None:
        """Return the machine of the process by its files, and the size of its registers.

        None if return addresses are in a register, which /proc does not have.
        """
        assert self._modules is not None
        snapshot = self._modules.snapshot
        for mapping, file in zip(snapshot.mappings, snapshot.file_of, strict=True):
            elf = None if file is None else self._modules.of_file(file, mapping).elf
            if elf is not None:
                for size, machine in self._machines.items():
                    if self._sets[size] == (elf.machine, elf.bits):
                        return (size, machine) if machine.link is None else None
        return None

    def _unwinder(self, size: int, machine: Machine) -> Unwinder:
        if size not in self._unwinders:
            assert self._modules is not None
            code = CoreCode(self._modules, self._memory)
            if self._explains:
                self._unwinders[size] = ExplainingUnwinder(machine, code, self._memory)
            elif self._records:
                self._unwinders[size] = RecordingUnwinder(machine, code, self._memory)
            else:
                walker = PlainWalker(machine, "little", code)
                self._unwinders[size] = Unwinder(machine, code, self._memory, walker=walker)
            self._unwinders[size].scan = self._scan
            self._unwinders[size].steps_left = self._steps
        return self._unwinders[size]
