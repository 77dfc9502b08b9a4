"""Tables of ELF and core files whose entries share bytes: notes in notes, mapped heads, stubs and relocations."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.forge.core import Mapped, core
from tests.forge.elf import Section, Segment, Symbol, forge
from tests.hostile import bounded
from tests.hostile.inputs.tables import (
    MEGABYTE,
    count_beyond,
    many_relocations,
    many_stubs,
    notes_in_notes,
    one_head_for_all,
)
from whence.objects.elf import ElfFile
from whence.objects.elf.kernels import constants
from whence.procmap.core import read_core


def written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "hostile.elf"
    path.write_bytes(data)
    return path


def mappings_of(path: str) -> tuple[int, list[str]]:
    """How many mappings a core file has, and what was wrong with its notes."""
    with ElfFile.open(path) as elf:
        return len(read_core(elf).snapshot.mappings), list(map(str, elf.problems))


@pytest.mark.parametrize(
    ("make", "rule"),
    [(count_beyond, "entries fit in"), (one_head_for_all, "beginnings of mapped files take more than")],
)
def test_notes_of_a_core_cost_no_more_than_their_bytes(tmp_path: Path, make: object, rule: str) -> None:
    path = written(tmp_path, make())  # type: ignore[operator]
    outcome = bounded(["whence", "core", path], seconds=2, megabytes=150)
    assert outcome.code == 3
    assert rule in outcome.error


def test_notes_in_notes_are_read_as_far_as_they_fit_the_file(tmp_path: Path) -> None:
    path = written(tmp_path, notes_in_notes())
    _, problems = bounded(mappings_of, str(path), seconds=3, megabytes=60).answer
    assert "notes take more than 2 times" in problems[0]


def test_a_core_of_sixty_thousand_mapped_files_is_read_in_proportion(tmp_path: Path) -> None:
    mapped = [Mapped(0x10000 * row, 0x10000 * row + 0x1000, f"/lib/{row}.so", load=False) for row in range(1, 60_000)]
    path = written(tmp_path, core(mapped))
    assert bounded(mappings_of, str(path), seconds=4, megabytes=150).answer == (59_999, [])


@pytest.mark.parametrize("symbols", [1, 60_000])
@pytest.mark.parametrize("command", [["symbols"], ["lidia", "create", "-o", "/dev/null"]])
def test_stubs_that_share_a_long_name_are_bounded(tmp_path: Path, command: list[str], symbols: int) -> None:
    path = written(tmp_path, many_stubs(symbols=symbols))
    outcome = bounded(["whence", *command, path], seconds=3, megabytes=200)
    assert "names of stubs take more than" in outcome.error


@pytest.mark.parametrize("tables", [1, 500])
def test_relocations_of_one_place_cost_no_more_than_their_bytes(tmp_path: Path, tables: int) -> None:
    path = written(tmp_path, many_relocations(tables=tables))
    outcome = bounded(["whence", "addr", path, "0x10"], seconds=3, megabytes=200)
    assert outcome.code in (0, 1), outcome.error


def test_version_tables_are_not_read(tmp_path: Path) -> None:
    """Names of symbols have their versions in .symtab; what .gnu.version says costs nothing, whatever that is."""
    sections = [
        Section(".text", bytes(64), flags=6, vaddr=0x1000),
        Section(".gnu.version", b"\xff\x7f" * MEGABYTE, 0x6FFFFFFF, 2, link=".symtab", entry_size=2),
        Section(".gnu.version_r", b"\1\0\xff\xff" * MEGABYTE, 0x6FFFFFFE, 2, link=".strtab", info=1 << 31),
        Section(".gnu.version_d", b"\1\0\xff\xff" * MEGABYTE, 0x6FFFFFFD, 2, link=".strtab", info=1 << 31),
    ]
    data = forge(sections, [Segment(of=".text")], symbols=[Symbol("main", 0x1000, 16)], type=constants.ET_DYN)
    outcome = bounded(["whence", "symbols", written(tmp_path, data)], seconds=3, megabytes=60)
    assert b"main" in outcome.out
