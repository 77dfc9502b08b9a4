"""ELF files whose tables repeat what costs a few bytes: names that overlap, notes, packed files in files."""

from __future__ import annotations

import lzma
import struct
from pathlib import Path

import pytest

from tests.forge.elf import Section, forge, note, packed
from tests.hostile import bounded, interrupted
from tests.hostile.inputs.elf import big_text, big_text_of_short_names
from whence.objects.elf.kernels import constants

MEGABYTE = 1 << 20


def written(tmp_path: Path, data: bytes) -> Path:
    path = tmp_path / "hostile.elf"
    path.write_bytes(data)
    return path


@pytest.mark.parametrize(
    "command",
    [["symbols"], ["symbols", "--no-demangle"], ["lidia", "create"], ["lidia", "create", "--compat", "go"], ["addr"]],
)
def test_names_of_symbols_that_share_one_string_are_bounded(tmp_path: Path, command: list[str]) -> None:
    path = written(tmp_path, big_text(50_000, 4 * MEGABYTE))
    more = (
        ["-o", tmp_path / "out.lidia"]
        if command[0] == "lidia"
        else ["0x1010", "0x8000"]
        if command[0] == "addr"
        else []
    )
    outcome = bounded(["whence", *command, path, *more], seconds=4, megabytes=350)
    assert (command == ["addr"] and outcome.code == 0) or "take more than" in outcome.error


def test_millions_of_symbols_over_each_other_take_time_in_proportion(tmp_path: Path) -> None:
    entry = struct.Struct("<IBBHQQ")
    rows = 300_000
    table = bytes(24) + b"".join(
        entry.pack(1, 1 << 4 | constants.STT_FUNC, 0, 1, 0x1000 + row // 2, 0 if row % 3 else rows - row)
        for row in range(rows)
    )
    data = forge(
        [
            Section(".text", b"", constants.SHT_NOBITS, flags=6, vaddr=0x1000, size=rows),
            Section(".symtab", table, constants.SHT_SYMTAB, link=".strtab", info=1, align=8, entry_size=24),
            Section(".strtab", b"\0f\0", constants.SHT_STRTAB),
        ]
    )
    outcome = bounded(
        ["whence", "lidia", "create", written(tmp_path, data), "-o", tmp_path / "out"], seconds=3, megabytes=200
    )
    assert outcome.code == 0, outcome.error


def test_notes_that_many_sections_share_are_read_once(tmp_path: Path) -> None:
    notes = note("GNU", 1, b"") * 20_000
    shared = [Section(".notes", notes, 7, 2, align=4)]
    base = forge(shared)
    at = base.index(notes)
    many = [
        Section(f"n{row}", b"", 7, 2, align=4, size=len(notes) - 4 * row, file_offset=at + 4 * row)
        for row in range(5000)
    ]
    data = forge([*shared, *many])
    assert data.index(notes) == at
    outcome = bounded(["whence", "build-id", written(tmp_path, data)], seconds=4, megabytes=250)
    assert outcome.code in (1, 3), outcome.error


@pytest.mark.parametrize("wrapped", [False, True])
def test_minidebuginfo_that_unpacks_to_gigabytes_is_an_error(tmp_path: Path, wrapped: bool) -> None:
    bomb = Section(".gnu_debugdata", lzma.compress(bytes(64 * MEGABYTE), preset=0))
    text = Section(".text", bytes(64), flags=6, vaddr=0x1000)
    path = written(tmp_path, forge([text, packed(bomb, "zlib") if wrapped else bomb]))
    outcome = bounded(["whence", "symbols", path], seconds=3, megabytes=60)
    assert ".gnu_debugdata" in outcome.error


def test_ctrl_c_ends_a_long_list_of_symbols(tmp_path: Path) -> None:
    interrupted(["whence", "symbols", written(tmp_path, big_text_of_short_names(400_000))])


def test_ctrl_c_ends_the_making_of_an_archive_and_leaves_nothing(tmp_path: Path) -> None:
    path = written(tmp_path, big_text_of_short_names(3_000_000))
    interrupted(["whence", "lidia", "create", path, "-o", tmp_path / "out.lidia"], after=0.4)
    assert sorted(each.name for each in tmp_path.iterdir()) == [path.name]
