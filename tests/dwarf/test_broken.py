"""Malformed debug info: the rest is answered, and the problem is reported, quickly."""

from __future__ import annotations

import random
import time

import pytest

from tests.forge import dwarf as d
from tests.forge.dwarf import Debug, Die, function, inlined
from tests.helpers.dwarf import found, read
from tests.helpers.survive import survives
from whence._base.errors import DwarfError


def two_units(middle: Debug, debug: Debug) -> bytes:
    """Return a good unit, the bytes of another forging, and a good unit."""
    debug.unit(Die(d.DW_TAG_compile_unit, [], [function("before", 0x1000, 4)]))
    debug.info += middle.info
    debug.unit(Die(d.DW_TAG_compile_unit, [], [function("after", 0x2000, 4)]))
    return debug.elf()


GOOD = [(0x1000, 0x1004, 0, "before"), (0x2000, 0x2004, 0, "after")]


@pytest.mark.parametrize(
    ("body", "problem"),
    [
        (b"\x09\0" + bytes(20), "version"),
        (b"\x05\0\x09\x08" + bytes(20), "type"),
        (b"\x04\0\0\0\0\0\x03" + bytes(20), "address size"),
        (b"\x04\0\0", "header"),
        (b"\x04\0\xff\xff\xff\0\x08\x01" + bytes(20), "root DIE"),
        (b"\x04\0\0\0\0\0\x08\x7f" + bytes(20), "root DIE"),
    ],
)
def test_a_bad_unit_is_reported_and_the_others_are_read(body: bytes, problem: str) -> None:
    middle = Debug()
    middle.info += middle.length(body)
    info = read(two_units(middle, Debug()))
    assert found(info) == GOOD
    assert problem in str(info.problems[0])
    assert isinstance(info.problems[0], DwarfError)


@pytest.mark.parametrize(
    ("body", "message"),
    [
        (b"\x09\0" + bytes(20), "unit version 9 is not supported (2 to 5 are)"),
        (b"\x04\0\0\0\0\0\x03" + bytes(20), "address size 3 is not 2, 4 or 8"),
        (b"\x04\0\0", "the unit is shorter than its header"),
        (b"\x04\0\0\0\0\0\x08\x7f" + bytes(20), "the abbreviation code of the root DIE is not in the unit's table"),
    ],
)
def test_a_problem_has_the_wrong_value(body: bytes, message: str) -> None:
    debug = Debug()
    debug.info += debug.length(body)
    info = read(debug.elf())
    assert len(info.units) == 1
    assert str(info.problems[0]).endswith(f": {message}")


def test_a_length_that_leaves_the_section_ends_the_units() -> None:
    debug = Debug().unit(Die(d.DW_TAG_compile_unit, [], [function("before", 0x1000, 4)]))
    debug.info += b"\xf0\xff\xff\x7f" + bytes(30)
    info = read(debug.elf())
    assert found(info) == GOOD[:1]
    assert "length" in str(info.problems[0])


def test_an_unknown_code_keeps_what_was_found_before_it() -> None:
    debug = Debug().unit(
        Die(
            d.DW_TAG_compile_unit,
            [],
            [function("before", 0x1000, 4), Die(d.DW_TAG_variable, [(d.DW_AT_name, d.DW_FORM_data4, 1)])],
        )
    )
    offset = len(debug.info) - 6
    assert debug.info[offset] == 3
    debug.info[offset] = 99
    info = read(debug.elf())
    assert found(info) == GOOD[:1]
    assert "the abbreviation code of a DIE is not in the unit's table" in str(info.problems[0])
    assert info.problems[0].offset == offset


def test_an_unknown_form_costs_one_unit() -> None:
    debug = Debug().unit(Die(d.DW_TAG_compile_unit, [], [function("before", 0x1000, 4)]))
    debug.unit(Die(d.DW_TAG_compile_unit, [], [Die(d.DW_TAG_variable, [(d.DW_AT_name, 0x77, 1)])]))
    debug.unit(Die(d.DW_TAG_compile_unit, [], [function("after", 0x2000, 4)]))
    info = read(debug.elf())
    assert found(info) == GOOD
    assert "has an unknown form" in str(info.problems[0])


def test_a_bad_range_list_costs_one_function() -> None:
    bad = Die(
        d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_string, "bad"), (d.DW_AT_ranges, d.DW_FORM_sec_offset, 0x7000)]
    )
    root = Die(d.DW_TAG_compile_unit, [], [function("before", 0x1000, 4), bad, function("after", 0x2000, 4)])
    info = read(Debug().unit(root).elf())
    assert found(info) == GOOD
    assert "range list" in str(info.problems[0])


def test_names_that_point_nowhere_are_empty() -> None:
    f = Die(
        d.DW_TAG_subprogram,
        [
            (d.DW_AT_name, d.DW_FORM_strp, 0x7FFFFFFF),
            (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1000),
            (d.DW_AT_high_pc, d.DW_FORM_data1, 4),
        ],
    )
    g = Die(
        d.DW_TAG_subprogram,
        [
            (d.DW_AT_name, d.DW_FORM_strx, 1 << 60),
            (d.DW_AT_low_pc, d.DW_FORM_addr, 0x2000),
            (d.DW_AT_high_pc, d.DW_FORM_data1, 4),
        ],
    )
    h = Die(
        d.DW_TAG_subprogram,
        [
            (d.DW_AT_abstract_origin, d.DW_FORM_ref_addr, 0x7FFFFFFF),
            (d.DW_AT_low_pc, d.DW_FORM_addr, 0x3000),
            (d.DW_AT_high_pc, d.DW_FORM_data1, 4),
        ],
    )
    info = read(Debug().unit(Die(d.DW_TAG_compile_unit, [], [f, g, h])).elf())
    assert [name for *_, name in found(info)] == ["", "", ""]


def test_a_tree_a_million_deep_is_walked() -> None:
    debug, many = Debug(), 1_000_000
    shapes = {b"\1\x11\1": b"", b"\2\x0b\1": b"", b"\3\x2e\0": b"\x03\x08\x11\x01\x12\x0b"}
    debug.abbrev += b"".join(head + attributes + b"\0\0" for head, attributes in shapes.items()) + b"\0"
    f = b"\3f\0" + debug.number(0x1000, 8) + b"\4"
    debug.info += debug.length(b"\4\0\0\0\0\0\x08\1" + b"\2" * many + f + bytes(many + 1))
    info = read(debug.elf())
    assert found(info) == [(0x1000, 0x1004, 0, "f")]
    assert not info.problems


def test_lists_read_again_and_again_are_refused() -> None:
    debug = Debug()
    offset = debug.range_list(*((0x1000 + 2 * i, 0x1001 + 2 * i) for i in range(20_000)))
    dies = [
        Die(
            d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_string, "f"), (d.DW_AT_ranges, d.DW_FORM_sec_offset, offset)]
        )
        for _ in range(20_000)
    ]
    info = read(debug.unit(Die(d.DW_TAG_compile_unit, [], dies)).elf())
    began = time.process_time()
    info.ranges(jobs=1)
    assert time.process_time() - began < 5
    assert "more often than their size allows" in str(info.problems[0])


def test_tables_read_again_and_again_are_refused() -> None:
    debug = Debug().unit(Die(d.DW_TAG_compile_unit, [], [function("f", 0x1000, 4)]))
    debug.abbrev[:] = debug.abbrev[:-1] + b"".join(
        bytes([3 + i % 100]) + b"\x34\0" + b"\x03\x08" * 20 + b"\0\0" for i in range(20_000)
    )
    for index in range(3_000):
        debug.unit(Die(d.DW_TAG_compile_unit, [], []), abbrev_at=13 * index)
    info = read(debug.elf())
    began = time.process_time()
    info.ranges(jobs=1)
    assert time.process_time() - began < 10
    assert info.problems


def seed_file(version: int) -> bytes:
    debug = Debug(version)
    helper = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_strp, "helper")])
    spread = Die(
        d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_strp, "spread"), (d.DW_AT_ranges, d.DW_FORM_sec_offset, 0)]
    )
    if version < 5:
        debug.range_list((0x4000, 0x4010), (0x5000, 0x5010))
    else:
        debug.rnglists += b"\7" + debug.number(0x4000, 8) + b"\x10\0"
    kind = Die(
        d.DW_TAG_structure_type,
        [(d.DW_AT_name, d.DW_FORM_strp, "kind"), (d.DW_AT_sibling, d.DW_FORM_ref4, None)],
        [Die(d.DW_TAG_member, [(d.DW_AT_name, d.DW_FORM_strp, "m")])],
    )
    main = function("main", 0x1000, 0x40, Die(d.DW_TAG_lexical_block, [], [inlined(helper, 0x1010, 0x10, 7)]))
    for _ in range(3):
        debug.unit(Die(d.DW_TAG_compile_unit, [(d.DW_AT_language, d.DW_FORM_data1, 4)], [kind, helper, main, spread]))
    return debug.elf()


@pytest.mark.parametrize("version", [2, 3, 4, 5])
def test_changed_bytes_give_an_answer_or_a_problem(version: int) -> None:
    good = seed_file(version)
    chance = random.Random(version)
    start, end = good.index(b"\0\0\0\0\0", 64), good.rindex(b".shstrtab")
    for _ in range(1_500):
        bad = bytearray(good)
        for _ in range(chance.choice((1, 1, 2, 8))):
            bad[chance.randrange(start, end)] = chance.choice((0, 1, 2, 0x7F, 0x80, 0xFF, chance.randrange(256)))
        info = read(bytes(bad))
        survives(info.ranges, jobs=1, refused=())
        survives(info.units_at, [0x1000], refused=())


def test_every_truncation_of_a_section_is_survived() -> None:
    for cut in range(200):
        for name in ("info", "abbrev", "ranges", "strings"):
            debug = Debug()
            offset = debug.range_list((0x4000, 0x4010))
            f = Die(
                d.DW_TAG_subprogram,
                [(d.DW_AT_name, d.DW_FORM_strp, "f"), (d.DW_AT_ranges, d.DW_FORM_sec_offset, offset)],
            )
            debug.unit(
                Die(d.DW_TAG_compile_unit, [(d.DW_AT_language, d.DW_FORM_data1, 4)], [f, function("main", 0x1000, 4)])
            )
            section = getattr(debug, name)
            if cut < len(section):
                del section[cut:]
                survives(read(debug.elf()).ranges, jobs=1, refused=())


@pytest.mark.parametrize("form", [d.DW_FORM_ref8, d.DW_FORM_ref_udata, d.DW_FORM_ref_addr])
@pytest.mark.parametrize("bit", [60, 61, 62, 63])
def test_a_reference_beyond_every_section_leads_nowhere(form: int, bit: int) -> None:
    """Bits of an offset past the end of a file are not read as flags of the section."""
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
