"""Mapped files, checked for changes after they were read.

Another program may truncate the file or write to it at any time (`cp` over a library does both), which makes all that
was read unusable. So every operation on a mapped file calls `check` before it returns a result. On systems without
SIGBUS (Windows) a mapped file can't be truncated, and only its modification time is compared.
"""

from __future__ import annotations

import mmap
import os
from contextlib import contextmanager

try:
    from whence.kernels.mapped import Pages
except ImportError:
    Pages = None

from whence._base.errors import CHANGED, WhenceError, naming

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
    from typing import Any

    from whence._base.errors import FormatError

CUT, REWRITTEN, LOST = 1, 2, 3  # of kernels/mapped.pxd
_FAULTS = {
    CUT: "the file was truncated while it was read",
    REWRITTEN: "the file was overwritten while it was read",
    LOST: "the file's bytes could not be read",
}


@contextmanager
def checked(check: Callable[[], None], path: str = "") -> Iterator[None]:
    """Run a block that reads mapped files, and then `check`, which raises if one of them changed.

    An error of the block is replaced by that of `check`, if there is one, and gets the path.
    """
    with naming(path):
        try:
            yield
        except (WhenceError, OSError):
            check()
            raise
        check()


class MappedFile:
    """The bytes of an open, regular, non-empty file as `view`. Views keep the file mapped.

    `error` is the class that `check` raises. The descriptor stays the caller's.
    """

    __slots__ = ("_pages", "error", "fault", "name", "view")

    def __init__(self, descriptor: int, name: str, error: type[FormatError]) -> None:
        try:
            self._pages: Any = _UnguardedPages(descriptor) if Pages is None else Pages(descriptor)
        except ValueError:  # truncated since it was opened
            raise error("", None, _FAULTS[CUT], code=CHANGED, path=name) from None
        self.fault = self._pages.fault  # returns 0 if nothing happened to the file; faster than `check`
        self.name, self.error = name, error
        self.view: memoryview = self._pages.view()

    def check(self) -> None:
        """Raise `error` if the file was truncated or written to since it was mapped."""
        fault = self.fault()
        if fault:
            problem = self.error("", None, _FAULTS[fault], code=CHANGED, path=self.name)
            raise problem.with_hint("try again when nothing writes to it")

    def forget(self, start: int, stop: int) -> None:
        """Hint that bytes [start, stop) may leave memory; affects whole pages."""
        self._pages.forget(start, stop)


class _UnguardedPages:
    """A substitute for kernels.mapped.Pages on systems without it."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = os.dup(descriptor)
        self.mapping = mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
        self._state = self._now()

    def _now(self) -> tuple[int, int]:
        status = os.fstat(self._descriptor)
        return status.st_size, status.st_mtime_ns

    def fault(self) -> int:
        now = self._now()
        return 0 if now == self._state else CUT if now[0] < self._state[0] else REWRITTEN

    def view(self) -> memoryview:
        return memoryview(self.mapping)

    def forget(self, start: int, stop: int) -> None:
        pass

    def __del__(self) -> None:
        os.close(self._descriptor)
