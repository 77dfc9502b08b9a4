"""The threads of a runtime: the frames of its language, and the native frames that run them.

A `Runtime` is an interpreter in a process or core. Each one has a module of its own, which finds it (`find`) and walks
its frames; merging.py needs no more than the result.
"""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from whence._base.model import Frame
    from whence.interpreters.cpython_code import Read
    from whence.unwind.kernels.stopped import StoppedReader


class ThreadKey(NamedTuple):
    """A native thread: its ID, and the address of its thread-local storage (0: unknown)."""

    tid: int
    pointer: int = 0


class InterpretedFrame(NamedTuple):
    """A frame of the interpreted language at an address; `why` says why it has no name, if so."""

    address: int
    frame: Frame | None
    why: str = ""


class Evaluation(NamedTuple):
    """The frames that one native frame of the interpreter runs, innermost first; possibly empty.

    `mark` is an address inside of that native frame; 0 if the version has no such mark.
    """

    mark: int
    frames: tuple[InterpretedFrame, ...]


class InterpretedStack(NamedTuple):
    """The evaluations of one thread, innermost first.

    `problem` says why frames are missing, "" if none are. `has_lock` is True if the thread holds the global interpreter
    lock, None if the runtime has no lock. `interpreters` are the numbers of its interpreters. `skipped` frames of a
    deep stack are left out, after the innermost 4,096.
    """

    evaluations: tuple[Evaluation, ...] = ()
    problem: str = ""
    has_lock: bool | None = None
    interpreters: tuple[int, ...] = ()
    skipped: int = 0

    @property
    def frames(self) -> list[InterpretedFrame]:
        """All frames, innermost first."""
        return [frame for evaluation in self.evaluations for frame in evaluation.frames]

    def joined(self, other: InterpretedStack) -> InterpretedStack:
        """Return the stack of a thread that several interpreters know: inner evaluations are at lower addresses."""
        evaluations = (*self.evaluations, *other.evaluations)
        if all(evaluation.mark for evaluation in evaluations):
            evaluations = tuple(sorted(evaluations, key=lambda evaluation: evaluation.mark))
        locks = [lock for lock in (self.has_lock, other.has_lock) if lock is not None]
        return InterpretedStack(
            evaluations, self.problem or other.problem, any(locks) if locks else None,
            (*self.interpreters, *other.interpreters), self.skipped + other.skipped,
        )  # fmt: skip


class TaskState(StrEnum):
    """The state of the coroutine of a task."""

    RUNNING = "running"
    SUSPENDED = "suspended"
    CREATED = "created"  # it has not started
    UNKNOWN = "unknown"


class InterpretedTask(NamedTuple):
    """A task of an event loop that is not done, and its frames: those of the coroutines that it awaits.

    `tid` is the thread that runs its event loop, 0 if none does. `frames` are innermost first; those of a running task
    include the calls of its coroutines. `awaits` is the name of the task that it awaits, `waits_for` the type of the
    future or awaitable at the end of its chain; "" if unknown. `awaited_by` has the names of the tasks that wait
    for it. `problem` says why frames are missing, "" if none are.
    """

    address: int
    name: str
    tid: int
    state: TaskState
    frames: tuple[InterpretedFrame, ...]
    awaits: str = ""
    waits_for: str = ""
    awaited_by: tuple[str, ...] = ()
    problem: str = ""


class TaskReader(Protocol):
    """Reads the tasks of one runtime. `problems` says what could not be read."""

    problems: list[str]

    @property
    def has_tasks(self) -> bool:
        """Return True if the runtime has event loops."""
        ...

    def read(self, thread_states: Sequence[int]) -> None:
        """Read the tasks of threads that are stopped now, by the addresses of their states, and of no thread."""
        ...

    def tasks(self, tids: Mapping[int, int], stacks: Mapping[int, InterpretedStack]) -> list[InterpretedTask]:
        """Return the tasks that were read, in order of thread and name.

        Args:
            tids: threads by the addresses of their states.
            stacks: the frames of threads, with which a running coroutine's frames continue.
        """
        ...


class Runtime(Protocol):
    """An interpreter in a process."""

    @property
    def title(self) -> str:
        """Name and version for people, such as "CPython 3.13.0"."""
        ...

    @property
    def problem(self) -> str:
        """Why threads may be missing from the last walk, "" if none are."""
        ...

    @property
    def reader(self) -> StoppedReader:
        """The kernel that reads the frames while threads are stopped."""
        ...

    def recorded_reads(self) -> list[tuple[int, int]]:
        """Return [start, end) of the memory of a core that finding the runtime and walking its threads needs."""
        ...

    def begin(self) -> None:
        """Forget the frames of the last stop."""
        ...

    def add_segment(self, start: int, data: memoryview | bytes) -> None:
        """Add memory of a core, in order of address."""
        ...

    def walk(self, threads: Sequence[ThreadKey], *, record: bool = False) -> None:
        """Walk the threads of a core; `record` what is read for `recorded_reads`."""
        ...

    def stacks(self, threads: Sequence[ThreadKey], read: Read, *, is_live: bool = False) -> dict[int, InterpretedStack]:
        """Return the stacks that were walked, by tid. Threads that the runtime does not know are missing.

        Args:
            threads: the native threads that were walked.
            read: returns memory; raises Unreadable.
            is_live: the process has continued since its threads were walked.
        """
        ...

    def is_evaluation(self, pc: int) -> bool:
        """Return True if a runtime address is in the function that evaluates frames, by its name."""
        ...

    def thread_names(self, threads: Sequence[ThreadKey], read: Read) -> dict[int, str]:
        """Return the names that the program gave to threads that were walked, by tid, where the kernel has others."""
        ...

    def locate_tasks(self, read: Read) -> TaskReader:
        """Return what reads the tasks of the runtime's event loops, after it has located them."""
        ...

    def thread_states(self) -> list[int]:
        """Return the addresses of the states of threads that were walked."""
        ...

    def tids(self, threads: Sequence[ThreadKey]) -> dict[int, int]:
        """Return the threads that were walked, by the addresses of their states."""
        ...
