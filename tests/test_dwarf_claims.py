"""What units claim decides which rows are theirs, and which unit is believed."""

from __future__ import annotations

from collections.abc import Sequence

from tests.forge import dwarf as d
from tests.forge.dwarf import Debug, Die, function
from tests.forge.lines import program
from tests.test_dwarf_functions import found, read
from whence.ranges.arrange import arrange


def with_lines(low: int, size: int, root: Sequence[tuple[int, int, object]]) -> Debug:
    debug = Debug()
    debug.line += program([("set_address", low), ("copy",), ("end", size)])
    return debug.unit(Die(d.CU, [(d.STMT_LIST, d.SEC_OFFSET, 0), *root], [function("f", 0x1000, 0x10)]))


def test_rows_beyond_what_a_unit_claims_are_nothing() -> None:
    claim = [(d.LOW, d.ADDR, 0x1000), (d.HIGH, d.DATA2, 0x18)]
    info = read(with_lines(0x0FF0 + 0x10, 0x30, claim).elf())
    assert found(info) == [(0x1000, 0x1010, 0, "f"), (0x1010, 0x1018, 0, "")]


def test_rows_of_a_unit_that_claims_nothing_are_kept() -> None:
    info = read(with_lines(0x1000, 0x30, []).elf())
    assert found(info) == [(0x1000, 0x1010, 0, "f"), (0x1010, 0x1030, 0, "")]


def test_a_function_outside_of_its_units_claim_keeps_its_rows() -> None:
    info = read(with_lines(0x1000, 0x30, [(d.LOW, d.ADDR, 0x1020), (d.HIGH, d.DATA2, 8)]).elf())
    assert found(info) == [(0x1000, 0x1010, 0, "f"), (0x1020, 0x1028, 0, "")]
    assert all(info.ranges().file)


def test_of_units_with_the_same_function_the_first_is_believed() -> None:
    debug = Debug()
    for name in ("first", "second", "third"):
        debug.unit(Die(d.CU, [], [function(name, 0x1000, 4)]))
    info = read(debug.elf())
    table = arrange([info.ranges()])
    assert [info.strings.text(name) for name in table.function] == ["first"]
