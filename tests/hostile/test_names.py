"""Linkage names that stand for far more text than they have letters, and names of a megabyte."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile import bounded
from tests.hostile.inputs.names import numbered, program
from whence.demangle import demangle

MEGABYTE = 1 << 20


@pytest.mark.parametrize("levels", [9, 14])
@pytest.mark.parametrize("command", [["symbols"], ["lidia", "create", "--demangle", "-o", "/dev/null"]])
def test_names_that_expand_cost_no_more_than_a_constant_times_their_letters(
    tmp_path: Path, command: list[str], levels: int
) -> None:
    path = tmp_path / "names.elf"
    path.write_bytes(program(numbered(levels, 2500)))
    outcome = bounded(["whence", *command, path], seconds=6, megabytes=400)
    assert outcome.code == 0, outcome.error
    assert len(outcome.out) < 64 * path.stat().st_size + 64 * MEGABYTE


def test_names_of_a_megabyte_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "names.elf"
    names = ["_Z" + str(MEGABYTE) + letter * MEGABYTE + "v" for letter in "abcd"]
    path.write_bytes(program([*names, "_Z1fv"]))
    outcome = bounded(["whence", "symbols", path], seconds=1, megabytes=100)
    assert b"f()" in outcome.out


def readable_after(count: int) -> tuple[bool, str]:
    """Whether a name whose text is surely short is readable after so many that are not."""
    kept = [demangle(name) == name for name in numbered(12, count)]
    return any(kept), demangle("_ZNSt6vectorIiSaIiEE9push_backEOi")


def test_other_names_stay_readable_behind_names_that_expand() -> None:
    done = bounded(readable_after, 5000, seconds=3, megabytes=250)
    assert done.answer == (True, "std::vector<int, std::allocator<int>>::push_back(int&&)")
