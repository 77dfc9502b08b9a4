"""Units whose ranges overlap: an answer does not depend on the other addresses of its query."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import permutations
from pathlib import Path

import pytest

import whence
from tests.forge import dwarf as d
from tests.forge.aranges import aranges
from tests.forge.dwarf import Debug, Die, function
from tests.forge.lines import program
from tests.helpers.dwarf import read
from whence.archive.create import create

Unit = tuple[int, int, int, Sequence[tuple[str, int, int]]]  # start, size, size of its line rows, functions

# As GNU as writes it for RISC-V, a unit and its function extend past the code, into the next two units.
ASSEMBLED: list[Unit] = [
    (0x1000, 0x1C, 0x14, [("first", 0x1000, 0x18)]),
    (0x1014, 0x1C, 0x14, [("second", 0x1014, 0x18)]),
    (0x1028, 0x40, 0x40, [("third", 0x1028, 0x30)]),
]
CROSSING: list[Unit] = [
    (0x1000, 0x100, 0x100, [("before", 0x1000, 0x60), ("after", 0x1060, 0xA0)]),
    (0x1030, 0x40, 0x40, [("between", 0x1030, 0x40)]),
]
ANSWERS = {
    0x1000: "first", 0x1013: "first", 0x1014: "second", 0x1017: "second", 0x1018: "second", 0x101B: "second",
    0x101C: "second", 0x1027: "second", 0x1028: "third", 0x102B: "third", 0x102C: "third", 0x1030: "third",
    0x1057: "third",
}  # fmt: skip
CROSSING_ANSWERS = {
    0x1000: "before", 0x102F: "before", 0x1030: "between", 0x103F: "between", 0x1040: "between", 0x105F: "between",
    0x1060: "after", 0x106F: "after", 0x1070: "after", 0x10FF: "after",
}  # fmt: skip


def written(units: Sequence[Unit], listed: str, path: Path) -> Path:
    """Write a file of these units; .debug_aranges lists the rows, the ranges of the root DIEs, or is missing."""
    debug, ranges = Debug(), []
    for start, size, rows, functions in units:
        length = rows if listed == "rows" else size
        ranges.append((len(debug.info), start, length))
        root = [
            (d.DW_AT_stmt_list, d.DW_FORM_sec_offset, len(debug.line)),
            (d.DW_AT_low_pc, d.DW_FORM_addr, start),
            (d.DW_AT_high_pc, d.DW_FORM_data2, size),
        ]
        debug.line += program([("set_address", start), ("copy",), ("end", rows)])
        debug.unit(Die(d.DW_TAG_compile_unit, root, [function(*fields) for fields in functions]))
    path.write_bytes(debug.elf(more=[aranges(debug, ranges)] if listed else []))
    return path


def answers(path: Path, vaddrs: Sequence[int]) -> list[tuple[str, str]]:
    with whence.open(path) as binary:
        frames = [binary.lookup(vaddr) for vaddr in vaddrs] if len(vaddrs) == 1 else binary.lookup_many(vaddrs)
        return [(frame.function, frame.file) for (frame,) in frames]


@pytest.mark.parametrize("listed", ["rows", "roots", ""])
@pytest.mark.parametrize(("units", "names"), [(ASSEMBLED, ANSWERS), (CROSSING, CROSSING_ANSWERS)])
def test_an_answer_does_not_depend_on_the_other_addresses(
    units: list[Unit], names: dict[int, str], listed: str, tmp_path: Path
) -> None:
    path = written(units, listed, tmp_path / "elf")
    alone = {vaddr: answers(path, [vaddr])[0] for vaddr in names}
    assert {vaddr: name for vaddr, (name, _) in alone.items()} == names
    assert all(file for _, file in alone.values())
    for pair in permutations(names, 2):
        assert answers(path, pair) == [alone[vaddr] for vaddr in pair], [hex(vaddr) for vaddr in pair]
    for vaddrs in ([*names], [*names] * 10, [*names][::-1]):  # few, and more than are looked up in .debug_aranges
        assert answers(path, vaddrs) == [alone[vaddr] for vaddr in vaddrs]
    create(path, tmp_path / "archive")
    assert answers(tmp_path / "archive", [*names]) == [*alone.values()]


def test_of_units_with_the_same_range_only_the_first_is_read() -> None:
    debug = Debug()
    offsets = []
    for start, size in ((0x1000, 0x10), (0x1000, 0x20), (0x1000, 0x10), (0x2000, 0x10)):
        offsets.append(len(debug.info))
        root = [(d.DW_AT_low_pc, d.DW_FORM_addr, start), (d.DW_AT_high_pc, d.DW_FORM_data2, size)]
        debug.unit(Die(d.DW_TAG_compile_unit, root, [function("f", start, size)]))
    info = read(debug.elf())
    assert info.units_at([0x2000, 0x1000]) == [offsets[0], offsets[1], offsets[3]]
    assert info.units_at([0x1010]) == [offsets[1]]
