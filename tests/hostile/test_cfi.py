"""Call frame information that asks for more than its bytes justify: millions of rows, states, overlapping FDEs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.hostile import bounded
from tests.hostile.inputs import cfi

# the maker of a section, then how many rows it compiles to and how many FDEs are damaged
SECTIONS: list[tuple[Callable[[], bytes], tuple[int, int]]] = [
    (cfi.row_at_every_byte, (0, 5)),
    (cfi.states_of_many_rules, (0, 5)),
    (cfi.states_in_turn, (0, 5)),
    (cfi.expressions_of_their_own, (748_935, 0)),
    (cfi.functions_that_overlap, (209_714, 0)),
    (cfi.empty_functions, (209_714, 0)),
    (cfi.cie_for_each, (95_326, 0)),
    (cfi.long_cie, (50_000, 0)),
]


@pytest.mark.parametrize(("make", "expected"), SECTIONS)
def test_call_frame_information_takes_time_and_memory_in_proportion(
    tmp_path: Path, make: Callable[[], bytes], expected: tuple[int, int]
) -> None:
    path = tmp_path / "hostile.eh_frame"
    path.write_bytes(make())
    outcome = bounded(cfi.compile_all, str(path), seconds=3, megabytes=250)
    assert not outcome.error, outcome.error
    assert tuple(outcome.answer) == expected
