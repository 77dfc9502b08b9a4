"""What is closed at the end of a `with` block."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self


class Closing:
    """A class with `close` as a context manager: the block has the object itself, and its end closes it."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of what it holds. To close it again does nothing."""
        raise NotImplementedError
