"""Build-ids in the spellings of other tools."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.forge import elf, macho
from whence.locate.identity import comparable, is_same
from whence.locator.locator import Locator
from whence.objects.ids import DebugId

UUID = macho.UUID.hex()
GNU = "0123456789abcdef" * 2 + "01234567"
SPELLINGS = [UUID, UUID.upper(), DebugId(UUID).uuid, DebugId(UUID).uuid.lower(), f"{UUID.upper()}0", f"{UUID}1f",
             f"{DebugId(UUID).sentry}-2"]  # fmt: skip


@pytest.mark.parametrize("spelling", [each for each in SPELLINGS if each != f"{UUID}1f"])
def test_a_file_is_found_by_every_spelling_of_its_id(tmp_path: Path, spelling: str) -> None:
    (tmp_path / "app").write_bytes(macho.forge([macho.text()]))
    with Locator(binaries=tmp_path) as locator:
        assert locator.find(build_id=spelling).path == str(tmp_path / "app")
        assert not locator.find(build_id=spelling[:-4])


def test_a_build_id_with_an_even_number_of_digits_is_not_a_debug_id() -> None:
    assert comparable(f"{UUID}1f") == f"{UUID}1f"
    assert comparable(GNU.upper()) == GNU


def test_the_debug_id_of_an_elf_file_is_its_build_id() -> None:
    assert is_same(DebugId.of_build_id(GNU).breakpad, GNU)
    assert is_same(DebugId.of_build_id(GNU).sentry, GNU)
    assert is_same(GNU[:32], GNU)
    assert not is_same(DebugId.of_build_id(GNU).breakpad, "f" * 40)
    assert not is_same("0" * 33, "0" * 31 + "1")


def test_a_debug_id_finds_an_elf_file_that_was_given(tmp_path: Path) -> None:
    path = tmp_path / "app"
    path.write_bytes(elf.forge([elf.build_id_note(GNU), elf.Section(".text", b"1", flags=6, vaddr=0x1000)]))
    with Locator(binaries=path) as locator:
        assert locator.find(build_id=DebugId.of_build_id(GNU).breakpad).path == str(path)
