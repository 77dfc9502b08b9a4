"""A file's bytes, mapped: read as if they were in memory, and checked afterwards to have been the file's.

Another program may cut the file or write to it at any time (`cp` over a library does both). What was read then is
worth nothing. So every operation that reads a mapped file ends with `check`, before its result is handed out. Where a
system has no SIGBUS (Windows), a mapped file can't be cut, and its time alone is looked at.
"""

from __future__ import annotations

import mmap
import os

try:
    from whence.kernels.mapped import Pages
except ImportError:
    Pages = None

from whence._base.errors import CHANGED

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any

    from whence._base.errors import FormatError

CUT, REWRITTEN, LOST = 1, 2, 3  # of kernels/mapped.pxd
_HAPPENED = {
    CUT: "the file was truncated while it was read",
    REWRITTEN: "the file was overwritten while it was read",
    LOST: "the file's bytes could not be read",
}


class MappedFile:
    """The bytes of an open, regular, non-empty file as `view`; whoever holds a view of them keeps them mapped.

    `error` is the class of what `check` raises. The descriptor stays the caller's.
    """

    __slots__ = ("_pages", "error", "fault", "name", "view")

    def __init__(self, descriptor: int, name: str, error: type[FormatError]) -> None:
        try:
            self._pages: Any = _Unguarded(descriptor) if Pages is None else Pages(descriptor)
        except ValueError:  # it was not empty when it was opened
            raise error("file", None, "it has bytes", fault=_HAPPENED[CUT], code=CHANGED, path=name) from None
        self.fault = self._pages.fault  # what happened to the file, 0 for nothing: quicker to ask than `check`
        self.name, self.error = name, error
        self.view: memoryview = self._pages.view()

    def check(self) -> None:
        """Raise unless the file is as it was when it was mapped."""
        fault = self.fault()
        if fault:
            rule = f"its {len(self.view)} bytes stay as they were when it was opened"
            problem = self.error("file", None, rule, fault=_HAPPENED[fault], code=CHANGED, path=self.name)
            raise problem.with_hint("try again when nothing writes to it")

    def forget(self, start: int, stop: int) -> None:
        """Tell the system that bytes [start, stop) may leave memory: a hint, for whole pages."""
        self._pages.forget(start, stop)


class _Unguarded:
    """What kernels.mapped.Pages does, where there is no such kernel."""

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
