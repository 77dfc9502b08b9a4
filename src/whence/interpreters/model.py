"""What a runtime tells about threads: the frames of its language, and which native frames run them.

A `Runtime` is an interpreter in a process or core. Each one has a module of its own, which finds it (`find`) and walks
its frames; merging.py needs no more than the result.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple, Protocol

if TYPE_CHECKING:
    from collections.abc import Sequence

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
    """The frames that one native frame of the interpreter runs, innermost first; there may be none.

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


class Runtime(Protocol):
    """An interpreter in a process."""

    @property
    def title(self) -> str:
        """Name and version for people, such as "CPython 3.13.0"."""
        ...

    @property
    def reader(self) -> StoppedReader:
        """What reads the frames while threads are stopped."""
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
