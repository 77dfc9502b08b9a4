"""What units claim decides which rows are theirs, and which unit is believed."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.forge import dwarf as d
from tests.forge.aranges import aranges
from tests.forge.dwarf import Debug, Die, function
from tests.forge.elf import Section
from tests.forge.lines import program
from tests.helpers.dwarf import found, read
from whence._base.window import ByteOrder
from whence.dwarf import DebugInfo
from whence.ranges.merge import merge


def with_lines(low: int, size: int, root: Sequence[tuple[int, int, object]]) -> Debug:
    debug = Debug()
    debug.line += program([("set_address", low), ("copy",), ("end", size)])
    return debug.unit(
        Die(d.DW_TAG_compile_unit, [(d.DW_AT_stmt_list, d.DW_FORM_sec_offset, 0), *root], [function("f", 0x1000, 0x10)])
    )


def test_rows_beyond_what_a_unit_claims_are_nothing() -> None:
    claim = [(d.DW_AT_low_pc, d.DW_FORM_addr, 0x1000), (d.DW_AT_high_pc, d.DW_FORM_data2, 0x18)]
    info = read(with_lines(0x0FF0 + 0x10, 0x30, claim).elf())
    assert found(info) == [(0x1000, 0x1010, 0, "f"), (0x1010, 0x1018, 0, "")]


def test_rows_of_a_unit_that_claims_nothing_are_kept() -> None:
    info = read(with_lines(0x1000, 0x30, []).elf())
    assert found(info) == [(0x1000, 0x1010, 0, "f"), (0x1010, 0x1030, 0, "")]


@pytest.mark.parametrize(("listed", "kept"), [(True, True), (False, False)])
def test_a_unit_of_version_2_has_the_code_that_aranges_tell_of(listed: bool, kept: bool) -> None:
    claim = [(d.DW_AT_low_pc, d.DW_FORM_addr, 0x1000), (d.DW_AT_high_pc, d.DW_FORM_addr, 0x1010)]
    debug = Debug(2)
    debug.line += program(
        [("set_address", 0x1000), ("copy",), ("end", 0x10), ("set_address", 0x2000), ("copy",), ("end", 4)], version=2
    )
    debug.unit(Die(d.DW_TAG_compile_unit, [(d.DW_AT_stmt_list, d.DW_FORM_data4, 0), *claim]))
    spans = [(0, 0x1000, 0x10), *([(0, 0x2000, 4)] if listed else [])]
    info = with_aranges(debug, aranges(debug, spans))
    assert info.units_at([0x2002]) == ([0] if kept else [])
    assert found(info) == [(0x1000, 0x1010, 0, ""), *([(0x2000, 0x2004, 0, "")] if kept else [])]


def test_a_line_table_finds_its_names_through_the_base_of_its_unit() -> None:
    debug = Debug(5)
    names = [debug.text(text) for text in ("/a", "one.c", "/b", "two.c")]
    debug.str_offsets += debug.length(b"\5\0\0\0" + b"".join(map(debug.offset, names)))
    tables = bytes([1, 1, d.DW_FORM_strx1, 1, 0, 2, 1, d.DW_FORM_strx1, 2, d.DW_FORM_udata, 1, 1, 0])
    for n in range(2):
        offset = len(debug.line)
        steps = [("set_address", 0x1000 * (n + 1)), ("file", 0), ("copy",), ("end", 4)]
        debug.line += program(steps, version=5, tables=tables)
        debug.unit(
            Die(
                d.DW_TAG_compile_unit,
                [
                    (d.DW_AT_str_offsets_base, d.DW_FORM_sec_offset, 8 + 8 * n),
                    (d.DW_AT_stmt_list, d.DW_FORM_sec_offset, offset),
                ],
            )
        )
    info = read(debug.elf())
    assert [info.strings.text(file) for file in info.ranges(jobs=1).file] == ["/a/one.c", "/b/two.c"]


def test_a_function_outside_of_its_units_claim_keeps_its_rows() -> None:
    info = read(
        with_lines(
            0x1000, 0x30, [(d.DW_AT_low_pc, d.DW_FORM_addr, 0x1020), (d.DW_AT_high_pc, d.DW_FORM_data2, 8)]
        ).elf()
    )
    assert found(info) == [(0x1000, 0x1010, 0, "f"), (0x1020, 0x1028, 0, "")]
    assert all(info.ranges().file)


def test_of_units_with_the_same_function_the_first_is_believed() -> None:
    debug = Debug()
    for name in ("first", "second", "third"):
        debug.unit(Die(d.DW_TAG_compile_unit, [], [function(name, 0x1000, 4)]))
    info = read(debug.elf())
    table = merge([info.ranges()])
    assert [info.strings.text(name) for name in table.function] == ["first"]


def three_units(order: ByteOrder = "little", size: int = 8, wide: bool = False) -> tuple[Debug, list[int]]:
    debug, offsets = Debug(4, order, size, wide), []
    for offset in (0x1000, 0x2000, 0x3000):
        offsets.append(len(debug.info))
        root = [(d.DW_AT_low_pc, d.DW_FORM_addr, offset), (d.DW_AT_high_pc, d.DW_FORM_data2, 0x100)]
        debug.unit(Die(d.DW_TAG_compile_unit, root, [function(f"f{offset:x}", offset, 4)]))
    return debug, offsets


def with_aranges(debug: Debug, table: Section) -> DebugInfo:
    return read(debug.elf(more=[table]))


@pytest.mark.parametrize("wide", [False, True])
@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("order", ["little", "big"])
def test_one_address_reads_one_unit_where_aranges_name_it(order: ByteOrder, size: int, wide: bool) -> None:
    debug, offsets = three_units(order, size, wide)
    debug.info[offsets[0] + (12 if wide else 4)] ^= 0xFF  # the first unit is not read
    listed = aranges(debug, [(offset, 0x1000 * (n + 1), 0x100) for n, offset in enumerate(offsets)])
    info = with_aranges(debug, listed)
    assert info.units_at([0x2002]) == offsets[1:2]
    assert found(info, units=offsets[1:2]) == [(0x2000, 0x2004, 0, "f2000")]
    assert info.unit_count == 3
    assert not info.problems
    assert len(info.units) == 3
    assert info.problems


def test_aranges_that_say_otherwise_than_the_units_are_not_believed() -> None:
    debug, offsets = three_units()
    lies = [[(offsets[0], 0x2000, 0x100)], [(offsets[1] + 1, 0x2000, 0x100)], [(1 << 31, 0x2000, 0x100)], []]
    for lie in lies:
        info = with_aranges(debug, aranges(debug, lie))
        assert info.units_at([0x2002]) == offsets[1:2]
        assert found(info, units=offsets[1:2]) == [(0x2000, 0x2004, 0, "f2000")]
    full = aranges(debug, [(offsets[1], 0x2000, 0x100)]).data
    for cut in range(len(full)):
        info = with_aranges(debug, Section(".debug_aranges", full[:cut]))
        assert info.units_at([0x2002]) == offsets[1:2]


def test_a_name_in_a_unit_that_was_not_asked_for_is_found() -> None:
    helper = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_strp, "helper")])
    debug = Debug().unit(Die(d.DW_TAG_compile_unit, [], [helper]))
    offset = len(debug.info)
    call = Die(
        d.DW_TAG_inlined_subroutine,
        [
            (d.DW_AT_abstract_origin, d.DW_FORM_ref_addr, helper),
            (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1004),
            (d.DW_AT_high_pc, d.DW_FORM_data1, 4),
        ],
    )
    root = [(d.DW_AT_low_pc, d.DW_FORM_addr, 0x1000), (d.DW_AT_high_pc, d.DW_FORM_data1, 16)]
    debug.unit(Die(d.DW_TAG_compile_unit, root, [function("main", 0x1000, 16, call)]))
    info = with_aranges(debug, aranges(debug, [(offset, 0x1000, 16)]))
    assert info.units_at([0x1000]) == [offset]
    assert found(info, units=[offset]) == [(0x1000, 0x1010, 0, "main"), (0x1004, 0x1008, 1, "helper")]


def test_a_class_in_a_type_unit_that_was_not_asked_for_names_its_functions() -> None:
    debug = Debug(5)
    class_ = Die(d.DW_TAG_class_type, [(d.DW_AT_signature, d.DW_FORM_ref_sig8, 7)], [function("f", 0x1000, 16)])
    root = [
        (d.DW_AT_language, d.DW_FORM_data1, 4),
        (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1000),
        (d.DW_AT_high_pc, d.DW_FORM_data1, 16),
    ]
    debug.unit(Die(d.DW_TAG_compile_unit, root, [class_]))
    described = Die(
        d.DW_TAG_type_unit,
        [(d.DW_AT_language, d.DW_FORM_data1, 4)],
        [Die(d.DW_TAG_class_type, [(d.DW_AT_name, d.DW_FORM_string, "Box")])],
    )
    debug.unit(described, kind=2, extra=debug.number(7, 8) + debug.offset(26))
    info = with_aranges(debug, aranges(debug, [(0, 0x1000, 16)]))
    assert info.units_at([0x1000]) == [0]
    assert found(info, units=[0]) == [(0x1000, 0x1010, 0, "Box::f")]
