"""A context manager that closes an object."""

from __future__ import annotations

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Self


class Closing:
    """A class with `close` as a context manager."""

    __slots__ = ()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Release what the object holds. Closing again does nothing."""
        raise NotImplementedError
