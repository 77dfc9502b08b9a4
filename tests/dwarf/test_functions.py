"""DIEs to ranges: functions, inlined calls, their names, in every shape producers write."""

from __future__ import annotations

import itertools

import pytest

from tests.forge import dwarf as d
from tests.forge.dwarf import Debug, Die, function, inlined
from tests.forge.lines import uleb
from tests.helpers.dwarf import Found, found, read
from whence._base.window import ByteOrder

SHAPES = [
    pytest.param(version, order, size, wide, id=f"v{version}-{order}-{8 * size}bit{'-wide' if wide else ''}")
    for version, order, size, wide in itertools.product((2, 3, 4, 5), ("little", "big"), (4, 8), (False, True))
    if not (wide and version == 2)
]


def one(*children: Die, version: int = 4, language: int = 12, **options: object) -> Found:
    info = read(Debug(version, **options).unit(Die(d.CU, [(d.LANGUAGE, d.DATA1, language)], children)).elf())  # type: ignore[arg-type]
    assert not info.problems
    answer = found(info)
    assert not info.problems
    return answer


@pytest.mark.parametrize(("version", "order", "size", "wide"), SHAPES)
def test_functions_and_calls_are_found_in_every_version_order_size_and_width(
    version: int, order: str, size: int, wide: bool
) -> None:
    helper = Die(d.FUNCTION, [(d.NAME, d.STRP, "helper")])
    main = function("main", 0x1000, 0x40, inlined(helper, 0x1010, 0x10, 7))
    info = read(Debug(version, order, size, wide).unit(Die(d.CU, [], [helper, main])).elf())  # type: ignore[arg-type]
    assert found(info) == [(0x1000, 0x1040, 0, "main"), (0x1010, 0x1020, 1, "helper")]
    assert not info.problems
    assert info.units[0].version == version


@pytest.mark.parametrize("form", [d.ADDR, d.DATA1, d.DATA2, d.DATA4, d.DATA8, d.UDATA, d.SDATA, d.IMPLICIT])
def test_a_high_pc_is_an_address_or_a_length(form: int) -> None:
    high = 0x1020 if form == d.ADDR else 0x20
    assert one(Die(d.FUNCTION, [(d.NAME, d.STRING, "f"), (d.LOW, d.ADDR, 0x1000), (d.HIGH, form, high)])) == [
        (0x1000, 0x1020, 0, "f")
    ]


def test_an_indirect_form_stands_in_the_die() -> None:
    f = Die(d.FUNCTION, [
        (d.NAME, d.INDIRECT, (d.STRING, "f")),
        (d.LOW, d.INDIRECT, (d.ADDR, 0x1000)),
        (d.HIGH, d.INDIRECT, (d.UDATA, 4)),
    ])  # fmt: skip
    assert one(f) == [(0x1000, 0x1004, 0, "f")]


def test_attributes_of_every_form_are_skipped_to_the_right_place() -> None:
    values: list[tuple[int, object]] = [
        (d.ADDR, 1), (d.BLOCK2, b"ab"), (d.BLOCK4, b"abc"), (d.DATA2, 1), (d.DATA4, 1), (d.DATA8, 1), (d.STRING, "x"),
        (d.BLOCK_FORM, b"abcd"), (d.BLOCK1, b"a"), (d.DATA1, 1), (d.FLAG, 1), (d.SDATA, -300), (d.STRP, 0),
        (d.UDATA, 300), (d.REF_ADDR, 0), (d.REF1, 1), (d.REF2, 1), (d.REF4, 1), (d.REF8, 1), (d.REF_UDATA, 300),
        (d.INDIRECT, (d.DATA2, 1)), (d.SEC_OFFSET, 0), (d.EXPRLOC, b"xyz"), (d.PRESENT, 1), (d.STRX, 300),
        (d.ADDRX, 300), (d.REF_SUP4, 0), (d.STRP_SUP, 0), (d.DATA16, 1), (d.LINE_STRP, 0), (d.REF_SIG8, 1),
        (d.IMPLICIT, -5), (d.LOCLISTX, 300), (d.RNGLISTX, 300), (d.REF_SUP8, 0), (d.STRX1, 1), (d.STRX2, 1),
        (d.STRX3, 1), (d.STRX4, 1), (d.ADDRX1, 1), (d.ADDRX2, 1), (d.ADDRX3, 1), (d.ADDRX4, 1),
        (d.GNU_ADDR_INDEX, 300), (d.GNU_STR_INDEX, 300), (d.GNU_REF_ALT, 0), (d.GNU_STRP_ALT, 0),
    ]  # fmt: skip
    for version in (2, 5):
        for form, value in values:
            odd = Die(d.VARIABLE, [(0x3FF0, form, value), (0x3FF1, d.DATA1, 9)])
            assert one(odd, function("f", 0x1000, 4), version=version) == [(0x1000, 0x1004, 0, "f")], hex(form)


def test_functions_are_found_inside_blocks_namespaces_and_classes() -> None:
    deep = function("f", 0x1000, 4)
    for tag in (d.BLOCK, d.NAMESPACE, 0x1E, 0x32):
        deep = Die(tag, [], [deep])
    in_class = Die(d.CLASS, [], [function("m", 0x2000, 4)])
    assert one(deep, in_class, language=0x16) == [(0x1000, 0x1004, 0, "f"), (0x2000, 0x2004, 0, "m")]


@pytest.mark.parametrize(("language", "expected"), [(0x1C, ["f", "kind"]), (0x04, ["f"]), (0x2A, ["f"]), (0x0C, ["f"])])
def test_methods_of_enumerations_are_found_where_a_language_has_them(language: int, expected: list[str]) -> None:
    method = Die(d.FUNCTION, [(d.LINKAGE, d.STRING, "kind"), (d.LOW, d.ADDR, 0x2000), (d.HIGH, d.UDATA, 4)])
    enumeration = Die(0x04, [(d.NAME, d.STRING, "E")], [Die(0x28, [(d.NAME, d.STRING, "A")]), method])
    units = Debug(4)
    for at, each in ((None, 0x0C), (0, language)):  # one abbreviation table, digested for the one and for the other
        children = [
            enumeration,
            Die(d.FUNCTION, [(d.LINKAGE, d.STRING, "f"), (d.LOW, d.ADDR, 0x1000), (d.HIGH, d.UDATA, 4)]),
        ]
        units.unit(Die(d.CU, [(d.LANGUAGE, d.DATA1, each)], children), abbrev_at=at)
    names = [name for _, _, _, name in found(read(units.elf()), jobs=1)]
    assert names == sorted(["f", *expected])


@pytest.mark.parametrize(("wide", "order"), [(False, "little"), (True, "big")])
def test_a_class_that_only_refers_to_its_type_unit_has_its_name_there(wide: bool, order: ByteOrder) -> None:
    debug = Debug(5, order, wide=wide)
    names = b"".join(debug.offset(debug.text(text)) for text in ("unused", "Box"))
    debug.str_offsets += debug.length(debug.number(5, 2) + b"\0\0" + names)
    base = (d.STR_BASE, d.SEC_OFFSET, 24 if wide else 12)  # of the second name
    described = Die(d.CLASS, [(d.NAME, d.STRX1, 0)])
    skeletons = [
        Die(d.CLASS, [(0x69, d.REF_SIG8, signature), (d.DECLARATION, d.PRESENT, 1)], [function("at", vaddr, 4)])
        for vaddr, signature in ((0x1000, 7), (0x2000, 9))
    ]
    debug.unit(Die(d.CU, [(d.LANGUAGE, d.DATA1, 4)], [Die(d.NAMESPACE, [(d.NAME, d.STRING, "n")], skeletons)]))
    for signature in (6, 7):
        start = len(debug.info)
        die = Die(0x41, [(d.LANGUAGE, d.DATA1, 4), base], [described])
        place = (40 if wide else 24) + 2 + (8 if wide else 4)
        debug.unit(die, kind=2, extra=debug.number(signature, 8) + debug.offset(place))
        assert described.offset == start + place
    info = read(debug.elf())
    assert [name for _, _, _, name in found(info)] == ["n::Box::at", "n::(anonymous)::at"]
    assert not info.problems
    assert info.units_at([0x1000]) == [0]


@pytest.mark.parametrize("language", [0x04, 0x1A, 0x21, 0x2A, 0x2B, 0x3A])
def test_names_are_qualified_in_cpp_of_every_year(language: int) -> None:
    space = Die(d.NAMESPACE, [(d.NAME, d.STRING, "n")], [function("f", 0x1000, 4)])
    assert one(space, language=language) == [(0x1000, 0x1004, 0, "n::f")]


def test_a_nested_function_does_not_cut_the_one_around_it_in_two() -> None:
    helper = Die(d.FUNCTION, [(d.NAME, d.STRING, "helper")])
    nested = function("nested", 0x2000, 0x10, inlined(helper, 0x2004, 4, 1))
    outer = function("outer", 0x1000, 0x10, nested, inlined(helper, 0x1004, 4, 2))
    assert one(helper, outer) == [
        (0x1000, 0x1010, 0, "outer"), (0x1004, 0x1008, 1, "helper"),
        (0x2000, 0x2010, 0, "nested"), (0x2004, 0x2008, 1, "helper"),
    ]  # fmt: skip


@pytest.mark.parametrize("sibling", [None, d.REF2, d.REF4, d.REF8])
def test_types_are_skipped_with_and_without_siblings(sibling: int | None) -> None:
    members = [Die(0x0D, [(d.NAME, d.STRING, f"m{i}"), (d.LOCATION, d.EXPRLOC, bytes(i))]) for i in range(9)]
    nested = Die(d.STRUCTURE, [(d.NAME, d.STRING, "inner")], members)
    attributes = [] if sibling is None else [(d.SIBLING, sibling, None)]
    outer = Die(d.STRUCTURE, attributes, [nested, *members])
    assert one(outer, function("f", 0x1000, 4)) == [(0x1000, 0x1004, 0, "f")]


def test_abbreviation_codes_may_count_in_any_way() -> None:
    for first, step in ((1, 1), (300, 1), (7, 13), (1000, -1), ((1 << 64) - 20, 1)):
        assert one(Die(d.VARIABLE, []), function("f", 0x1000, 4), codes_from=first, codes_step=step) == [
            (0x1000, 0x1004, 0, "f")
        ]


def test_units_share_an_abbreviation_table() -> None:
    def build(name: str, at: int) -> Die:
        return Die(d.CU, [], [function(name, at, 4)])

    debug = Debug().unit(build("a", 0x1000)).unit(build("b", 0x2000), abbrev_at=0)
    assert found(read(debug.elf())) == [(0x1000, 0x1004, 0, "a"), (0x2000, 0x2004, 0, "b")]


class TestNames:
    def test_the_linkage_name_wins_wherever_the_chain_says_it(self) -> None:
        declared = Die(d.FUNCTION, [
            (d.NAME, d.STRING, "f"), (d.LINKAGE, d.STRING, "_Z1fv"), (d.DECLARATION, d.PRESENT, 1),
        ])  # fmt: skip
        abstract = Die(d.FUNCTION, [(d.SPECIFICATION, d.REF4, declared), (d.NAME, d.STRING, "g")])
        concrete = Die(d.FUNCTION, [(d.ORIGIN, d.REF4, abstract), (d.LOW, d.ADDR, 0x1000), (d.HIGH, d.DATA1, 4)])
        assert one(declared, abstract, concrete) == [(0x1000, 0x1004, 0, "_Z1fv")]

    def test_a_chain_leads_into_another_unit(self) -> None:
        helper = Die(d.FUNCTION, [(d.NAME, d.STRP, "helper")])
        debug = Debug().unit(Die(d.CU, [], [helper]))
        call = Die(d.INLINED, [(d.ORIGIN, d.REF_ADDR, helper), (d.LOW, d.ADDR, 0x1004), (d.HIGH, d.DATA1, 4)])
        debug.unit(Die(d.CU, [], [function("main", 0x1000, 16, call)]))
        assert found(read(debug.elf())) == [(0x1000, 0x1010, 0, "main"), (0x1004, 0x1008, 1, "helper")]

    @pytest.mark.parametrize(("ref", "name"), [(d.GNU_REF_ALT, d.STRP), (d.REF_SUP4, d.STRING), (d.REF_SUP8, d.STRP)])
    def test_a_chain_leads_into_the_supplementary_file(self, ref: int, name: int) -> None:
        helper = Die(d.FUNCTION, [(d.NAME, name, "helper")])
        alt = Debug().unit(Die(d.PARTIAL, [], [helper]))
        other = alt.text("main")
        main = Die(d.FUNCTION, [(d.NAME, d.GNU_STRP_ALT, other), (d.LOW, d.ADDR, 0x1000), (d.HIGH, d.DATA1, 16)], [
            Die(d.INLINED, [(d.ORIGIN, ref, helper), (d.LOW, d.ADDR, 0x1004), (d.HIGH, d.DATA1, 4)])
        ])  # fmt: skip
        info = read(Debug().unit(Die(d.CU, [], [main])).elf(), alt.elf())
        assert found(info) == [(0x1000, 0x1010, 0, "main"), (0x1004, 0x1008, 1, "helper")]

    def test_origins_in_a_circle_end(self) -> None:
        first, second = Die(d.FUNCTION), Die(d.FUNCTION)
        first.attributes = [(d.ORIGIN, d.REF4, second), (d.LOW, d.ADDR, 0x1000), (d.HIGH, d.DATA1, 4)]
        second.attributes = [(d.ORIGIN, d.REF4, first)]
        assert one(first, second) == [(0x1000, 0x1004, 0, "")]

    def test_cpp_names_without_a_linkage_name_are_qualified(self) -> None:
        declared = Die(d.FUNCTION, [(d.NAME, d.STRING, "m"), (d.DECLARATION, d.PRESENT, 1)])
        spaces = Die(d.NAMESPACE, [(d.NAME, d.STRING, "outer")], [
            Die(d.NAMESPACE, [], [Die(d.CLASS, [(d.NAME, d.STRING, "K")], [declared])])
        ])  # fmt: skip
        defined = Die(d.FUNCTION, [(d.SPECIFICATION, d.REF4, declared), (d.LOW, d.ADDR, 0x1000), (d.HIGH, d.DATA1, 4)])
        assert one(spaces, defined, function("main", 0x2000, 4), language=4) == [
            (0x1000, 0x1004, 0, "outer::(anonymous namespace)::K::m"), (0x2000, 0x2004, 0, "main"),
        ]  # fmt: skip

    def test_strings_are_found_by_index(self) -> None:
        for version, form, base in ((5, d.STRX1, 8), (5, d.STRX3, 8), (5, d.STRX, 8), (4, d.GNU_STR_INDEX, 0)):
            debug = Debug(version)
            places = [debug.text("no"), debug.text("yes")]
            body = b"".join(debug.offset(place) for place in places)
            debug.str_offsets += debug.length(b"\5\0\0\0" + body) if base else body
            f = Die(d.FUNCTION, [(d.NAME, form, 1), (d.LOW, d.ADDR, 0x1000), (d.HIGH, d.DATA1, 4)])
            debug.unit(Die(d.CU, [(d.STR_BASE, d.SEC_OFFSET, base)] if base else [], [f]))
            assert found(read(debug.elf())) == [(0x1000, 0x1004, 0, "yes")]


class TestRanges:
    def test_a_function_in_several_parts_has_its_calls_in_each(self) -> None:
        debug = Debug()
        helper = Die(d.FUNCTION, [(d.NAME, d.STRING, "helper")])
        call = Die(d.INLINED, [
            (d.ORIGIN, d.REF4, helper), (d.RANGES, d.SEC_OFFSET, debug.range_list((0x3004, 0x3008), (0x1004, 0x1008))),
        ])  # fmt: skip
        parts = debug.range_list((0x3000, 0x3010), (0x1000, 0x1010))
        f = Die(d.FUNCTION, [(d.NAME, d.STRING, "f"), (d.RANGES, d.SEC_OFFSET, parts)], [call])
        info = read(debug.unit(Die(d.CU, [(d.LOW, d.ADDR, 0)], [helper, f])).elf())
        assert found(info) == [
            (0x1000, 0x1010, 0, "f"), (0x1004, 0x1008, 1, "helper"),
            (0x3000, 0x3010, 0, "f"), (0x3004, 0x3008, 1, "helper"),
        ]  # fmt: skip

    def test_a_call_that_sticks_out_of_its_function_takes_the_function_along(self) -> None:
        helper = Die(d.FUNCTION, [(d.NAME, d.STRING, "helper")])
        f = function("f", 0x1000, 0x10, inlined(helper, 0x1008, 0x10, 3))
        assert (0x1008, 0x1018, 1, "helper") in one(helper, f)
        assert max(end for _, end, depth, _ in one(helper, f) if depth == 0) == 0x1018

    def test_a_call_without_ranges_is_still_around_the_calls_inside_it(self) -> None:
        helper = Die(d.FUNCTION, [(d.NAME, d.STRING, "helper")])
        middle = Die(d.INLINED, [(d.ORIGIN, d.REF4, helper)], [inlined(helper, 0x1004, 4, 9)])
        assert one(helper, function("f", 0x1000, 0x10, middle)) == [
            (0x1000, 0x1010, 0, "f"), (0x1004, 0x1008, 1, "helper"), (0x1004, 0x1008, 2, "helper"),
        ]  # fmt: skip

    @pytest.mark.parametrize("size", [4, 8])
    def test_old_lists_select_a_base(self, size: int) -> None:
        debug = Debug(address_size=size)
        largest = (1 << 8 * size) - 1
        at = debug.range_list((0, 4), (largest, 0x2000), (0x10, 0x14), (0x20, 0x20))
        f = Die(d.FUNCTION, [(d.NAME, d.STRING, "f"), (d.RANGES, d.SEC_OFFSET, at)])
        info = read(debug.unit(Die(d.CU, [(d.LOW, d.ADDR, 0x1000)], [f])).elf())
        assert found(info) == [(0x1000, 0x1004, 0, "f"), (0x2010, 0x2014, 0, "f")]

    @pytest.mark.parametrize("wide", [False, True])
    @pytest.mark.parametrize("by_index", [False, True])
    def test_new_lists_have_eight_kinds_of_entries(self, wide: bool, by_index: bool) -> None:
        debug = Debug(5, wide=wide)
        addr_head = debug.length(b"\5\0\x08\0" + b"".join(debug.number(a, 8) for a in (0x1000, 0x1004, 0x2000, 0x3000)))
        debug.addr += addr_head
        base = 16 if wide else 8
        entries = (
            b"\4" + uleb(0x10) + uleb(0x14)  # offset_pair from the unit's base
            + b"\2" + uleb(0) + uleb(1)  # startx_endx
            + b"\3" + uleb(2) + uleb(4)  # startx_length
            + b"\1" + uleb(3) + b"\4" + uleb(0x10) + uleb(0x18)  # base_addressx, offset_pair
            + b"\5" + debug.number(0x4000, 8) + b"\4" + uleb(0) + uleb(8)  # base_address, offset_pair
            + b"\6" + debug.number(0x5000, 8) + debug.number(0x5004, 8)  # start_end
            + b"\7" + debug.number(0x6000, 8) + uleb(4) + b"\0"
        )  # fmt: skip
        width = 8 if wide else 4
        table = debug.offset(2 * width) + debug.offset(2 * width + 1)
        debug.rnglists += debug.length(b"\5\0\x08\0" + debug.number(2, 4) + table + b"\0" + entries)
        lists_base = 20 if wide else 12
        value = (d.RANGES, d.RNGLISTX, 1) if by_index else (d.RANGES, d.SEC_OFFSET, lists_base + 2 * width + 1)
        f = Die(d.FUNCTION, [(d.NAME, d.STRING, "f"), value])
        root = [(d.LOW, d.ADDR, 0x1100), (d.ADDR_BASE, d.SEC_OFFSET, base), (d.RNG_BASE, d.SEC_OFFSET, lists_base)]
        info = read(debug.unit(Die(d.CU, root, [f])).elf())
        assert [(start, end) for start, end, _, _ in found(info)] == [
            (0x1000, 0x1004), (0x1110, 0x1114), (0x2000, 0x2004), (0x3010, 0x3018), (0x4000, 0x4008),
            (0x5000, 0x5004), (0x6000, 0x6004),
        ]  # fmt: skip

    @pytest.mark.parametrize("low", [0, 0x40, (1 << 64) - 1, (1 << 64) - 2, 0x100000])
    def test_code_that_a_linker_dropped_is_none(self, low: int) -> None:
        assert one(function("dropped", low, 0x10), function("kept", 0x1000, 4)) == [(0x1000, 0x1004, 0, "kept")]

    def test_addresses_are_found_by_index(self) -> None:
        for version, form, name in (
            (5, d.ADDRX1, d.ADDR_BASE),
            (5, d.ADDRX, d.ADDR_BASE),
            (4, d.GNU_ADDR_INDEX, 0x2133),
        ):
            debug = Debug(version)
            debug.addr += bytes(8) + debug.number(0x1000, 8) + debug.number(0x1008, 8)
            f = Die(d.FUNCTION, [(d.NAME, d.STRING, "f"), (d.LOW, form, 0), (d.HIGH, form, 1)])
            debug.unit(Die(d.CU, [(name, d.SEC_OFFSET, 8)], [f]))
            assert found(read(debug.elf())) == [(0x1000, 0x1008, 0, "f")]


def test_only_units_that_can_hold_an_address_are_read() -> None:
    debug = Debug()
    for at in (0x1000, 0x2000, 0x3000):
        root = [(d.LOW, d.ADDR, at), (d.HIGH, d.DATA2, 0x100)] if at != 0x3000 else []
        debug.unit(Die(d.CU, root, [function(f"f{at:x}", at, 4)]))
    info = read(debug.elf())
    offsets = [unit.offset for unit in info.units]
    assert info.units_at([0x2001]) == offsets[1:], "the third claims nothing, so it can hold anything"
    assert info.units_at([0x1001, 0x2001]) == offsets
    assert found(info, units=offsets[1:2]) == [(0x2000, 0x2004, 0, "f2000")]


@pytest.mark.parametrize("jobs", [1, 2, 7])
def test_threads_answer_alike(jobs: int) -> None:
    debug = Debug()
    for at in range(40):
        debug.unit(Die(d.CU, [], [function(f"f{at}", 0x1000 + 16 * at, 8)]))
    info = read(debug.elf())
    assert found(info, jobs=jobs) == sorted((0x1000 + 16 * at, 0x1008 + 16 * at, 0, f"f{at}") for at in range(40))
