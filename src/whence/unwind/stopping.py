"""Threads of a live process, stopped for as long as their registers and the used part of their stacks are copied.

    stopped = stop_threads(1234, "/proc/1234")
    for thread in stopped.threads:
        print(thread.tid, thread.outcome, thread.held, len(thread.registers))

All threads of a group (GROUP) are stopped together, copied, and let go; what unwinding takes happens afterwards, on the
copy. Threads that were born meanwhile follow, until there are no new ones. Documents: ptrace(2), process_vm_readv(2).
"""

from __future__ import annotations

import enum
import errno
import mmap
import os
import threading
from array import array
from bisect import bisect_right
from collections.abc import Collection, Sequence
from contextlib import suppress
from typing import NamedTuple

from whence._base.reasons import WAIT_FOR_IT, WAIT_FOR_KERNEL, ZOMBIE, Missing, not_traceable
from whence.procmap import maps
from whence.procmap.kernels.constants import READ, WRITE
from whence.procmap.mapping import Mapping
from whence.procmap.process import read_text, status_numbers, tids_of

GROUP = 64  # threads that are stopped at one moment
HIGHEST_PRIORITY = -20
ROUNDS = 8  # of looking for threads born meanwhile
PATIENCE = 500_000_000  # nanoseconds that a thread has to stop
IMPATIENCE = 50_000_000  # the same, after one that did not
STACK_LIMIT = 8 << 20  # bytes copied of one stack
SMALL_STACK = 64 << 10  # bytes that each of many threads has room for
MEMORY = 64 << 20  # bytes copied of all stacks together, unless SMALL_STACK for each is more
REGISTERS_ROOM = 512  # as the kernel has it
NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


class StopOutcome(enum.IntEnum):
    """What became of a thread (unwind/kernels/ptrace.py)."""

    COPIED = 2
    GONE = 3
    DENIED = 4
    BUSY = 5


class StoppedThread(NamedTuple):
    """A thread as it was at one moment. `held` is for how many seconds it was stopped, at most.

    `registers` are those of NT_PRSTATUS, `stack` the bytes of memory from `stack_start` on; both empty where it was not
    stopped. `code` is an errno where that was denied.
    """

    tid: int
    outcome: StopOutcome
    registers: bytes = b""
    stack_start: int = 0
    stack: memoryview = memoryview(b"")
    held: float = 0.0
    code: int = 0


class Regions:
    """Readable ranges of a process's memory, sorted, as the kernel takes them."""

    def __init__(self, mappings: Sequence[Mapping]) -> None:
        self.start = array("Q", [one.start for one in mappings])
        self.end = array("Q", [one.limit for one in mappings])
        self.writable = bytes(bool(one.permissions & WRITE) for one in mappings)

    def index(self, address: int) -> int | None:
        """Which range holds an address."""
        at = bisect_right(self.start, address) - 1
        return at if at >= 0 and address < self.end[at] else None


class StoppedRows:
    """Columns of the kernel, a row a thread."""

    def __init__(self, tids: Sequence[int]) -> None:
        count = len(tids)
        self.tid = array("I", tids)
        self.state = bytearray(count)
        self.code, self.size = (array("I", bytes(4 * count)) for _ in range(2))
        self.registers = bytearray(REGISTERS_ROOM * count)
        self.stack_start, self.stack_offset, self.stack_size, self.held = (
            array("Q", bytes(8 * count)) for _ in range(4)
        )


class Stopped(NamedTuple):
    """The threads of a process in order of tid, and what memory it could read."""

    threads: list[StoppedThread]
    regions: Regions

    @property
    def held(self) -> float:
        """For how many seconds a thread was stopped, at most."""
        return max((thread.held for thread in self.threads), default=0.0)


class StackPointer(NamedTuple):
    """Where the stack pointer is in a register set of `size` bytes."""

    size: int
    at: int
    width: int


def stop_threads(
    pid: int, directory: str, layouts: Sequence[StackPointer], tids: Collection[int] | None = None
) -> Stopped:
    """Stop, copy and let go the threads of a process, or those of `tids` that it has.

    `directory` is the process's in /proc. Raises OSError when there is no such process, or its memory map may not be
    read.
    """
    regions = readable(directory)
    if pid == os.getpid():
        return Stopped([StoppedThread(tid, StopOutcome.DENIED) for tid in tids_of(directory)], regions)
    found: list[list[StoppedThread]] = []
    # the kernel lets go what a thread of ours traced when that ends: a thread of its own, that ends at once
    worker = threading.Thread(
        target=lambda: found.append(_stop_all(pid, directory, regions, layouts, tids)), daemon=True, name="whence-stop"
    )
    worker.start()
    worker.join()
    if not found:
        raise ProcessLookupError(errno.ESRCH, f"there is no process {pid}")
    return Stopped(sorted(found[0]), regions)


def readable(directory: str) -> Regions:
    """The readable ranges of a process. Raises OSError."""
    return Regions(maps.parse(maps.read(directory), directory, READ).mappings)


def _stop_all(
    pid: int, directory: str, regions: Regions, layouts: Sequence[StackPointer], tids: Collection[int] | None
) -> list[StoppedThread]:
    from whence.unwind.kernels import ptrace  # Linux only

    with suppress(OSError):  # raise this thread's priority where allowed, so that the process is resumed promptly
        os.setpriority(os.PRIO_PROCESS, 0, HIGHEST_PRIORITY)
    flat = array("Q", [number for layout in layouts for number in layout])
    known: set[int] = set()
    found: list[StoppedThread] = []
    memory: mmap.mmap | None = None
    used, patience = 0, PATIENCE
    for _ in range(ROUNDS):
        listed = tids_of(directory)
        new = sorted(tid for tid in listed if tid not in known and (tids is None or tid in tids))
        if not new:
            break
        known |= {*new}
        room = max(MEMORY, len(new) * SMALL_STACK)
        if memory is None or room - used < len(new) * SMALL_STACK:
            memory, used = mmap.mmap(-1, room, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE), 0
        most = max(SMALL_STACK, min(STACK_LIMIT, room // len(new)))
        for at in range(0, len(new), GROUP):
            rows = StoppedRows(new[at : at + GROUP])
            used = ptrace.copy_threads(pid, rows, regions, flat, memory, used, most, patience)
            if StopOutcome.BUSY in rows.state:
                patience = IMPATIENCE
            found += _rows(rows, memoryview(memory).toreadonly())
    return found


def _rows(rows: StoppedRows, memory: memoryview) -> list[StoppedThread]:
    out = []
    for at, tid in enumerate(rows.tid):
        begin = REGISTERS_ROOM * at
        offset, size = rows.stack_offset[at], rows.stack_size[at]
        outcome = StopOutcome(rows.state[at])
        registers = bytes(rows.registers[begin : begin + rows.size[at]])
        stack = memory[offset : offset + size]
        code = rows.code[at] if outcome is StopOutcome.DENIED else 0
        held = rows.held[at] / 1e9 if outcome is StopOutcome.COPIED else 0.0
        out.append(StoppedThread(tid, outcome, registers, rows.stack_start[at], stack, held, code))
    return out


# why not


def why_not_stopped(thread: StoppedThread, directory: str) -> Missing:
    """Why a thread has no registers, and what would help."""
    if thread.outcome is StopOutcome.GONE:
        return not_traceable("it has ended")
    if thread.outcome is StopOutcome.BUSY:
        return not_traceable("it did not stop when it was asked to: it is blocked in the kernel", WAIT_FOR_KERNEL)
    if thread.outcome is StopOutcome.DENIED and not thread.code:
        return not_traceable("a process can't trace itself", "use faulthandler, or ask from another process")
    return why_denied(directory, thread.tid, thread.code)


def ended() -> Missing:
    """Why a zombie has no registers."""
    return not_traceable(ZOMBIE, WAIT_FOR_IT)


def why_denied(directory: str, tid: int, code: int = errno.EPERM) -> Missing:
    """Why a thread may not be traced, as far as the system says. `code` is the errno."""
    tracer, scope, owner = _tracer(directory, tid), _scope(), _owner(directory)
    return not_traceable(os.strerror(code), tracer=tracer, scope=scope, owner=owner)


def _tracer(directory: str, tid: int) -> int:
    """The process that traces a thread; 0: none."""
    (tracer,) = status_numbers(f"{directory}/task/{tid}", "TracerPid") or (0,)
    group = status_numbers(f"{os.path.dirname(directory)}/{tracer}", "Tgid") if tracer else []
    return group[0] if group else tracer


def _scope() -> int:
    """Yama's ptrace_scope: 0 where that is not in this kernel."""
    try:
        return int(read_text("/proc/sys/kernel/yama/ptrace_scope"))
    except (OSError, ValueError):
        return 0


def _owner(directory: str) -> int | None:
    try:
        return os.stat(directory).st_uid
    except OSError:
        return None
