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
    """What a call returns, or None where it refuses its input by one of our errors; any other error fails the test.

    For damaged input, which nobody knows the right answer to. `refused` is () where even our errors are wrong.
    """
    try:
        return call(*arguments, **options)
    except refused:
        return None
