"""blocks does what contextlib does."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from whence import blocks

KINDS = [blocks.contextmanager, contextlib.contextmanager]


def outcome(work: Callable[[], object]) -> object:
    """What comes of it: a value, or the kind and the words of an exception."""
    try:
        return work()
    except BaseException as error:
        return type(error), str(error), type(error.__cause__)


def runs(function: Callable[..., Iterator[Any]], error: BaseException | None) -> list[object]:
    """What comes of a block of each kind that raises this error."""

    def run(kind: Any) -> object:
        seen: list[object] = []

        def work() -> object:
            with kind(function)(seen) as value:
                seen.append(value)
                if error is not None:
                    raise error
            return "went on"

        return outcome(work), seen

    return [run(kind) for kind in KINDS]


def passes_on(seen: list[object]) -> Iterator[int]:
    try:
        yield 1
    finally:
        seen.append("end")


def passes_over(seen: list[object]) -> Iterator[int]:
    try:
        yield 2
    except (ValueError, StopIteration) as error:
        seen.append(str(error))


def raises_another(seen: list[object]) -> Iterator[int]:
    try:
        yield 3
    except ValueError as error:
        raise OSError("another") from error


def raises_later(seen: list[object]) -> Iterator[int]:
    yield 4
    raise OSError("at the end")


def yields_twice(seen: list[object]) -> Iterator[int]:
    with contextlib.suppress(ValueError):
        yield 5
    yield 6


def yields_never(seen: list[object]) -> Iterator[int]:
    if seen:
        yield 7


@pytest.mark.parametrize("function", [passes_on, passes_over, raises_another, raises_later, yields_twice, yields_never])
@pytest.mark.parametrize(
    "error", [None, ValueError("wrong"), StopIteration("stop"), RuntimeError("run"), KeyboardInterrupt()]
)
def test_a_block_ends_as_one_of_contextlib(function: Callable[..., Iterator[Any]], error: BaseException | None) -> None:
    ours, theirs = runs(function, error)
    assert ours == theirs


@pytest.mark.parametrize("error", [None, FileNotFoundError("absent"), ValueError("wrong")])
def test_suppress_passes_over_what_contextlib_does(error: BaseException | None) -> None:
    def work(suppress: Any) -> object:
        with suppress(OSError, KeyError):
            if error is not None:
                raise error
        return "went on"

    assert outcome(lambda: work(blocks.suppress)) == outcome(lambda: work(contextlib.suppress))


def test_a_block_keeps_its_function_s_name_and_words() -> None:
    made = blocks.contextmanager(passes_on)
    assert (made.__name__, made.__doc__, made.__module__) == (passes_on.__name__, passes_on.__doc__, __name__)
