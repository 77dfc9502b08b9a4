"""Linkage names that stand for far more text than they have letters, and names of a megabyte."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.hostile import bounded
from tests.hostile.inputs.names import numbered, program
from whence.demangle import demangle

MEGABYTE = 1 << 20


@pytest.mark.parametrize(("levels", "count"), [(11, 1500), (14, 400)])  # texts of 64 KB that are kept, and of 512 KB
@pytest.mark.parametrize("command", [["symbols"], ["lidia", "create", "--demangle", "-o", "/dev/null"]])
def test_names_that_expand_cost_no_more_than_a_constant_times_their_letters(
    tmp_path: Path, command: list[str], levels: int, count: int
) -> None:
    path = tmp_path / "names.elf"
    path.write_bytes(program(numbered(levels, count)))
    outcome = bounded(["whence", *command, path], seconds=3, megabytes=250)
    assert outcome.code == 0, outcome.error
    assert len(outcome.out) < 64 * path.stat().st_size + 32 * MEGABYTE


def test_names_of_a_megabyte_stay_as_they_are(tmp_path: Path) -> None:
    path = tmp_path / "names.elf"
    names = ["_Z" + str(MEGABYTE) + letter * MEGABYTE + "v" for letter in "abcd"]
    path.write_bytes(program([*names, "_Z1fv"]))
    outcome = bounded(["whence", "symbols", path], seconds=3, megabytes=100)
    assert b"f()" in outcome.out


def readable_after(count: int) -> tuple[bool, bool, str]:
    """Whether the first and the last of so many names that expand are readable, and one whose text is surely short."""
    texts = [len(demangle(name)) for name in numbered(11, count)]
    return texts[0] > 1 << 15, texts[-1] > 1 << 15, demangle("_ZNSt6vectorIiSaIiEE9push_backEOi")


def test_other_names_stay_readable_behind_names_that_expand() -> None:
    done = bounded(readable_after, 800, seconds=2, megabytes=150)
    assert done.answer == (True, False, "std::vector<int, std::allocator<int>>::push_back(int&&)")
