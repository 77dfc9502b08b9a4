"""Debug info that says much in few bytes: what many units share, rows and units that take a byte or four, sections that
unpack to a thousand times their size."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

import whence
from tests.forge import dwarf as d
from tests.forge.dwarf import Debug, Die, function
from tests.forge.elf import Section, forge
from tests.forge.elf import packed as forge_packed
from tests.forge.lines import sleb, uleb
from tests.helpers.dwarf import found, read
from tests.hostile import bounded, interrupted
from tests.hostile.inputs.dwarf import CODE, GOOD_TABLE, SIZE, address, declaration, unit
from whence.objects.elf import ElfFile
from whence.objects.elf.kernels.constants import ET_DYN

ATTRIBUTES = 500_000
UNPACKED = "unpacked bytes take more than 64 times its"
PACKED = pytest.mark.parametrize("pack", [False, True], ids=["plain", "packed"])
NOTHING = uleb(0x2FFF) + uleb(d.DW_FORM_flag_present)  # an attribute that takes no bytes in a DIE


def ask(path: str, count: int = 1, step: int = 1) -> tuple[list[tuple[str, ...]], list[str]]:
    """The functions at addresses from CODE on, and the problems met."""
    with whence.open(path) as binary:
        found = binary.lookup_many([CODE + step * n for n in range(count)])
        return [tuple(frame.function for frame in frames) for frames in found][:8], list(binary.problems)[:2000]


def packed(name: str, data: bytes) -> Section:
    return forge_packed(Section(name, data), "zlib")


def written(folder: Path, *sections: Section) -> str:
    text = Section(".text", b"", type=8, flags=6, vaddr=CODE, size=SIZE)
    path = folder / "hostile"
    path.write_bytes(forge([text, *sections], type=ET_DYN))
    return str(path)


def good(at: int, name: bytes, table: int) -> bytes:
    """A unit of one function of 16 bytes."""
    place = address(at) + address(16, 4)
    return unit(b"\1" + place + b"\2" + name + b"\0" + place + b"\0", table)


def check(folder: Path, table: bytes, info: bytes, pack: bool, rule: str) -> None:
    """The good unit answers and the rule is told; a table that is packed a thousand times as small is refused."""
    make = packed if pack else Section
    path = written(folder, make(".debug_abbrev", table + GOOD_TABLE + b"\0"), packed(".debug_info", info))
    names, problems = bounded(ask, path, seconds=2, megabytes=150).answer
    assert pack or names == [("found",)]
    assert any((UNPACKED if pack else rule) in problem for problem in problems)


@PACKED
def test_units_that_share_half_a_million_attributes_cost_no_other_unit(tmp_path: Path, pack: bool) -> None:
    huge = declaration(1, d.DW_TAG_compile_unit, more=NOTHING * ATTRIBUTES) + b"\0"
    info = unit(b"\1") * 3000 + good(CODE, b"found", len(huge))
    check(tmp_path, huge, info, pack, "no more attributes")


@PACKED
def test_functions_of_half_a_million_attributes_cost_no_other_unit(tmp_path: Path, pack: bool) -> None:
    function = declaration(
        2,
        d.DW_TAG_subprogram,
        (d.DW_AT_low_pc, d.DW_FORM_addr),
        (d.DW_AT_high_pc, d.DW_FORM_data4),
        more=NOTHING * ATTRIBUTES,
    )
    huge = declaration(1, d.DW_TAG_compile_unit, children=True) + function + b"\0"
    many = b"".join(b"\2" + address(CODE + 0x100 + 16 * n) + address(16, 4) for n in range(3000))
    info = unit(b"\1" + many + b"\0") + good(CODE, b"found", len(huge))
    check(tmp_path, huge, info, pack, "names are not looked for")


@PACKED
def test_functions_with_one_attribute_half_a_million_times_cost_no_other_unit(tmp_path: Path, pack: bool) -> None:
    again = (uleb(d.DW_AT_low_pc) + uleb(d.DW_FORM_implicit_const) + sleb(CODE)) * ATTRIBUTES
    function = declaration(
        2, d.DW_TAG_subprogram, (d.DW_AT_low_pc, d.DW_FORM_addr), (d.DW_AT_high_pc, d.DW_FORM_data4), more=again
    )
    huge = declaration(1, d.DW_TAG_compile_unit, children=True) + function + b"\0"
    many = b"".join(b"\2" + address(CODE + 0x100 + 16 * n) + address(16, 4) for n in range(3000))
    info = unit(b"\1" + many + b"\0") + good(CODE, b"found", len(huge))
    check(tmp_path, huge, info, pack, "names are not looked for")


def test_tables_that_begin_inside_each_other_cost_no_other_unit(tmp_path: Path) -> None:
    one = declaration(1, d.DW_TAG_compile_unit, children=False)
    count = 200_000
    tables = one * count + b"\0"
    info = b"".join(unit(b"\1" + b"\0" * 16, len(one) * n) for n in range(20_000))
    info += good(CODE, b"found", len(tables))
    path = written(tmp_path, packed(".debug_abbrev", tables + GOOD_TABLE + b"\0"), Section(".debug_info", info))
    names, problems = bounded(ask, path, seconds=3, megabytes=150).answer
    assert names == [("found",)]
    assert any("abbreviation tables are not read" in problem for problem in problems)


def test_a_hundred_million_line_rows_in_a_packed_section_are_refused(tmp_path: Path) -> None:
    debug = Debug().unit(
        Die(d.DW_TAG_compile_unit, [(d.DW_AT_stmt_list, d.DW_FORM_sec_offset, 0),
            (d.DW_AT_low_pc, d.DW_FORM_addr, CODE), (d.DW_AT_high_pc, d.DW_FORM_data4, SIZE)],
            [d.function("found", CODE, 16)])
    )  # fmt: skip
    path = written(
        tmp_path, Section(".debug_info", bytes(debug.info)), Section(".debug_abbrev", bytes(debug.abbrev)),
        Section(".debug_str", bytes(debug.strings)), packed(".debug_line", line_program(100_000_000)),
    )  # fmt: skip
    names, problems = bounded(ask, path, seconds=2, megabytes=120).answer
    assert names == [("found",)]
    assert any(UNPACKED in problem for problem in problems)


def test_as_many_line_rows_as_may_be_packed_stay_in_bounds(tmp_path: Path) -> None:
    debug = Debug().unit(
        Die(d.DW_TAG_compile_unit, [(d.DW_AT_stmt_list, d.DW_FORM_sec_offset, 0),
            (d.DW_AT_low_pc, d.DW_FORM_addr, CODE), (d.DW_AT_high_pc, d.DW_FORM_data4, SIZE)],
            [d.function("found", CODE, 16)])
    )  # fmt: skip
    path = written(
        tmp_path, Section(".debug_info", bytes(debug.info)), Section(".debug_abbrev", bytes(debug.abbrev)),
        Section(".debug_str", bytes(debug.strings)), packed(".debug_line", line_program(1_100_000)),
    )  # fmt: skip
    names, problems = bounded(ask, path, seconds=3, megabytes=250).answer
    assert names == [("found",)]
    assert not problems


def line_program(rows: int) -> bytes:
    """A program of so many rows, one a byte, each one byte and one line on."""
    tables = b"\0" + b"a.c\0\0\0\0" + b"\0"
    head = b"\x01\x01\x01\xfb\x0e\x0d" + b"\0\1\1\1\1\0\0\0\1\0\0\1" + tables
    program = b"\0\x09\x02" + address(CODE) + bytes([0x21]) * rows + b"\0\x01\x01"
    body = (4).to_bytes(2, "little") + len(head).to_bytes(4, "little") + head + program
    return len(body).to_bytes(4, "little") + body


def test_debug_info_of_64_mib_of_zeros_is_refused(tmp_path: Path) -> None:
    path = written(tmp_path, packed(".debug_info", bytes(64 << 20)), Section(".debug_abbrev", GOOD_TABLE + b"\0"))
    _, problems = bounded(ask, path, seconds=2, megabytes=120).answer
    assert any(UNPACKED in problem for problem in problems)


def test_debug_info_of_zeros_is_one_unit_that_is_too_short(tmp_path: Path) -> None:
    info = bytes(8 << 20) + good(CODE, b"found", 0)
    path = written(tmp_path, Section(".debug_info", info), Section(".debug_abbrev", GOOD_TABLE + b"\0"))
    names, problems = bounded(ask, path, seconds=3, megabytes=80).answer
    assert names == [("found",)]
    assert len(problems) == 1
    assert "a unit's header fits in the unit" in problems[0]


def test_bad_units_are_told_a_thousand_times_and_no_more(tmp_path: Path) -> None:
    bad = (8).to_bytes(4, "little") + (9).to_bytes(2, "little") + bytes(6)
    info = bad * 50_000 + good(CODE, b"found", 0)
    path = written(tmp_path, Section(".debug_info", info), Section(".debug_abbrev", GOOD_TABLE + b"\0"))
    names, problems = bounded(ask, path, seconds=2, megabytes=100).answer
    assert names == [("found",)]
    assert len(problems) == 1001
    assert "at most 1000 problems are listed" in problems[-1]


def test_more_units_than_a_file_may_have_end_the_reading_and_are_told(tmp_path: Path) -> None:
    info = good(CODE, b"found", 0) + unit(b"\0") * 90_000
    path = written(tmp_path, packed(".debug_info", info), Section(".debug_abbrev", GOOD_TABLE + b"\0"))
    names, problems = bounded(ask, path, seconds=3, megabytes=150).answer
    assert names == [("found",)]
    assert any("a file has at most 65,536 units" in problem for problem in problems)


def test_a_hundred_thousand_addresses_in_overlapping_units_are_looked_up(tmp_path: Path) -> None:
    table = (
        declaration(1, d.DW_TAG_compile_unit, (d.DW_AT_low_pc, d.DW_FORM_addr), (d.DW_AT_high_pc, d.DW_FORM_data4))
        + b"\0"
    )
    place = [address(CODE + n % 256) + address(SIZE - 256, 4) for n in range(256)]
    info = good(CODE, b"found", len(table)) + b"".join(unit(b"\1" + place[n % 256]) for n in range(200_000))
    path = written(tmp_path, Section(".debug_info", info), Section(".debug_abbrev", table + GOOD_TABLE + b"\0"))
    names, _ = bounded(ask, path, 100_000, seconds=4, megabytes=250).answer
    assert names[0] == ("found",)


def test_ten_sections_over_one_packed_stream_unpack_it_once(tmp_path: Path) -> None:
    found = bounded(ten_contents, ten_headers(tmp_path, random.Random(1).randbytes(4 << 20)), seconds=3, megabytes=60)
    assert found.answer == (4 << 20, 1)


def test_ten_sections_over_one_stream_of_200_megabytes_are_refused(tmp_path: Path) -> None:
    found = bounded(ten_contents, ten_headers(tmp_path, bytes(200_000_000)), seconds=3, megabytes=60)
    assert UNPACKED in found.error


def ten_contents(path: str) -> tuple[int, int]:
    """The largest of the sections, and how many contents there are in memory."""
    with ElfFile.open(path) as elf:
        contents = [elf.content(section) for section in elf.sections if section.compressed]
        assert len(contents) == 10
        return max(map(len, contents)), len({id(content.obj) for content in contents})


def ten_headers(folder: Path, content: bytes) -> str:
    """A file whose ten compressed sections are the same bytes."""
    names = ["info", "abbrev", "line", "str", "ranges", "addr", "rnglists", "line_str", "str_offsets", "aranges"]
    stream = packed("", content).data
    filler = Section(".comment", bytes(range(256)) * 600)
    first = Section(".debug_info", stream, flags=0x800)
    with ElfFile.open(written(folder, filler, first)) as elf:
        at = next(section.file_offset for section in elf.sections if section.compressed)
    others = [Section(f".debug_{name}", flags=0x800, size=len(stream), file_offset=at) for name in names[1:]]
    path = written(folder, filler, first, *others)
    with ElfFile.open(path) as elf:
        assert {section.file_offset for section in elf.sections if section.compressed} == {at}
    return path


@pytest.mark.parametrize("pack", ["", "zlib"])
def test_ctrl_c_ends_the_reading_of_debug_info_within_a_second(tmp_path: Path, pack: str) -> None:
    chance = random.Random(1)
    info = b"".join(
        unit(b"\1" + address(CODE) + address(SIZE, 4) + b"".join(
            b"\2f%d\0" % chance.randrange(1 << 40) + address(CODE + chance.randrange(SIZE)) + address(16, 4)
            for _ in range(90_000)
        ) + b"\0")
        for _ in range(12)
    )  # fmt: skip
    section = Section(".debug_info", info)
    path = written(
        tmp_path, forge_packed(section, pack) if pack else section, Section(".debug_abbrev", GOOD_TABLE + b"\0")
    )
    interrupted(["whence", "lidia", "create", path, "-o", tmp_path / "out.lidia"], after=0.3)
    assert not (tmp_path / "out.lidia").exists()


def test_sections_that_are_small_enough_one_by_one_are_bounded_together(tmp_path: Path) -> None:
    zeros = [packed(f".debug_{n}", bytes([n]) * 1_000_000) for n in range(10)]
    found = bounded(ten_contents, written(tmp_path, *zeros), seconds=3, megabytes=60)
    assert "elf sections" in found.error
    assert "plus 4194304" in found.error


@pytest.mark.parametrize("form", [d.DW_FORM_ref8, d.DW_FORM_ref_udata, d.DW_FORM_ref_addr])
@pytest.mark.parametrize("bit", [60, 61, 62, 63])
def test_a_reference_beyond_every_section_leads_nowhere(form: int, bit: int) -> None:
    """The bits of an offset that no file has say where a DIE lies: they led to sections that there were not."""
    lost = Die(
        d.DW_TAG_subprogram,
        [
            (d.DW_AT_abstract_origin, form, 1 << bit | 0x10),
            (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1000),
            (d.DW_AT_high_pc, d.DW_FORM_data1, 4),
        ],
    )
    good = function("good", 0x1010, 4)
    debug = Debug(4, wide=form == d.DW_FORM_ref_addr).unit(
        Die(d.DW_TAG_compile_unit, [(d.DW_AT_language, d.DW_FORM_data1, 4)], [lost, good])
    )
    assert found(read(debug.elf())) == [(0x1000, 0x1004, 0, ""), (0x1010, 0x1014, 0, "good")]
