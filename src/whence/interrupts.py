"""Ctrl-C within a second, however long a kernel's call takes.

Python handles signals in the main thread, between two of its instructions: a kernel that works for ten seconds makes
Ctrl-C wait for ten. So work that may take long is done on a thread of its own while the main thread waits, which a
signal ends at once. The same exception is raised in the thread, too, as soon as it comes back to Python, and until
then, for at most PATIENCE_SECONDS, the main thread waits for it, so that it can clean up. A kernel's call that takes
longer ends by itself, as everything here is bounded by its input's bytes; its results are dropped, and the process
may end meanwhile.
"""

from __future__ import annotations

import os
import sys
from _signal import SIG_IGN, SIGINT, getsignal  # type: ignore[import-not-found]
from _thread import allocate_lock, get_ident, get_native_id, start_new_thread
from collections.abc import Callable

TYPE_CHECKING = False
if TYPE_CHECKING:
    from _thread import LockType
    from typing import ParamSpec, TypeVar

    Arguments = ParamSpec("Arguments")
    Result = TypeVar("Result")

PATIENCE_SECONDS = 0.3
LOOK_SECONDS = 0.25  # a signal that another thread got is noticed after so long


def interruptible(work: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """`work` that a signal's exception (KeyboardInterrupt, usually) ends soon when the main thread calls it.

    On other threads, where no signal is handled, and where Ctrl-C is ignored, it is called as it is. Costs some 50
    microseconds.
    """

    def waited(*arguments: Arguments.args, **options: Arguments.kwargs) -> Result:
        if not in_main_thread() or getsignal(SIGINT) == SIG_IGN:
            return work(*arguments, **options)
        results: list[Result] = []
        errors: list[BaseException] = []
        done = allocate_lock()
        done.acquire()

        def run() -> None:
            try:
                results.append(work(*arguments, **options))
            except BaseException as error:
                errors.append(error)
                _free_imports()
            finally:
                done.release()

        try:
            worker = start_new_thread(run, ())
        except RuntimeError:  # the system refuses a thread: Ctrl-C then waits for the kernel's call
            return work(*arguments, **options)
        try:
            while not done.acquire(timeout=LOOK_SECONDS):
                pass
        except BaseException as error:
            _stop(worker, type(error), done)
            raise
        if errors:
            try:
                raise errors[0]
            finally:
                errors.clear()  # it refers to this frame
        return results.pop()

    for name in ("__module__", "__name__", "__qualname__", "__doc__"):  # as functools.wraps does, which takes importing
        setattr(waited, name, getattr(work, name, None))
    waited.__dict__["__wrapped__"] = work
    return waited


def in_main_thread() -> bool:
    """Whether this is the thread that handles signals."""
    if sys.platform == "linux":
        return get_native_id() == os.getpid()
    import threading

    return get_ident() == threading.main_thread().ident


def _free_imports() -> None:
    """Give back the lock of imports, if this thread was interrupted between taking it and being ready to give it back:
    nobody could import anything any more."""
    import _imp

    try:
        while True:
            _imp.release_lock()
    except RuntimeError:  # it is not held by this thread
        pass


class _Interrupted(KeyboardInterrupt, SystemExit):
    """A KeyboardInterrupt that ends a thread without a word. Before Python 3.12 a thread that is being made has the
    ident of the one that makes it, and may get what is raised in that one."""


def _stop(worker: int, kind: type[BaseException], done: LockType) -> None:
    """Raise an exception of this kind in a thread, and wait a moment for its end."""
    import ctypes

    kind = _Interrupted if kind is KeyboardInterrupt else kind
    ctypes.pythonapi.PyThreadState_SetAsyncExc(ctypes.c_ulong(worker), ctypes.py_object(kind))
    done.acquire(timeout=PATIENCE_SECONDS)
