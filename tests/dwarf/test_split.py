"""Split DWARF: skeletons in the binary, the rest in .dwo files or in a package."""

from __future__ import annotations

import os
import struct
from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from tests.forge import dwarf as d
from tests.forge.dwarf import Debug, Die, function
from tests.forge.elf import Section
from tests.forge.lines import program
from tests.forge.split import IDS, Attributes, dwo_files, package, packaged, skeleton, split
from tests.helpers.dwarf import found
from tests.helpers.survive import survives
from whence._base.errors import DwarfError
from whence._base.model import FrameStart
from whence._base.window import Window
from whence.dwarf import DebugInfo, Unit
from whence.dwarf.die_reader import SPLIT_UNITS_KEPT
from whence.dwarf.split import read_index
from whence.dwarf.variables import Variables
from whence.objects.elf import ElfFile
from whence.objects.elf.kernels import constants
from whence.ranges import StringSpace


def read(version: int, **files: object) -> DebugInfo:
    elf = ElfFile.from_bytes(skeleton(version).elf())
    return DebugInfo(elf, strings=StringSpace(), **files)  # type: ignore[arg-type]


def once(file: ElfFile) -> Callable[[Unit], ElfFile | None]:
    return lambda unit: file


EXPECTED = [
    (0x1000, 0x1004, 1, "f0_inner"), (0x1000, 0x1010, 0, "f0"), (0x1100, 0x1110, 0, "f0"),
    (0x2000, 0x2004, 1, "f1_inner"), (0x2000, 0x2010, 0, "f1"), (0x2100, 0x2110, 0, "f1"),
]  # fmt: skip


@pytest.mark.parametrize("version", [4, 5])
def test_dwo_files_complete_their_skeletons(version: int) -> None:
    info = read(version, dwo=dwo_files(version))
    assert sorted(found(info)) == EXPECTED
    assert not info.problems
    assert [unit.dwo_id for unit in info.units] == list(IDS)


def test_type_units_in_sections_of_their_own_do_not_hide_the_split_unit() -> None:
    types = Debug(5)
    types.unit(
        Die(d.DW_TAG_type_unit, [(d.DW_AT_language, d.DW_FORM_data1, 4)]), kind=6, extra=bytes(8) + types.offset(0)
    )
    full = split(5, IDS[0], "f0")
    grouped = [Section(".debug_info.dwo", bytes(types.info), flags=constants.SHF_GROUP)] * 2
    for before, more in ((grouped, []), ([], grouped)):
        dwo = ElfFile.from_bytes(full.elf(suffix=".dwo", type=constants.ET_REL, before=before, more=more))
        info = DebugInfo(ElfFile.from_bytes(skeleton(5, IDS[:1]).elf()), strings=StringSpace(), dwo=once(dwo))
        assert sorted(found(info)) == EXPECTED[:3]
        assert not info.problems


def test_sections_of_one_name_that_overlap_are_refused_before_they_are_joined() -> None:
    full = split(5, IDS[0], "f0")
    same = [Section(".debug_info.dwo", size=1 << 16, file_offset=0)] * 1000
    file = ElfFile.from_bytes(
        full.elf(suffix=".dwo", type=constants.ET_REL, more=[*same, Section("data", bytes(1 << 16))])
    )
    info = DebugInfo(ElfFile.from_bytes(skeleton(5, IDS[:1]).elf()), strings=StringSpace(), dwo=once(file))
    assert found(info) == []
    assert "sections of this name together are larger than the file" in str(info.problems[0])


@pytest.mark.parametrize("version", [4, 5])
def test_a_missing_split_unit_is_reported(version: int) -> None:
    info = read(version, dwo=lambda unit: None)
    assert found(info) == []
    assert [str(problem) for problem in info.problems] == [
        f".debug_info+{unit.offset:#x}: split unit {unit.dwo_name} not found" for unit in info.units
    ]


@pytest.mark.parametrize("dwo", [lambda unit: None, None])
def test_a_module_that_clang_imported_is_not_missing(dwo: Callable[[Unit], ElfFile | None] | None) -> None:
    debug = Debug(4)
    root = [
        (d.DW_AT_name, d.DW_FORM_string, "SwiftShims"),
        (d.DW_AT_GNU_dwo_name, d.DW_FORM_strp, "/cache/SwiftShims-21M4COVK6US69.pcm"),
        (d.DW_AT_GNU_dwo_id, d.DW_FORM_data8, IDS[0]),
    ]
    debug.unit(Die(d.DW_TAG_compile_unit, root))
    debug.unit(Die(d.DW_TAG_compile_unit, [], [function("main", 0x1000, 16)]))
    info = DebugInfo(ElfFile.from_bytes(debug.elf()), strings=StringSpace(), dwo=dwo)
    assert found(info) == [(0x1000, 0x1010, 0, "main")]
    assert not info.problems


@pytest.mark.parametrize("version", [4, 5])
def test_a_split_unit_of_another_build_is_refused(version: int) -> None:
    info = read(version, dwo=dwo_files(version, (0x9999, IDS[1])))
    assert sorted(found(info)) == EXPECTED[3:]
    assert "0.dwo has no unit with id 0x1111222233334444" in str(info.problems[0])


@pytest.mark.parametrize("version", [4, 5])
def test_a_package_completes_all_skeletons(version: int) -> None:
    info = read(version, dwp=lambda: packaged(*package(version)))
    assert sorted(found(info)) == EXPECTED
    assert not info.problems


@pytest.mark.parametrize("version", [4, 5])
def test_a_broken_index_is_told(version: int) -> None:
    debug, index = package(version)
    for bad in (index[:20], b"\7\0\0\0" + index[4:], index[:4] + b"\xff" * 12 + index[16:], b""):
        info = read(version, dwp=partial(packaged, debug, bad))
        info.ranges()
        assert "debug_cu_index" in str(info.problems[0])


@pytest.mark.parametrize("version", [4, 5])
def test_every_changed_byte_of_an_index_is_survived(version: int) -> None:
    debug, index = package(version)
    for number in range(len(index)):
        for value in (0, 0xFF):
            bad = index[:number] + bytes([value]) + index[number + 1 :]
            survives(read(version, dwp=partial(packaged, debug, bad)).ranges, jobs=1, refused=())


def test_files_of_split_units_are_closed_when_read(tmp_path: Path) -> None:
    ids = tuple(range(1, 61))
    for n, number in enumerate(ids):
        (tmp_path / f"{n}.dwo").write_bytes(split(5, number, f"f{n}").elf(suffix=".dwo"))
    before = len(os.listdir("/proc/self/fd"))
    elf = ElfFile.from_bytes(skeleton(5, ids).elf(text=(0x1000, 0x1000000)))
    info = DebugInfo(elf, strings=StringSpace(), dwo=lambda unit: ElfFile.open(tmp_path / unit.dwo_name))
    assert {name for *_, name in found(info)} == {f"f{n}" for n in range(60)} | {f"f{n}_inner" for n in range(60)}
    assert not info.problems
    assert len(os.listdir("/proc/self/fd")) <= before + 2
    assert len(info.strings.sources) < 20


@pytest.mark.parametrize(("columns", "rows", "slots"), [(0, 0x7F0000, 4), (4, 9, 8)])
def test_an_index_of_more_rows_than_it_has_room_for_is_refused_at_once(columns: int, rows: int, slots: int) -> None:
    index = struct.pack("<4I", 5, columns, rows, slots) + bytes(4096)
    with pytest.raises(DwarfError, match="rows do not fit into"):
        list(read_index(Window(index, "debug_cu_index", "little", DwarfError)))


DECLARED: Attributes = [(d.DW_AT_decl_file, d.DW_FORM_data1, 1), (d.DW_AT_decl_line, d.DW_FORM_data1, 7)]


@pytest.mark.parametrize("version", [4, 5])
def test_a_call_inlined_in_a_split_unit_starts_at_the_address_of_its_index(version: int) -> None:
    lines = program([("set_address", 0x1000), ("special", 0, 6), ("end", 0x1110)], version=version)
    elf = ElfFile.from_bytes(skeleton(version, lines=lines).elf())
    info = DebugInfo(elf, strings=StringSpace(), dwo=dwo_files(version, extra=DECLARED))
    file = "/src/main.c" if version == 4 else "/src/util.h"
    variables = Variables(info)
    assert variables.frame_starts(0x2002) == [FrameStart(file, 7, 0x2000), FrameStart(file, 7, 0)]
    assert variables.frame_starts(0x1002) == [FrameStart(file, 7, 0x1000), FrameStart(file, 7, 0)]
    assert variables.frame_starts(0x1102) == [FrameStart(file, 7, 0)]
    assert variables.first_function(0x2102) == "f1"


@pytest.mark.parametrize("version", [4, 5])
def test_calls_inlined_in_a_package_start_at_the_addresses_of_their_indices(version: int) -> None:
    variables = Variables(read(version, dwp=lambda: packaged(*package(version))))
    assert [start.vaddr for start in variables.frame_starts(0x1002)] == [0x1000, 0]
    assert [start.vaddr for start in variables.frame_starts(0x2002)] == [0x2000, 0]


def test_a_missing_split_unit_has_no_starts() -> None:
    variables = Variables(read(5, dwo=lambda unit: None))
    assert variables.frame_starts(0x1002) == []
    assert variables.first_function(0x1002) == ""


def test_only_some_split_files_stay_open_for_starts(tmp_path: Path) -> None:
    ids = tuple(range(1, SPLIT_UNITS_KEPT + 20))
    for n, number in enumerate(ids):
        (tmp_path / f"{n}.dwo").write_bytes(split(5, number, f"f{n}").elf(suffix=".dwo"))
    before = len(os.listdir("/proc/self/fd"))
    elf = ElfFile.from_bytes(skeleton(5, ids).elf(text=(0x1000, 0x1000000)))
    info = DebugInfo(elf, strings=StringSpace(), dwo=lambda unit: ElfFile.open(tmp_path / unit.dwo_name))
    variables = Variables(info)
    for _ in range(2):
        for n in range(len(ids)):
            assert variables.frame_starts(0x1000 * (n + 1))[0].vaddr == 0x1000 * (n + 1)
    assert len(os.listdir("/proc/self/fd")) <= before + SPLIT_UNITS_KEPT + 2
