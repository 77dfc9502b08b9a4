"""Context managers that close an object."""

from __future__ import annotations

from whence._base.errors import WhenceError

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self


class Closing:
    """A class with `close` as a context manager."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release what the object holds. Closing again does nothing."""
        raise NotImplementedError


class CheckedClosing(Closing):
    """A class with `check` and `close` as a context manager: the files that it reads are checked, then closed."""

    __slots__ = ()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Check that no file changed, unless an error of another kind is raised, and close."""
        try:
            if error is None or isinstance(error, (WhenceError, OSError)):
                self.check()
        finally:
            self.close()

    def check(self) -> None:
        """Raise a WhenceError if a file was truncated or overwritten since it was opened."""
        raise NotImplementedError
