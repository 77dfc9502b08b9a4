"""Threads that wait for one another, without threading, which imports functools, collections and four modules more: one
address of an ELF file does without them."""

from __future__ import annotations

from _thread import allocate_lock, start_new_thread

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from collections.abc import Callable


class Condition:
    """As threading's, as far as it is used here: a lock, and threads that wait until what it guards has changed."""

    __slots__ = ("_lock", "_waiting")

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._waiting: list[LockType] = []  # each held until something has changed

    def __enter__(self) -> None:
        self._lock.acquire()

    def __exit__(self, *_: object) -> None:
        self._lock.release()

    def wait_for(self, is_so: Callable[[], bool]) -> None:
        """Wait, with the lock held but for that time, until it is so."""
        while not is_so():
            changed = allocate_lock()
            changed.acquire()
            self._waiting.append(changed)
            self._lock.release()
            try:
                changed.acquire()
            finally:
                self._lock.acquire()

    def notify_all(self) -> None:
        """Have all that wait look again. Called with the lock held."""
        for changed in self._waiting:
            changed.release()
        self._waiting.clear()


class NoThreadError(RuntimeError):
    """The system refuses a thread: a user and a container may have only so many. Who can do without one does."""


class Started:
    """Work on a thread of its own; the process ends without waiting for it. What it raises is printed.

    Raises NoThreadError.
    """

    __slots__ = ("_done",)

    def __init__(self, work: Callable[..., object], *arguments: object) -> None:
        self._done = done = allocate_lock()
        done.acquire()
        job = [(work, arguments)]

        def run() -> None:
            try:
                _call(job)
            finally:
                done.release()

        try:
            start_new_thread(run, ())
        except RuntimeError as error:
            raise NoThreadError(*error.args) from None

    def join(self) -> None:
        """Wait for the end of the work."""
        with self._done:
            pass


def _call(job: list[tuple[Callable[..., object], tuple[object, ...]]]) -> None:
    """Do the work. The thread has nothing of it when it is done: whoever waited may close what it used."""
    work, arguments = job.pop()
    work(*arguments)
