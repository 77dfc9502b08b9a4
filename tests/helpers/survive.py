"""What a test means that asks for no more than that a call ends well."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from whence._base.errors import WhenceError

Answer = TypeVar("Answer")


def survives(
    call: Callable[..., Answer],
    *arguments: object,
    refused: type[Exception] | tuple[type[Exception], ...] = WhenceError,
    **options: object,
) -> Answer | None:
    """Return the result of a call, or None if it raises an error in `refused`; any other error fails the test.

    For damaged input, which has no right answer. `refused` is () if even a WhenceError is a failure.
    """
    try:
        return call(*arguments, **options)
    except refused:
        return None
