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
    root = Die(d.DW_TAG_compile_unit, [(d.DW_AT_language, d.DW_FORM_data1, language)], children)
    info = read(Debug(version, **options).unit(root).elf())  # type: ignore[arg-type]
    assert not info.problems
    answer = found(info)
    assert not info.problems
    return answer


@pytest.mark.parametrize(("version", "order", "size", "wide"), SHAPES)
def test_functions_and_calls_are_found_in_every_version_order_size_and_width(
    version: int, order: str, size: int, wide: bool
) -> None:
    helper = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_strp, "helper")])
    main = function("main", 0x1000, 0x40, inlined(helper, 0x1010, 0x10, 7))
    info = read(Debug(version, order, size, wide).unit(Die(d.DW_TAG_compile_unit, [], [helper, main])).elf())  # type: ignore[arg-type]
    assert found(info) == [(0x1000, 0x1040, 0, "main"), (0x1010, 0x1020, 1, "helper")]
    assert not info.problems
    assert info.units[0].version == version


@pytest.mark.parametrize(
    "form",
    [
        d.DW_FORM_addr,
        d.DW_FORM_data1,
        d.DW_FORM_data2,
        d.DW_FORM_data4,
        d.DW_FORM_data8,
        d.DW_FORM_udata,
        d.DW_FORM_sdata,
        d.DW_FORM_implicit_const,
    ],
)
def test_a_high_pc_is_an_address_or_a_length(form: int) -> None:
    high = 0x1020 if form == d.DW_FORM_addr else 0x20
    assert one(
        Die(
            d.DW_TAG_subprogram,
            [
                (d.DW_AT_name, d.DW_FORM_string, "f"),
                (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1000),
                (d.DW_AT_high_pc, form, high),
            ],
        )
    ) == [(0x1000, 0x1020, 0, "f")]


def test_an_indirect_form_is_read_from_the_die() -> None:
    f = Die(d.DW_TAG_subprogram, [
        (d.DW_AT_name, d.DW_FORM_indirect, (d.DW_FORM_string, "f")),
        (d.DW_AT_low_pc, d.DW_FORM_indirect, (d.DW_FORM_addr, 0x1000)),
        (d.DW_AT_high_pc, d.DW_FORM_indirect, (d.DW_FORM_udata, 4)),
    ])  # fmt: skip
    assert one(f) == [(0x1000, 0x1004, 0, "f")]


def test_attributes_of_every_form_are_skipped_to_the_right_place() -> None:
    values: list[tuple[int, object]] = [
        (d.DW_FORM_addr, 1), (d.DW_FORM_block2, b"ab"), (d.DW_FORM_block4, b"abc"), (d.DW_FORM_data2, 1),
        (d.DW_FORM_data4, 1), (d.DW_FORM_data8, 1), (d.DW_FORM_string, "x"),
        (d.DW_FORM_block, b"abcd"), (d.DW_FORM_block1, b"a"), (d.DW_FORM_data1, 1), (d.DW_FORM_flag, 1),
        (d.DW_FORM_sdata, -300), (d.DW_FORM_strp, 0),
        (d.DW_FORM_udata, 300), (d.DW_FORM_ref_addr, 0), (d.DW_FORM_ref1, 1), (d.DW_FORM_ref2, 1), (d.DW_FORM_ref4, 1),
        (d.DW_FORM_ref8, 1), (d.DW_FORM_ref_udata, 300),
        (d.DW_FORM_indirect, (d.DW_FORM_data2, 1)), (d.DW_FORM_sec_offset, 0), (d.DW_FORM_exprloc, b"xyz"),
        (d.DW_FORM_flag_present, 1), (d.DW_FORM_strx, 300),
        (d.DW_FORM_addrx, 300), (d.DW_FORM_ref_sup4, 0), (d.DW_FORM_strp_sup, 0), (d.DW_FORM_data16, 1),
        (d.DW_FORM_line_strp, 0), (d.DW_FORM_ref_sig8, 1),
        (d.DW_FORM_implicit_const, -5), (d.DW_FORM_loclistx, 300), (d.DW_FORM_rnglistx, 300), (d.DW_FORM_ref_sup8, 0),
        (d.DW_FORM_strx1, 1), (d.DW_FORM_strx2, 1),
        (d.DW_FORM_strx3, 1), (d.DW_FORM_strx4, 1), (d.DW_FORM_addrx1, 1), (d.DW_FORM_addrx2, 1),
        (d.DW_FORM_addrx3, 1), (d.DW_FORM_addrx4, 1),
        (d.DW_FORM_GNU_addr_index, 300), (d.DW_FORM_GNU_str_index, 300), (d.DW_FORM_GNU_ref_alt, 0),
        (d.DW_FORM_GNU_strp_alt, 0),
    ]  # fmt: skip
    for version in (2, 5):
        for form, value in values:
            odd = Die(d.DW_TAG_variable, [(0x3FF0, form, value), (0x3FF1, d.DW_FORM_data1, 9)])
            assert one(odd, function("f", 0x1000, 4), version=version) == [(0x1000, 0x1004, 0, "f")], hex(form)


def test_functions_are_found_inside_blocks_namespaces_and_classes() -> None:
    deep = function("f", 0x1000, 4)
    for tag in (d.DW_TAG_lexical_block, d.DW_TAG_namespace, d.DW_TAG_module, d.DW_TAG_try_block):
        deep = Die(tag, [], [deep])
    in_class = Die(d.DW_TAG_class_type, [], [function("m", 0x2000, 4)])
    assert one(deep, in_class, language=0x16) == [(0x1000, 0x1004, 0, "f"), (0x2000, 0x2004, 0, "m")]


@pytest.mark.parametrize(("language", "expected"), [(0x1C, ["f", "kind"]), (0x04, ["f"]), (0x2A, ["f"]), (0x0C, ["f"])])
def test_methods_of_enumerations_are_found_where_a_language_has_them(language: int, expected: list[str]) -> None:
    method = Die(
        d.DW_TAG_subprogram,
        [
            (d.DW_AT_linkage_name, d.DW_FORM_string, "kind"),
            (d.DW_AT_low_pc, d.DW_FORM_addr, 0x2000),
            (d.DW_AT_high_pc, d.DW_FORM_udata, 4),
        ],
    )
    enumeration = Die(
        d.DW_TAG_enumeration_type,
        [(d.DW_AT_name, d.DW_FORM_string, "E")],
        [Die(d.DW_TAG_enumerator, [(d.DW_AT_name, d.DW_FORM_string, "A")]), method],
    )
    units = Debug(4)
    for offset, each in ((None, 0x0C), (0, language)):  # one abbreviation table, digested for the one and for the other
        children = [
            enumeration,
            Die(
                d.DW_TAG_subprogram,
                [
                    (d.DW_AT_linkage_name, d.DW_FORM_string, "f"),
                    (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1000),
                    (d.DW_AT_high_pc, d.DW_FORM_udata, 4),
                ],
            ),
        ]
        units.unit(Die(d.DW_TAG_compile_unit, [(d.DW_AT_language, d.DW_FORM_data1, each)], children), abbrev_at=offset)
    names = [name for _, _, _, name in found(read(units.elf()), jobs=1)]
    assert names == sorted(["f", *expected])


@pytest.mark.parametrize(("wide", "order"), [(False, "little"), (True, "big")])
def test_a_class_that_only_refers_to_its_type_unit_has_its_name_there(wide: bool, order: ByteOrder) -> None:
    debug = Debug(5, order, wide=wide)
    names = b"".join(debug.offset(debug.text(text)) for text in ("unused", "Box"))
    debug.str_offsets += debug.length(debug.number(5, 2) + b"\0\0" + names)
    base = (d.DW_AT_str_offsets_base, d.DW_FORM_sec_offset, 24 if wide else 12)  # of the second name
    described = Die(d.DW_TAG_class_type, [(d.DW_AT_name, d.DW_FORM_strx1, 0)])
    skeletons = [
        Die(
            d.DW_TAG_class_type,
            [(d.DW_AT_signature, d.DW_FORM_ref_sig8, signature), (d.DW_AT_declaration, d.DW_FORM_flag_present, 1)],
            [function("at", vaddr, 4)],
        )
        for vaddr, signature in ((0x1000, 7), (0x2000, 9))
    ]
    debug.unit(
        Die(
            d.DW_TAG_compile_unit,
            [(d.DW_AT_language, d.DW_FORM_data1, 4)],
            [Die(d.DW_TAG_namespace, [(d.DW_AT_name, d.DW_FORM_string, "n")], skeletons)],
        )
    )
    for signature in (6, 7):
        start = len(debug.info)
        die = Die(d.DW_TAG_type_unit, [(d.DW_AT_language, d.DW_FORM_data1, 4), base], [described])
        location = (40 if wide else 24) + 2 + (8 if wide else 4)
        debug.unit(die, kind=2, extra=debug.number(signature, 8) + debug.offset(location))
        assert described.offset == start + location
    info = read(debug.elf())
    assert [name for _, _, _, name in found(info)] == ["n::Box::at", "n::(anonymous)::at"]
    assert not info.problems
    assert info.units_at([0x1000]) == [0]


@pytest.mark.parametrize("language", [0x04, 0x1A, 0x21, 0x2A, 0x2B, 0x3A])
def test_names_are_qualified_in_cpp_of_every_year(language: int) -> None:
    space = Die(d.DW_TAG_namespace, [(d.DW_AT_name, d.DW_FORM_string, "n")], [function("f", 0x1000, 4)])
    assert one(space, language=language) == [(0x1000, 0x1004, 0, "n::f")]


def test_a_nested_function_does_not_cut_the_one_around_it_in_two() -> None:
    helper = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_string, "helper")])
    nested = function("nested", 0x2000, 0x10, inlined(helper, 0x2004, 4, 1))
    outer = function("outer", 0x1000, 0x10, nested, inlined(helper, 0x1004, 4, 2))
    assert one(helper, outer) == [
        (0x1000, 0x1010, 0, "outer"), (0x1004, 0x1008, 1, "helper"),
        (0x2000, 0x2010, 0, "nested"), (0x2004, 0x2008, 1, "helper"),
    ]  # fmt: skip


@pytest.mark.parametrize("sibling", [None, d.DW_FORM_ref2, d.DW_FORM_ref4, d.DW_FORM_ref8])
def test_types_are_skipped_with_and_without_siblings(sibling: int | None) -> None:
    members = [
        Die(
            d.DW_TAG_member,
            [(d.DW_AT_name, d.DW_FORM_string, f"m{i}"), (d.DW_AT_location, d.DW_FORM_exprloc, bytes(i))],
        )
        for i in range(9)
    ]
    nested = Die(d.DW_TAG_structure_type, [(d.DW_AT_name, d.DW_FORM_string, "inner")], members)
    attributes = [] if sibling is None else [(d.DW_AT_sibling, sibling, None)]
    outer = Die(d.DW_TAG_structure_type, attributes, [nested, *members])
    assert one(outer, function("f", 0x1000, 4)) == [(0x1000, 0x1004, 0, "f")]


def test_abbreviation_codes_may_count_in_any_way() -> None:
    for first, step in ((1, 1), (300, 1), (7, 13), (1000, -1), ((1 << 64) - 20, 1)):
        assert one(Die(d.DW_TAG_variable, []), function("f", 0x1000, 4), codes_from=first, codes_step=step) == [
            (0x1000, 0x1004, 0, "f")
        ]


def test_units_share_an_abbreviation_table() -> None:
    def build(name: str, at: int) -> Die:
        return Die(d.DW_TAG_compile_unit, [], [function(name, at, 4)])

    debug = Debug().unit(build("a", 0x1000)).unit(build("b", 0x2000), abbrev_at=0)
    assert found(read(debug.elf())) == [(0x1000, 0x1004, 0, "a"), (0x2000, 0x2004, 0, "b")]


class TestNames:
    def test_the_linkage_name_wins_wherever_the_chain_says_it(self) -> None:
        declared = Die(d.DW_TAG_subprogram, [
            (d.DW_AT_name, d.DW_FORM_string, "f"), (d.DW_AT_linkage_name, d.DW_FORM_string, "_Z1fv"),
            (d.DW_AT_declaration, d.DW_FORM_flag_present, 1),
        ])  # fmt: skip
        abstract = Die(
            d.DW_TAG_subprogram,
            [(d.DW_AT_specification, d.DW_FORM_ref4, declared), (d.DW_AT_name, d.DW_FORM_string, "g")],
        )
        concrete = Die(
            d.DW_TAG_subprogram,
            [
                (d.DW_AT_abstract_origin, d.DW_FORM_ref4, abstract),
                (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1000),
                (d.DW_AT_high_pc, d.DW_FORM_data1, 4),
            ],
        )
        assert one(declared, abstract, concrete) == [(0x1000, 0x1004, 0, "_Z1fv")]

    def test_a_chain_leads_into_another_unit(self) -> None:
        helper = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_strp, "helper")])
        debug = Debug().unit(Die(d.DW_TAG_compile_unit, [], [helper]))
        call = Die(
            d.DW_TAG_inlined_subroutine,
            [
                (d.DW_AT_abstract_origin, d.DW_FORM_ref_addr, helper),
                (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1004),
                (d.DW_AT_high_pc, d.DW_FORM_data1, 4),
            ],
        )
        debug.unit(Die(d.DW_TAG_compile_unit, [], [function("main", 0x1000, 16, call)]))
        assert found(read(debug.elf())) == [(0x1000, 0x1010, 0, "main"), (0x1004, 0x1008, 1, "helper")]

    @pytest.mark.parametrize(
        ("ref", "name"),
        [
            (d.DW_FORM_GNU_ref_alt, d.DW_FORM_strp),
            (d.DW_FORM_ref_sup4, d.DW_FORM_string),
            (d.DW_FORM_ref_sup8, d.DW_FORM_strp),
        ],
    )
    def test_a_chain_leads_into_the_supplementary_file(self, ref: int, name: int) -> None:
        helper = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, name, "helper")])
        alt = Debug().unit(Die(d.DW_TAG_partial_unit, [], [helper]))
        other = alt.text("main")
        main = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_GNU_strp_alt, other),
            (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1000), (d.DW_AT_high_pc, d.DW_FORM_data1, 16)], [
            Die(d.DW_TAG_inlined_subroutine, [(d.DW_AT_abstract_origin, ref, helper),
                (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1004), (d.DW_AT_high_pc, d.DW_FORM_data1, 4)])
        ])  # fmt: skip
        info = read(Debug().unit(Die(d.DW_TAG_compile_unit, [], [main])).elf(), alt.elf())
        assert found(info) == [(0x1000, 0x1010, 0, "main"), (0x1004, 0x1008, 1, "helper")]

    def test_origins_in_a_circle_end(self) -> None:
        first, second = Die(d.DW_TAG_subprogram), Die(d.DW_TAG_subprogram)
        first.attributes = [
            (d.DW_AT_abstract_origin, d.DW_FORM_ref4, second),
            (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1000),
            (d.DW_AT_high_pc, d.DW_FORM_data1, 4),
        ]
        second.attributes = [(d.DW_AT_abstract_origin, d.DW_FORM_ref4, first)]
        assert one(first, second) == [(0x1000, 0x1004, 0, "")]

    def test_cpp_names_without_a_linkage_name_are_qualified(self) -> None:
        declared = Die(
            d.DW_TAG_subprogram,
            [(d.DW_AT_name, d.DW_FORM_string, "m"), (d.DW_AT_declaration, d.DW_FORM_flag_present, 1)],
        )
        spaces = Die(d.DW_TAG_namespace, [(d.DW_AT_name, d.DW_FORM_string, "outer")], [
            Die(d.DW_TAG_namespace, [], [Die(d.DW_TAG_class_type, [(d.DW_AT_name, d.DW_FORM_string, "K")], [declared])])
        ])  # fmt: skip
        defined = Die(
            d.DW_TAG_subprogram,
            [
                (d.DW_AT_specification, d.DW_FORM_ref4, declared),
                (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1000),
                (d.DW_AT_high_pc, d.DW_FORM_data1, 4),
            ],
        )
        assert one(spaces, defined, function("main", 0x2000, 4), language=4) == [
            (0x1000, 0x1004, 0, "outer::(anonymous namespace)::K::m"), (0x2000, 0x2004, 0, "main"),
        ]  # fmt: skip

    def test_lambdas_and_local_classes_are_qualified_by_their_functions(self) -> None:
        def class_around(name: str, *members: Die) -> Die:
            return Die(d.DW_TAG_class_type, [(d.DW_AT_name, d.DW_FORM_string, name)] if name else [], members)

        inner = class_around("", function("operator()", 0x1010, 4))
        outer = function("operator()", 0x1000, 4, inner)
        local = Die(d.DW_TAG_lexical_block, [], [class_around("Local", function("run", 0x1020, 4))])
        main = function("main", 0x2000, 4, class_around("", outer), local)
        declared = Die(
            d.DW_TAG_subprogram,
            [(d.DW_AT_name, d.DW_FORM_string, "sum"), (d.DW_AT_declaration, d.DW_FORM_flag_present, 1)],
        )
        shop = Die(d.DW_TAG_namespace, [(d.DW_AT_name, d.DW_FORM_string, "shop")], [class_around("Cart", declared)])
        member = Die(
            d.DW_TAG_subprogram,
            [(d.DW_AT_specification, d.DW_FORM_ref4, declared)],
            [class_around("", function("operator()", 0x3000, 4)), class_around("", function("get", 0x3010, 4))],
        )
        found = one(main, shop, member, language=0x21)
        assert {vaddr: name for vaddr, _, _, name in found} == {
            0x1000: "main::'lambda'::operator()",
            0x1010: "main::'lambda'::operator()::'lambda'::operator()",
            0x1020: "main::Local::run",
            0x2000: "main",
            0x3000: "shop::Cart::sum::'lambda'::operator()",
            0x3010: "shop::Cart::sum::(anonymous)::get",
        }

    def test_strings_are_found_by_index(self) -> None:
        for version, form, base in (
            (5, d.DW_FORM_strx1, 8),
            (5, d.DW_FORM_strx3, 8),
            (5, d.DW_FORM_strx, 8),
            (4, d.DW_FORM_GNU_str_index, 0),
        ):
            debug = Debug(version)
            places = [debug.text("no"), debug.text("yes")]
            body = b"".join(debug.offset(location) for location in places)
            debug.str_offsets += debug.length(b"\5\0\0\0" + body) if base else body
            f = Die(
                d.DW_TAG_subprogram,
                [
                    (d.DW_AT_name, form, 1),
                    (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1000),
                    (d.DW_AT_high_pc, d.DW_FORM_data1, 4),
                ],
            )
            debug.unit(
                Die(
                    d.DW_TAG_compile_unit, [(d.DW_AT_str_offsets_base, d.DW_FORM_sec_offset, base)] if base else [], [f]
                )
            )
            assert found(read(debug.elf())) == [(0x1000, 0x1004, 0, "yes")]


class TestRanges:
    def test_a_function_in_several_parts_has_its_calls_in_each(self) -> None:
        debug = Debug()
        helper = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_string, "helper")])
        call = Die(d.DW_TAG_inlined_subroutine, [
            (d.DW_AT_abstract_origin, d.DW_FORM_ref4, helper),
            (d.DW_AT_ranges, d.DW_FORM_sec_offset, debug.range_list((0x3004, 0x3008), (0x1004, 0x1008))),
        ])  # fmt: skip
        parts = debug.range_list((0x3000, 0x3010), (0x1000, 0x1010))
        f = Die(
            d.DW_TAG_subprogram,
            [(d.DW_AT_name, d.DW_FORM_string, "f"), (d.DW_AT_ranges, d.DW_FORM_sec_offset, parts)],
            [call],
        )
        info = read(debug.unit(Die(d.DW_TAG_compile_unit, [(d.DW_AT_low_pc, d.DW_FORM_addr, 0)], [helper, f])).elf())
        assert found(info) == [
            (0x1000, 0x1010, 0, "f"), (0x1004, 0x1008, 1, "helper"),
            (0x3000, 0x3010, 0, "f"), (0x3004, 0x3008, 1, "helper"),
        ]  # fmt: skip

    def test_a_call_that_sticks_out_of_its_function_takes_the_function_along(self) -> None:
        helper = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_string, "helper")])
        f = function("f", 0x1000, 0x10, inlined(helper, 0x1008, 0x10, 3))
        assert (0x1008, 0x1018, 1, "helper") in one(helper, f)
        assert max(end for _, end, depth, _ in one(helper, f) if depth == 0) == 0x1018

    def test_a_call_without_ranges_is_still_around_the_calls_inside_it(self) -> None:
        helper = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_string, "helper")])
        middle = Die(
            d.DW_TAG_inlined_subroutine,
            [(d.DW_AT_abstract_origin, d.DW_FORM_ref4, helper)],
            [inlined(helper, 0x1004, 4, 9)],
        )
        assert one(helper, function("f", 0x1000, 0x10, middle)) == [
            (0x1000, 0x1010, 0, "f"), (0x1004, 0x1008, 1, "helper"), (0x1004, 0x1008, 2, "helper"),
        ]  # fmt: skip

    @pytest.mark.parametrize("size", [4, 8])
    def test_old_lists_select_a_base(self, size: int) -> None:
        debug = Debug(address_size=size)
        largest = (1 << 8 * size) - 1
        offset = debug.range_list((0, 4), (largest, 0x2000), (0x10, 0x14), (0x20, 0x20))
        f = Die(
            d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_string, "f"), (d.DW_AT_ranges, d.DW_FORM_sec_offset, offset)]
        )
        info = read(debug.unit(Die(d.DW_TAG_compile_unit, [(d.DW_AT_low_pc, d.DW_FORM_addr, 0x1000)], [f])).elf())
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
        value = (
            (d.DW_AT_ranges, d.DW_FORM_rnglistx, 1)
            if by_index
            else (d.DW_AT_ranges, d.DW_FORM_sec_offset, lists_base + 2 * width + 1)
        )
        f = Die(d.DW_TAG_subprogram, [(d.DW_AT_name, d.DW_FORM_string, "f"), value])
        root = [
            (d.DW_AT_low_pc, d.DW_FORM_addr, 0x1100),
            (d.DW_AT_addr_base, d.DW_FORM_sec_offset, base),
            (d.DW_AT_rnglists_base, d.DW_FORM_sec_offset, lists_base),
        ]
        info = read(debug.unit(Die(d.DW_TAG_compile_unit, root, [f])).elf())
        assert [(start, end) for start, end, _, _ in found(info)] == [
            (0x1000, 0x1004), (0x1110, 0x1114), (0x2000, 0x2004), (0x3010, 0x3018), (0x4000, 0x4008),
            (0x5000, 0x5004), (0x6000, 0x6004),
        ]  # fmt: skip

    @pytest.mark.parametrize("low", [0, 0x40, (1 << 64) - 1, (1 << 64) - 2, 0x100000])
    def test_code_that_a_linker_dropped_has_no_ranges(self, low: int) -> None:
        assert one(function("dropped", low, 0x10), function("kept", 0x1000, 4)) == [(0x1000, 0x1004, 0, "kept")]

    def test_addresses_are_found_by_index(self) -> None:
        for version, form, name in (
            (5, d.DW_FORM_addrx1, d.DW_AT_addr_base),
            (5, d.DW_FORM_addrx, d.DW_AT_addr_base),
            (4, d.DW_FORM_GNU_addr_index, 0x2133),
        ):
            debug = Debug(version)
            debug.addr += bytes(8) + debug.number(0x1000, 8) + debug.number(0x1008, 8)
            f = Die(
                d.DW_TAG_subprogram,
                [(d.DW_AT_name, d.DW_FORM_string, "f"), (d.DW_AT_low_pc, form, 0), (d.DW_AT_high_pc, form, 1)],
            )
            debug.unit(Die(d.DW_TAG_compile_unit, [(name, d.DW_FORM_sec_offset, 8)], [f]))
            assert found(read(debug.elf())) == [(0x1000, 0x1008, 0, "f")]


def test_only_units_that_can_hold_an_address_are_read() -> None:
    debug = Debug()
    for offset in (0x1000, 0x2000, 0x3000):
        root = (
            [(d.DW_AT_low_pc, d.DW_FORM_addr, offset), (d.DW_AT_high_pc, d.DW_FORM_data2, 0x100)]
            if offset != 0x3000
            else []
        )
        debug.unit(Die(d.DW_TAG_compile_unit, root, [function(f"f{offset:x}", offset, 4)]))
    info = read(debug.elf())
    offsets = [unit.offset for unit in info.units]
    assert info.units_at([0x2001]) == offsets[1:], "the third claims nothing, so it can hold anything"
    assert info.units_at([0x1001, 0x2001]) == offsets
    assert found(info, units=offsets[1:2]) == [(0x2000, 0x2004, 0, "f2000")]


@pytest.mark.parametrize("jobs", [1, 2, 7])
def test_threads_answer_alike(jobs: int) -> None:
    debug = Debug()
    for index in range(40):
        debug.unit(Die(d.DW_TAG_compile_unit, [], [function(f"f{index}", 0x1000 + 16 * index, 8)]))
    info = read(debug.elf())
    assert found(info, jobs=jobs) == sorted(
        (0x1000 + 16 * index, 0x1008 + 16 * index, 0, f"f{index}") for index in range(40)
    )
