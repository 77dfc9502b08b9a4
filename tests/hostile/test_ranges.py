"""Scopes that nest deep or lie over each other, and line rows below them: what the one table makes of them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.forge.ranges import Names, S, rows, scopes
from tests.hostile import bounded
from whence._base.model import Source
from whence.lidia.writer import to_bytes
from whence.ranges import Ranges
from whence.ranges.caller_files import caller_files
from whence.ranges.merge import merge
from whence.ranges.overlay import overlay_lines

COUNT = 100_000
STORED = 10  # bytes of debug info that a scope or a row takes, at least


def nested() -> list[S]:
    """Return scopes, each of which is inside the previous scope."""
    return [S(row, 2 * COUNT - row, row, f"f{row % 100}") for row in range(COUNT)]


def nested_from_one_start() -> list[S]:
    return [S(0, 2 * COUNT - row, row, "f") for row in range(COUNT)]


def staggered() -> list[S]:
    """Functions that all hold the middle of the code."""
    return [S(row, row + COUNT, 0, f"f{row % 100}") for row in range(COUNT)]


def equal() -> list[S]:
    return [S(0, COUNT, row % 2, "f") for row in range(COUNT)]


def combs() -> list[S]:
    """Every other scope is a whole function over all the short ones."""
    return [S(0, 2 * COUNT, 0, "f") if row % 2 else S(2 * row, 2 * row + 1, 0, "g") for row in range(COUNT)]


def made(make: Callable[[], list[S]], lines: bool) -> int:
    names = Names()
    result = scopes(names, make())
    many: list[tuple[int, str | None, int]] = (
        [(2 * row, f"/f{row % 3}.c", row % 7) for row in range(COUNT)] if lines else []
    )
    item, other = Ranges(names.space), Ranges(names.space)
    for out in (item, other):
        overlay_lines(result, rows(names, many), out, Source.DWARF)
    table = caller_files(merge([item, other]))
    names.done()
    return len(to_bytes(table))


@pytest.mark.parametrize("lines", [False, True], ids=["scopes", "scopes and lines"])
@pytest.mark.parametrize("make", [nested, nested_from_one_start, staggered, equal, combs])
def test_scopes_over_scopes_take_time_and_memory_in_proportion(make: Callable[[], list[S]], lines: bool) -> None:
    outcome = bounded(made, make, lines, seconds=4, megabytes=500, stored=STORED * COUNT * (1 + lines))
    assert outcome.error == ""
