"""Debug info of variables that claims more work than it is worth."""

from __future__ import annotations

from tests.forge import dwarf as d
from tests.forge.dwarf import Die
from tests.forge.lines import sleb, uleb
from tests.forge.variables import base, file, variable

INT = base("int", 4)
ENTRY_VALUE, FBREG = b"\xa3", b"\x91"
MEMBER_OFFSET, UPPER_BOUND = 0x38, 0x2F


def member(name: str, kind: Die) -> Die:
    return Die(
        d.DW_TAG_member,
        [
            (d.DW_AT_name, d.DW_FORM_string, name), (d.DW_AT_type, d.DW_FORM_ref4, kind),
            (MEMBER_OFFSET, d.DW_FORM_udata, 0),
        ],
    )  # fmt: skip


def structure(name: str, members: list[Die]) -> Die:
    return Die(d.DW_TAG_structure_type, [(d.DW_AT_name, d.DW_FORM_string, name), (0x0B, d.DW_FORM_udata, 8)], members)


def doubling() -> bytes:
    """Structures of two members of the structure before, 60 deep, in 500 variables."""
    kinds = [INT]
    for level in range(60):
        kinds.append(structure(f"s{level}", [member("a", kinds[-1]), member("b", kinds[-1])]))
    return file(kinds, [variable(f"v{n}", kinds[-1], FBREG + sleb(0)) for n in range(500)])


def named_doubling() -> bytes:
    """Types of functions whose parameters are two of the type before, 200 deep: their names double each time."""
    kinds: list[Die] = [INT]
    for _ in range(200):
        parameters = [Die(d.DW_TAG_formal_parameter, [(d.DW_AT_type, d.DW_FORM_ref4, kinds[-1])]) for _ in range(2)]
        function = Die(0x15, [], parameters)
        kinds += [function, Die(0x0F, [(d.DW_AT_type, d.DW_FORM_ref4, function)])]
    return file(kinds, [variable("v", kinds[-1], FBREG + sleb(0))])


def arrays_of_arrays() -> bytes:
    """Arrays of the array before, each of 2^60 elements; then a chain of 5,000 pointers and typedefs."""
    kinds: list[Die] = [INT]
    for _ in range(40):
        bound = Die(0x21, [(UPPER_BOUND, d.DW_FORM_udata, (1 << 60) - 1)])
        kinds.append(Die(0x01, [(d.DW_AT_type, d.DW_FORM_ref4, kinds[-1])], [bound]))
    last = kinds[-1]
    for level in range(5000):
        tag = 0x0F if level % 3 else 0x16
        kinds.append(Die(tag, [(d.DW_AT_type, d.DW_FORM_ref4, kinds[-1])]))
    return file(kinds, [variable("a", last, FBREG + sleb(0)), variable("p", kinds[-1], FBREG + sleb(0))])


def nested_expressions() -> bytes:
    """Values at the entry, one in another, a thousand times; jumps backwards for ever; 4,000 pieces."""
    inner = b"\x50"
    for _ in range(1000):
        inner = ENTRY_VALUE + uleb(len(inner)) + inner
    loops = b"\x2f" + (-3 & 0xFFFF).to_bytes(2, "little")
    pieces = b"\x50\x93\x01" * 4000
    bits = b"\x50\x9d" + uleb(1 << 40) + uleb(1 << 40)
    expressions = [inner, loops, pieces, bits, b"\x30\x12" * 3000, b"\x93" + uleb(1 << 62)]
    variables = [variable(f"v{n}", INT, expression) for n, expression in enumerate(expressions)]
    return file([INT], variables * 20)
