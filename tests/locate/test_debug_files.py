"""Finding debug files: every usual place, and never a file that belongs to another binary."""

from __future__ import annotations

import zlib
from pathlib import Path

import pytest

from tests.forge.elf import Section, build_id_note, debug_link, forge
from whence._base.errors import Mismatch
from whence.locate.debug_files import DebugFiles
from whence.locate.search import Outcome
from whence.objects.elf import ElfFile

ID, OTHER = "0123456789abcdef" * 2, "fedcba9876543210" * 2
INFO = Section(".debug_info", b"some debug info")


def place(path: Path, *sections: Section) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(forge(sections))
    return path


@pytest.fixture
def debug_dir(tmp_path: Path) -> Path:
    return tmp_path / "debug"


@pytest.fixture
def finder(debug_dir: Path) -> DebugFiles:
    return DebugFiles([debug_dir])


def test_a_file_with_debug_info_is_its_own_debug_file(tmp_path: Path, finder: DebugFiles) -> None:
    with ElfFile.open(place(tmp_path / "a", build_id_note(ID), INFO)) as elf:
        search = finder.debug_file(elf)
        assert search.elf is elf
        assert search.how == "itself"


def test_the_build_id_folder_comes_first(tmp_path: Path, debug_dir: Path, finder: DebugFiles) -> None:
    expected = place(debug_dir / ".build-id" / ID[:2] / (ID[2:] + ".debug"), build_id_note(ID), INFO)
    place(tmp_path / "a.debug", build_id_note(ID), INFO)
    with ElfFile.open(place(tmp_path / "a", build_id_note(ID), debug_link("a.debug", 0))) as elf:
        search = finder.debug_file(elf)
        assert search.path == str(expected)
        assert [each.outcome for each in search.tried] == [Outcome.EMPTY, Outcome.TAKEN]
        search.require().close()


def test_the_cache_of_perf_is_not_searched(tmp_path: Path) -> None:
    cache = tmp_path / ".debug"
    place(cache / "app" / ID / "debug", build_id_note(ID), INFO)
    with ElfFile.open(place(tmp_path / "a", build_id_note(ID))) as elf:
        with DebugFiles([str(cache)]).debug_file(elf).require() as result:
            assert result.build_id == ID
        (cache / ".build-id").mkdir()
        assert not DebugFiles([str(cache)]).debug_file(elf)


@pytest.mark.parametrize("where", ["beside", "sub", "global"])
def test_a_debug_link_is_followed_to_every_usual_place_when_its_crc_fits(
    where: str, tmp_path: Path, debug_dir: Path, finder: DebugFiles
) -> None:
    bin_dir = tmp_path / "bin"
    folder = {"beside": bin_dir, "sub": bin_dir / ".debug", "global": debug_dir / str(bin_dir).lstrip("/")}[where]
    expected = place(folder / "a.debug", INFO)
    crc = zlib.crc32(expected.read_bytes())
    with ElfFile.open(place(bin_dir / "a", debug_link("a.debug", crc))) as elf:
        search = finder.debug_file(elf)
        assert search.path == str(expected)
        search.require().close()
    with ElfFile.open(place(bin_dir / "b", debug_link("a.debug", crc ^ 1))) as elf:
        search = finder.debug_file(elf)
        assert not search
        assert [each.path for each in search.mismatches] == [str(expected)]
        with pytest.raises(Mismatch, match="the CRC is"):
            search.require()


def test_a_file_of_another_build_id_is_recorded_as_a_mismatch(
    tmp_path: Path, debug_dir: Path, finder: DebugFiles
) -> None:
    wrong = place(debug_dir / ".build-id" / ID[:2] / (ID[2:] + ".debug"), build_id_note(OTHER), INFO)
    with ElfFile.open(place(tmp_path / "a", build_id_note(ID))) as elf:
        search = finder.debug_file(elf)
        assert search.elf is None
        assert [each.path for each in search.mismatches] == [str(wrong)]
        with pytest.raises(Mismatch, match=f"the build-id is {OTHER}, expected {ID}"):
            search.require()


def test_a_search_without_result_lists_everything_tried(tmp_path: Path, debug_dir: Path, finder: DebugFiles) -> None:
    with ElfFile.open(place(tmp_path / "a", build_id_note(ID), debug_link("a.debug", 1))) as elf:
        search = finder.debug_file(elf)
        assert {each.outcome for each in search.tried[1:]} == {Outcome.ABSENT}
        assert len(search.tried) == 6
        assert str(search.tried[1]) == f"{debug_dir}/.build-id/01/{ID[2:]}.debug (build-id): the file does not exist"
        with pytest.raises(FileNotFoundError, match="does not exist"):
            search.require()


def test_a_damaged_candidate_does_not_end_the_search(tmp_path: Path, debug_dir: Path, finder: DebugFiles) -> None:
    broken = debug_dir / ".build-id" / ID[:2] / (ID[2:] + ".debug")
    broken.parent.mkdir(parents=True)
    broken.write_bytes(b"not an ELF file")
    expected = place(tmp_path / "a.debug", build_id_note(ID), INFO)
    with ElfFile.open(place(tmp_path / "a", build_id_note(ID), debug_link("a.debug", 0))) as elf:
        search = finder.debug_file(elf)
        assert search.path == str(expected)
        assert [each.outcome for each in search.tried] == [Outcome.EMPTY, Outcome.BROKEN, Outcome.TAKEN]
        search.require().close()


def test_a_debug_link_cannot_lead_out_of_its_folder_nor_to_the_file_itself(tmp_path: Path, finder: DebugFiles) -> None:
    place(tmp_path / "secret", build_id_note(ID), INFO)
    for name in ("../secret", "a"):
        with ElfFile.open(place(tmp_path / "bin" / "a", build_id_note(ID), debug_link(name, 0))) as elf:
            assert not finder.debug_file(elf)


def test_the_supplementary_file_is_found_by_name_and_build_id(
    tmp_path: Path, debug_dir: Path, finder: DebugFiles
) -> None:
    link = Section(".gnu_debugaltlink", b"../.dwz/shared.debug\0" + bytes.fromhex(ID))
    expected = place(tmp_path / ".dwz" / "shared.debug", build_id_note(ID), INFO)
    with ElfFile.open(place(tmp_path / "bin" / "a", link)) as elf:
        search = finder.alt_file(elf)
        assert Path(search.path).resolve() == expected
        search.require().close()
        place(expected, build_id_note(OTHER), INFO)
        assert finder.alt_file(elf).mismatches
        second = place(debug_dir / ".build-id" / ID[:2] / (ID[2:] + ".debug"), build_id_note(ID), INFO)
        search = finder.alt_file(elf)
        assert search.path == str(second)
        search.require().close()
    with ElfFile.open(place(tmp_path / "bin" / "b")) as elf:
        assert finder.alt_file(elf).tried == []


def test_split_units_are_searched_in_the_compilation_folder_and_next_to_the_file(
    tmp_path: Path, finder: DebugFiles
) -> None:
    near = place(tmp_path / "bin" / "a")
    for expected in ("bin/a.dwo", "bin/obj/a.dwo", "src/obj/a.dwo"):
        place(tmp_path / expected, INFO)
        search = finder.dwo(str(tmp_path / "src"), "obj/a.dwo", near)
        assert search.path == str(tmp_path / expected)
        search.require().close()
    assert not finder.dwp_for(near)
    place(tmp_path / "bin" / "a.dwp", INFO)
    with finder.dwp_for(near).require() as package:
        assert package.section(".debug_info") is not None
