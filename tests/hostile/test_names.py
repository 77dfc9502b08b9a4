"""Linkage names that stand for far more text than they have letters, and names of a megabyte."""

from __future__ import annotations

import struct
from pathlib import Path

import pytest

from tests.forge.elf import Section, forge
from tests.hostile import bounded
from tests.test_demangle import bomb
from whence.demangle import demangle
from whence.elf.kernels import constants

MEGABYTE = 1 << 20


def numbered(levels: int, count: int) -> list[str]:
    """Different names of about the same expansion."""
    return [bomb(levels).replace("_Z1f", f"_Z{len(str(row)) + 1}f{row}") for row in range(count)]


def program(names: list[str]) -> bytes:
    entry = struct.Struct("<IBBHQQ")
    texts, table = bytearray(b"\0"), bytearray(24)
    for row, name in enumerate(names):
        table += entry.pack(len(texts), 1 << 4 | constants.STT_FUNC, 0, 1, 0x1000 + 16 * row, 16)
        texts += name.encode() + b"\0"
    return forge(
        [
            Section(".text", b"", constants.SHT_NOBITS, flags=6, vaddr=0x1000, size=16 * len(names)),
            Section(".symtab", bytes(table), constants.SHT_SYMTAB, link=".strtab", info=1, align=8, entry_size=24),
            Section(".strtab", bytes(texts), constants.SHT_STRTAB),
        ]
    )


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
    outcome = bounded(["whence", "symbols", path], seconds=1, megabytes=100)
    assert b"f()" in outcome.out


def readable_after(count: int) -> tuple[bool, bool, str]:
    """Whether the first and the last of so many names that expand are readable, and one whose text is surely short."""
    texts = [len(demangle(name)) for name in numbered(11, count)]
    return texts[0] > 1 << 15, texts[-1] > 1 << 15, demangle("_ZNSt6vectorIiSaIiEE9push_backEOi")


def test_other_names_stay_readable_behind_names_that_expand() -> None:
    done = bounded(readable_after, 800, seconds=2, megabytes=150)
    assert done.answer == (True, False, "std::vector<int, std::allocator<int>>::push_back(int&&)")
