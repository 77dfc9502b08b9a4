"""Locations and types that compilers rarely write: typed stacks, pieces, bit fields, types that contain themselves."""

from __future__ import annotations

import pytest

from tests.forge import dwarf as d
from tests.forge.dwarf import Die
from tests.forge.lines import sleb, uleb
from tests.forge.variables import STACK, DW_AT_byte_size, DW_ATE_unsigned, base, file, texts, variable, variables_of
from whence.types.decoding import Limits
from whence.types.model import ValueKind

FBREG, STACK_VALUE, PIECE, BIT_PIECE, LIT0 = b"\x91", b"\x9f", b"\x93", b"\x9d", 0x30
INT, LONG, BYTE = base("int", 4), base("long", 8), base("byte", 1, 8)
DW_AT_bit_size, DW_AT_data_bit_offset = 0x0D, 0x6B
MEMBER, OFFSET, UPPER_BOUND = d.DW_TAG_member, 0x38, 0x2F
DW_TAG_array_type, DW_TAG_pointer_type, DW_TAG_typedef, DW_TAG_subrange_type = 0x01, 0x0F, 0x16, 0x21


def of(tag: int, target: Die | None, *children: Die, name: str = "") -> Die:
    attributes: list[tuple[int, int, object]] = [(d.DW_AT_name, d.DW_FORM_string, name)] if name else []
    if target is not None:
        attributes.append((d.DW_AT_type, d.DW_FORM_ref4, target))
    return Die(tag, attributes, list(children) or None)


def structure(name: str, size: int, *members: tuple[str, Die, int]) -> Die:
    dies = [
        Die(
            MEMBER,
            [
                (d.DW_AT_name, d.DW_FORM_string, own), (d.DW_AT_type, d.DW_FORM_ref4, kind),
                (OFFSET, d.DW_FORM_udata, offset),
            ],
        )
        for own, kind, offset in members
    ]  # fmt: skip
    attributes = [(d.DW_AT_name, d.DW_FORM_string, name), (DW_AT_byte_size, d.DW_FORM_udata, size)]
    return Die(d.DW_TAG_structure_type, attributes, dies)


def located(expression: bytes, kind: Die = INT, *others: Die, memory: bytes = b"", **registers: int) -> str:
    """The value of a variable at a location."""
    numbers = {"rax": 0, "rdx": 1, "rcx": 2, "rbx": 3, "rbp": 6}
    values = {6: STACK, **{numbers[name]: value for name, value in registers.items()}}
    data = file([*others, kind], [variable("v", kind, expression)])
    return texts(data, {STACK: memory or bytes(64)}, values)["v"]


def test_locations() -> None:
    assert located(FBREG + sleb(4), memory=bytes(4) + (7).to_bytes(4, "little") + bytes(8)) == "7"
    assert located(b"\x50", rax=0xFFFFFFFF) == "-1"
    assert located(b"\x50") == "<error: the value of register rax is unknown>"
    assert located(b"") == "<optimized out>"
    assert located(bytes([LIT0 + 5]) + STACK_VALUE) == "5"
    assert located(b"\x9e\x04\x01\x00\x00\x00") == "1"  # DW_OP_implicit_value
    assert located(b"\xa0" + bytes(4) + b"\0") == "<synthetic pointer>"
    assert located(FBREG + sleb(1 << 20)) == f"<error: the memory at {STACK + (1 << 20):#x} is not in the dump>"
    assert located(b"\x50\x51", rax=1) == "<error: its location expression is damaged: an operation follows a location>"
    assert located(b"\xff") == ("<error: its location expression has the unknown operation 0xff>")


def test_pieces_may_be_anywhere() -> None:
    pair = structure("pair", 8, ("a", INT, 0), ("b", INT, 4))
    assert located(b"\x50\x93\x04\x51\x93\x04", pair, INT, rax=1, rdx=2) == "{a = 1, b = 2}"
    assert located(b"\x50\x93\x04\x93\x04", pair, INT, rax=1) == "{a = 1, b = <optimized out>}"
    assert located(b"\x93\x04\x93\x04", pair, INT) == "<optimized out>"
    bits = BIT_PIECE + uleb(32) + uleb(0)
    assert located(b"\x50" + bits + b"\x51" + bits, pair, INT, rax=3, rdx=4) == "{a = 3, b = 4}"


def test_bits_without_a_value_do_not_hide_their_neighbours() -> None:
    fields = []
    for name, bit, size in (("one", 0, 1), ("four", 1, 4), ("rest", 5, 27)):
        attributes: list[tuple[int, int, object]] = [
            (d.DW_AT_name, d.DW_FORM_string, name), (d.DW_AT_type, d.DW_FORM_ref4, INT),
            (DW_AT_bit_size, d.DW_FORM_udata, size), (DW_AT_data_bit_offset, d.DW_FORM_udata, bit),
        ]  # fmt: skip
        fields.append(Die(MEMBER, attributes))
    kind = structure("fields", 4)
    kind.children = fields
    pieces = b"".join(
        value + BIT_PIECE + uleb(size) + uleb(0) for value, size in ((b"\x31\x9f", 1), (b"\x37\x9f", 4), (b"", 27))
    )
    assert located(pieces, kind, INT) == "{one = -1, four = 7, rest = <optimized out>}"


@pytest.mark.parametrize(
    ("operation", "value"),
    [
        (0x1B, -3),  # DW_OP_div of typed values: -7 / 2
        (0x1D, -1),  # DW_OP_mod
        (0x1E, -14),  # DW_OP_mul
        (0x2D, 1),  # DW_OP_lt
    ],
)
def test_typed_values_are_calculated_as_their_type(operation: int, value: int) -> None:
    def typed(number: int) -> bytes:  # DW_OP_const_type, the type by its offset in the unit
        return b"\xa4" + uleb(INT.offset) + b"\x04" + (number & 0xFFFFFFFF).to_bytes(4, "little")

    located(b"\x30\x9f")  # places INT
    expression = typed(-7) + typed(2) + bytes([operation]) + STACK_VALUE
    assert located(expression) == str(value)


def test_a_type_that_is_its_own_element_or_alias_is_unknown() -> None:
    array = of(DW_TAG_array_type, None)
    array.attributes = [(d.DW_AT_type, d.DW_FORM_ref4, array)]
    alias = of(DW_TAG_typedef, None, name="alias")
    alias.attributes = [(d.DW_AT_name, d.DW_FORM_string, "alias"), (d.DW_AT_type, d.DW_FORM_ref4, alias)]
    inner = structure("inner", 4)
    inner.children = [Die(MEMBER, [(d.DW_AT_name, d.DW_FORM_string, "self"), (d.DW_AT_type, d.DW_FORM_ref4, inner)])]
    pointer = of(DW_TAG_pointer_type, None)
    pointer.attributes = [(d.DW_AT_type, d.DW_FORM_ref4, pointer)]
    kinds = {"array": array, "alias": alias, "inner": inner, "pointer": pointer}
    data = file([*kinds.values()], [variable(name, kind, FBREG + b"\0") for name, kind in kinds.items()])
    values = texts(data, {STACK: bytes(64)}, {6: STACK})
    assert values["alias"] == "<error: its type is unknown>"
    assert values["inner"].count("{") == 21  # the deepest is {...}
    assert values["pointer"] == "0x0"
    assert set(values) == set(kinds)


def test_limits_bound_elements_and_depth() -> None:
    bound = Die(DW_TAG_subrange_type, [(UPPER_BOUND, d.DW_FORM_udata, 999)])
    array = of(DW_TAG_array_type, LONG, bound)
    memory = b"".join(n.to_bytes(8, "little") for n in range(1000))
    data = file([LONG, array], [variable("v", array, FBREG + b"\0")])
    (result,) = variables_of(data, {STACK: memory}, {6: STACK}, limits=Limits(elements=3))
    assert (str(result.value), result.value.length, result.value.is_cut) == ("{0, 1, 2...}", 1000, True)
    memory = bytes(8 * 990) + memory[:80]
    (result,) = variables_of(data, {STACK: memory}, {6: STACK})
    assert str(result.value) == "{0 <repeats 991 times>, 1, 2, 3, 4, 5, 6, 7, 8, 9}"


def test_a_variable_without_name_or_with_a_bad_type_does_not_hide_others() -> None:
    broken = variable("broken", INT, FBREG + b"\0")
    broken.attributes = [*broken.attributes[:1], (d.DW_AT_type, d.DW_FORM_ref4, 0x7FFFFF), broken.attributes[2]]
    unnamed = Die(d.DW_TAG_variable, [(d.DW_AT_type, d.DW_FORM_ref4, INT)])
    data = file([INT], [broken, unnamed, variable("good", INT, FBREG + b"\0")])
    values = {each.name: each.value for each in variables_of(data, {STACK: bytes(64)}, {6: STACK})}
    assert values["broken"].kind is ValueKind.MISSING
    assert values["good"].text == "0"


def test_arguments_are_marked() -> None:
    data = file([INT], [variable("a", INT, b"\x30\x9f", argument=True), variable("l", INT, b"\x31\x9f")])
    result = [(each.name, each.is_argument, each.type) for each in variables_of(data)]
    assert result == [("a", True, "int"), ("l", False, "int")]


def test_unsigned_bytes_are_characters_in_c() -> None:
    byte = base("unsigned char", 1, DW_ATE_unsigned)
    assert located(bytes([0x08, 200]) + STACK_VALUE, byte) == r"200 '\310'"
