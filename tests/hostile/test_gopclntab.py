"""Go's tables where functions share their pc-value tables and inline trees, step at every byte, and nest deep."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.forge.gopclntab import Function, program
from tests.hostile import bounded
from tests.hostile.inputs.gopclntab import SIZE, deep_trees, old_deep_trees, standstill

Make = Callable[[], bytes]


def line_at_every_byte() -> bytes:
    """One table of steps, which twenty functions share (equal tables are stored once)."""
    lines = [(at, 1 + at % 2) for at in range(SIZE)]
    return program([Function(f"main.f{row}", SIZE, lines, [(0, 0)]) for row in range(20)])


def short_functions() -> bytes:
    return program([Function(f"main.f{row}", 1, [(0, 1)], [(0, 0)]) for row in range(10_000)])


def many_pieces() -> bytes:
    """Text in as many pieces as there are functions."""
    count = 4000
    functions = [Function(f"main.f{row}", 16, [(0, 1)], [(0, 0)]) for row in range(count)]
    pieces = [(16 * row, 16 * row + 16, 0x401000 + 16 * (count - 1 - row)) for row in range(count)]
    return program(functions, pieces=pieces)


MAKERS: list[Make] = [
    line_at_every_byte, deep_trees, old_deep_trees, standstill, short_functions, many_pieces,
]  # fmt: skip


@pytest.mark.parametrize("make", MAKERS)
def test_tables_that_functions_share_take_time_and_memory_in_proportion(tmp_path: Path, make: Make) -> None:
    path = tmp_path / "hostile.elf"
    path.write_bytes(make())
    command: list[str | Path] = ["whence", "lidia", "create", path, "-o", "/dev/null"]
    outcome = bounded(command, seconds=4, megabytes=300)
    assert outcome.code in (0, 3), outcome.error
