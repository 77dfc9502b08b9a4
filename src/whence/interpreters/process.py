"""The interpreters of one process, and the merged stacks of its threads.

interpreters = Interpreters.find(modules, memory.read, ranges, "little")
interpreters.walk(threads)                   # or pass interpreters.reader to the code that stops threads
merged = interpreters.merged(threads, read)  # by tid
"""

from __future__ import annotations

from bisect import bisect_right
from itertools import pairwise
from typing import TYPE_CHECKING, NamedTuple

from whence.interpreters import cpython
from whence.interpreters.merging import Merged, merge
from whence.interpreters.model import InterpretedStack, ThreadKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from whence._base.window import ByteOrder
    from whence.dumps.process import ProcessDump
    from whence.interpreters.cpython_code import Read
    from whence.interpreters.model import InterpretedTask, Runtime
    from whence.unwind.core import RecordedStacks
    from whence.unwind.kernels.stopped import StoppedReader
    from whence.unwind.modules import Modules
    from whence.unwind.steps import Unwound

WORD_BITS = 64  # of processes whose interpreters are read
FINDERS = (cpython.find,)  # one for each kind of runtime


class NativeThread(NamedTuple):
    """A native thread with its stack. `pointer` is the address of its thread-local storage, 0 if unknown."""

    tid: int
    pointer: int
    unwound: Unwound


class InterpretedThread(NamedTuple):
    """The frames of an interpreter in one thread, alone (`stack`) and in their places (`merged`)."""

    stack: InterpretedStack
    merged: Merged

    @property
    def is_complete(self) -> bool:
        """Return True if all frames are in their places and have names."""
        return not self.merged.problem and all(frame.frame is not None for frame in self.stack.frames)


class ProcessTasks:
    """Reads the tasks of the event loops of all runtimes of a process: `read`, while threads are stopped; `tasks`."""

    def __init__(self, runtimes: Sequence[Runtime], read: Read) -> None:
        """Locate the event loops. `read` returns memory; raises Unreadable."""
        self._readers = [(runtime, runtime.locate_tasks(read)) for runtime in runtimes]
        self._seen: set[int] = set()

    @property
    def problems(self) -> list[str]:
        """The problems of what could not be read."""
        return [problem for _, reader in self._readers for problem in reader.problems]

    @property
    def has_tasks(self) -> bool:
        """Return True if a runtime has event loops."""
        return any(reader.has_tasks for _, reader in self._readers)

    def read(self) -> None:
        """Read the tasks of the threads that were walked since the last call."""
        for runtime, reader in self._readers:
            new = [state for state in runtime.thread_states() if state not in self._seen]
            self._seen.update(new)
            reader.read(new)

    def tasks(self, threads: Sequence[ThreadKey], stacks: Mapping[int, InterpretedStack]) -> list[InterpretedTask]:
        """Return the tasks that were read, in order of thread and name.

        Args:
            threads: the threads that were walked.
            stacks: their frames, by tid.
        """
        return [task for runtime, reader in self._readers for task in reader.tasks(runtime.tids(threads), stacks)]


class Interpreters:
    """The runtimes of one process."""

    def __init__(self, runtimes: Sequence[Runtime], problems: Sequence[str]) -> None:
        """Prepare to walk. `problems` says which runtimes cannot be read."""
        self.runtimes, self._problems = list(runtimes), list(problems)
        readers = [runtime.reader for runtime in runtimes]
        for reader, following in pairwise(readers):
            reader.following = following

    @classmethod
    def find(
        cls,
        modules: Modules,
        read: Read,
        writable: Iterable[tuple[int, int]],
        order: ByteOrder,
        pointer_offset: int = -1,
    ) -> Interpreters:
        """Find the runtimes of a process.

        Args:
            modules: the mapped files.
            read: returns memory; raises Unreadable.
            writable: [start, end) of writable memory that is mapped from files.
            order: byte order of the process.
            pointer_offset: offset of the thread pointer among the registers of a stopped thread, -1 if unknown.
        """
        runtimes: list[Runtime] = []
        problems: list[str] = []
        for find in FINDERS:
            interpreters, unread = find(modules, read, writable, order, pointer_offset)
            runtimes += interpreters
            problems += unread
        return cls(runtimes, problems)

    @classmethod
    def of_dump(cls, dump: ProcessDump, opened: RecordedStacks) -> Interpreters:
        """Return the interpreters of an open dump, ready to walk."""
        if opened.machine is None or dump.bits != WORD_BITS:
            return cls([], [])
        entries = sorted((entry.start, entry.end) for entry in dump.files)
        starts = [start for start, _ in entries]

        def is_of_file(address: int) -> bool:
            index = bisect_right(starts, address) - 1
            return index >= 0 and address < entries[index][1]

        data = [(piece.start, piece.end) for piece in dump.memory if not entries or is_of_file(piece.start)]
        interpreters = cls.find(opened.modules, opened.memory.read, data, dump.order)
        for start, content in dump.memory if interpreters.runtimes else ():
            interpreters.add_segment(start, content)
        return interpreters

    def __repr__(self) -> str:
        return f"<Interpreters: {', '.join(self.titles) or 'none'}>"

    def tasks(self, read: Read) -> ProcessTasks:
        """Locate the event loops. `read` returns memory; raises Unreadable."""
        return ProcessTasks(self.runtimes, read)

    @property
    def titles(self) -> list[str]:
        """Names and versions of the runtimes."""
        return [runtime.title for runtime in self.runtimes]

    @property
    def problems(self) -> list[str]:
        """Runtimes that cannot be read, and those of which threads may be missing, with the reasons."""
        return [*self._problems, *(f"{each.title}: {each.problem}" for each in self.runtimes if each.problem)]

    @property
    def reader(self) -> StoppedReader | None:
        """The kernel that reads all frames while threads are stopped; None without a runtime."""
        return self.runtimes[0].reader if self.runtimes else None

    def reader_before(self, last: StoppedReader) -> StoppedReader:
        """Return what reads all frames and continues with another reader."""
        if self.runtimes:
            self.runtimes[-1].reader.following = last
        return self.reader or last

    def begin(self) -> None:
        """Forget the frames of the last stop."""
        for runtime in self.runtimes:
            runtime.begin()

    def add_segment(self, start: int, data: memoryview | bytes) -> None:
        """Add memory of a core, in order of address."""
        for runtime in self.runtimes:
            runtime.add_segment(start, data)

    def walk(self, threads: Sequence[NativeThread | ThreadKey], *, record: bool = False) -> None:
        """Walk the threads of a core; `record` what is read for `recorded_reads`."""
        for runtime in self.runtimes:
            runtime.walk([ThreadKey(thread.tid, thread.pointer) for thread in threads], record=record)

    def recorded_reads(self) -> list[tuple[int, int]]:
        """Return [start, end) of the memory of a core that finding the runtimes and walking their threads needs."""
        return [read for runtime in self.runtimes for read in runtime.recorded_reads()]

    def stacks(self, threads: Sequence[ThreadKey], read: Read, *, is_live: bool = False) -> dict[int, InterpretedStack]:
        """Return the frames of the interpreters by tid, as `merged` does, without native frames."""
        by_tid: dict[int, InterpretedStack] = {}
        for runtime in self.runtimes:
            for tid, stack in runtime.stacks(threads, read, is_live=is_live).items():
                by_tid[tid] = by_tid[tid].joined(stack) if tid in by_tid else stack
        return by_tid

    def merged(
        self, threads: Sequence[NativeThread], read: Read, *, is_live: bool = False
    ) -> dict[int, InterpretedThread]:
        """Return the merged stacks by tid. Threads without a frame of an interpreter are missing.

        Args:
            threads: the threads that were walked.
            read: returns memory; raises Unreadable.
            is_live: the process has continued since its threads were walked.
        """
        by_tid = self.stacks([ThreadKey(thread.tid, thread.pointer) for thread in threads], read, is_live=is_live)
        return {
            thread.tid: InterpretedThread(
                by_tid[thread.tid], merge(thread.unwound, by_tid[thread.tid], self._is_evaluation)
            )
            for thread in threads
            if thread.tid in by_tid
        }

    def thread_names(self, threads: Sequence[ThreadKey], read: Read) -> dict[int, str]:
        """Return the names that the program gave to threads that were walked, by tid, where the kernel has others."""
        return {tid: name for runtime in self.runtimes for tid, name in runtime.thread_names(threads, read).items()}

    def _is_evaluation(self, address: int) -> bool:
        return any(runtime.is_evaluation(address) for runtime in self.runtimes)
