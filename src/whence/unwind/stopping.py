"""Stop the threads of a live process while their registers and the used part of their stacks are copied.

    stopped = stop_threads(1234, "/proc/1234", layouts)
    for thread in stopped.threads:
        print(thread.tid, thread.outcome, thread.stopped_seconds, len(thread.registers))

The threads of a group (GROUP) are stopped together, copied, and released; unwinding happens later, on the copy. Threads
that were created meanwhile follow until there are no new ones. See ptrace(2) and process_vm_readv(2).
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
from typing import TYPE_CHECKING, NamedTuple

from whence._base.reasons import WAIT_FOR_IT, WAIT_FOR_KERNEL, ZOMBIE, Missing, not_traceable
from whence.procmap import maps
from whence.procmap.kernels.constants import READ, WRITE
from whence.procmap.mapping import Mapping
from whence.procmap.process import read_text, status_numbers, tids_of

if TYPE_CHECKING:
    from whence.unwind.kernels.stopped import StoppedReader

GROUP = 64  # threads stopped together
HIGHEST_PRIORITY = -20
ROUNDS = 8  # of looking for new threads
TIMEOUT = 500_000_000  # nanoseconds for a thread to stop
SHORT_TIMEOUT = 50_000_000  # after a thread that did not stop
STACK_LIMIT = 8 << 20  # bytes copied of one stack
SMALL_STACK = 64 << 10  # bytes copied of one of many stacks, at least
MEMORY = 64 << 20  # bytes copied of all stacks, unless SMALL_STACK for each is more
REGISTER_BYTES = 512  # as in kernels/ptrace.py
NO_RESERVE = getattr(mmap, "MAP_NORESERVE", 0x4000)


class StopOutcome(enum.IntEnum):
    """The result of stopping a thread (kernels/ptrace.py)."""

    COPIED = 2
    GONE = 3
    DENIED = 4
    BUSY = 5


class StoppedThread(NamedTuple):
    """A thread as it was at one moment; it was stopped for at most `stopped_seconds`.

    `registers` are those of NT_PRSTATUS, `stack` the memory from `stack_start`; both are empty if the thread was not
    stopped. `code` is the errno if stopping was denied.
    """

    tid: int
    outcome: StopOutcome
    registers: bytes = b""
    stack_start: int = 0
    stack: memoryview = memoryview(b"")
    stopped_seconds: float = 0.0
    code: int = 0


class Regions:
    """Readable ranges of a process's memory, sorted, as columns."""

    def __init__(self, mappings: Sequence[Mapping]) -> None:
        self.start = array("Q", [mapping.start for mapping in mappings])
        self.end = array("Q", [mapping.limit for mapping in mappings])
        self.writable = bytes(bool(mapping.permissions & WRITE) for mapping in mappings)

    def index(self, address: int) -> int | None:
        """Return the index of the range that contains an address, or None."""
        index = bisect_right(self.start, address) - 1
        return index if index >= 0 and address < self.end[index] else None


class StoppedRows:
    """Columns for the kernel, with a row for each thread."""

    def __init__(self, tids: Sequence[int]) -> None:
        count = len(tids)
        self.tid = array("I", tids)
        self.state = bytearray(count)
        self.code, self.size = (array("I", bytes(4 * count)) for _ in range(2))
        self.registers = bytearray(REGISTER_BYTES * count)
        self.stack_start, self.stack_offset, self.stack_size, self.duration = (
            array("Q", bytes(8 * count)) for _ in range(4)
        )


class StoppedProcess(NamedTuple):
    """The threads of a process in order of tid, and its readable memory."""

    threads: list[StoppedThread]
    regions: Regions

    @property
    def stopped_seconds(self) -> float:
        """The longest time that a thread was stopped."""
        return max((thread.stopped_seconds for thread in self.threads), default=0.0)


class StackPointer(NamedTuple):
    """The position of the stack pointer in a register set of `size` bytes."""

    size: int
    offset: int
    width: int


def stop_threads(
    pid: int,
    directory: str,
    layouts: Sequence[StackPointer],
    tids: Collection[int] | None = None,
    reader: StoppedReader | None = None,
) -> StoppedProcess:
    """Stop, copy and release the threads of a process, or only `tids`.

    Args:
        directory: the process's folder in /proc.
        reader: reads more of the threads while they are stopped.

    Raises:
        OSError: the process does not exist, or its memory map must not be read.
    """
    regions = readable(directory)
    if pid == os.getpid():
        return StoppedProcess([StoppedThread(tid, StopOutcome.DENIED) for tid in tids_of(directory)], regions)
    results: list[list[StoppedThread]] = []
    # the kernel releases what a thread traces when it ends: use a thread that ends at once
    worker = threading.Thread(
        target=lambda: results.append(_stop_all(pid, directory, regions, layouts, tids, reader)),
        daemon=True,
        name="whence-stop",
    )
    worker.start()
    worker.join()
    if not results:
        raise ProcessLookupError(errno.ESRCH, f"there is no process {pid}")
    return StoppedProcess(sorted(results[0]), regions)


def readable(directory: str) -> Regions:
    """Return the readable ranges of a process. Raises OSError."""
    return Regions(maps.parse(maps.read(directory), directory, READ).mappings)


def _stop_all(
    pid: int,
    directory: str,
    regions: Regions,
    layouts: Sequence[StackPointer],
    tids: Collection[int] | None,
    reader: StoppedReader | None,
) -> list[StoppedThread]:
    from whence.unwind.kernels import ptrace  # Linux only

    with suppress(OSError):  # a higher priority, if allowed, resumes the process sooner
        os.setpriority(os.PRIO_PROCESS, 0, HIGHEST_PRIORITY)
    flat = array("Q", [number for layout in layouts for number in layout])
    seen: set[int] = set()
    stopped: list[StoppedThread] = []
    memory: mmap.mmap | None = None
    used, timeout = 0, TIMEOUT
    for _ in range(ROUNDS):
        listed = tids_of(directory)
        new = sorted(tid for tid in listed if tid not in seen and (tids is None or tid in tids))
        if not new:
            break
        seen |= {*new}
        size = max(MEMORY, len(new) * SMALL_STACK)
        if memory is None or size - used < len(new) * SMALL_STACK:
            memory, used = mmap.mmap(-1, size, mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS | NO_RESERVE), 0
        limit = max(SMALL_STACK, min(STACK_LIMIT, size // len(new)))
        for first in range(0, len(new), GROUP):
            rows = StoppedRows(new[first : first + GROUP])
            used = ptrace.copy_threads(pid, rows, regions, flat, memory, used, limit, timeout, reader)
            if StopOutcome.BUSY in rows.state:
                timeout = SHORT_TIMEOUT
            stopped += _rows(rows, memoryview(memory).toreadonly())
    return stopped


def _rows(rows: StoppedRows, memory: memoryview) -> list[StoppedThread]:
    out = []
    for index, tid in enumerate(rows.tid):
        begin = REGISTER_BYTES * index
        offset, size = rows.stack_offset[index], rows.stack_size[index]
        outcome = StopOutcome(rows.state[index])
        registers = bytes(rows.registers[begin : begin + rows.size[index]])
        stack = memory[offset : offset + size]
        code = rows.code[index] if outcome is StopOutcome.DENIED else 0
        seconds = rows.duration[index] / 1e9 if outcome is StopOutcome.COPIED else 0.0
        out.append(StoppedThread(tid, outcome, registers, rows.stack_start[index], stack, seconds, code))
    return out


def why_not_stopped(thread: StoppedThread, directory: str) -> Missing:
    """Return why a thread has no registers, and a remedy."""
    if thread.outcome is StopOutcome.GONE:
        return not_traceable("it has ended")
    if thread.outcome is StopOutcome.BUSY:
        return not_traceable("it did not stop on request: it is blocked in the kernel", WAIT_FOR_KERNEL)
    if thread.outcome is StopOutcome.DENIED and not thread.code:
        return not_traceable("a process can't trace itself", "use faulthandler, or ask from another process")
    return why_denied(directory, thread.tid, thread.code)


def ended() -> Missing:
    """Return why a zombie has no registers."""
    return not_traceable(ZOMBIE, WAIT_FOR_IT)


def why_denied(directory: str, tid: int, code: int = errno.EPERM) -> Missing:
    """Return why a thread must not be traced, as far as the system tells. `code` is the errno."""
    tracer, scope, owner = _tracer(directory, tid), _scope(), _owner(directory)
    return not_traceable(os.strerror(code), tracer=tracer, scope=scope, owner=owner)


def _tracer(directory: str, tid: int) -> int:
    """Return the process that traces a thread, 0 if there is no tracer."""
    (tracer,) = status_numbers(f"{directory}/task/{tid}", "TracerPid") or (0,)
    group = status_numbers(f"{os.path.dirname(directory)}/{tracer}", "Tgid") if tracer else []
    return group[0] if group else tracer


def _scope() -> int:
    """Return Yama's ptrace_scope, 0 if the kernel has no Yama."""
    try:
        return int(read_text("/proc/sys/kernel/yama/ptrace_scope"))
    except (OSError, ValueError):
        return 0


def _owner(directory: str) -> int | None:
    try:
        return os.stat(directory).st_uid
    except OSError:
        return None
