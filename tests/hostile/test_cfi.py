"""Call frame information that asks for more than its bytes justify: millions of rows, states, overlapping FDEs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile import bounded
from tests.hostile.inputs import cfi

MAKERS: list[Callable[[], bytes]] = [
    cfi.row_at_every_byte, cfi.states_of_many_rules, cfi.states_in_turn, cfi.expressions_of_their_own,
    cfi.functions_that_overlap, cfi.empty_functions, cfi.cie_for_each, cfi.long_cie,
]  # fmt: skip


@pytest.mark.parametrize("make", MAKERS)
def test_call_frame_information_takes_time_and_memory_in_proportion(tmp_path: Path, make: Callable[[], bytes]) -> None:
    path = tmp_path / "hostile.eh_frame"
    path.write_bytes(make())
    outcome = bounded(cfi.compile_all, str(path), seconds=3, megabytes=250)
    assert not outcome.error, outcome.error
    rows, damaged = outcome.answer
    assert rows or damaged
