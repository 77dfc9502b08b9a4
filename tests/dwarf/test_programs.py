"""Line programs read many at once say what each says when it is read by itself."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import pytest

from tests.forge import dwarf as d
from tests.forge.dwarf import Debug, Die
from tests.forge.lines import Step, new_tables, program, uleb
from tests.helpers.dwarf import read
from whence._base.errors import DwarfError
from whence._base.window import ByteOrder
from whence.dwarf import DebugInfo
from whence.dwarf.kernels import units
from whence.dwarf.line_files import LineBudgets, Paths
from whence.dwarf.lines import LinePrograms, LineTable, read_lines
from whence.ranges import Rows, Scopes, Starts
from whence.ranges.strings import Arena
from whence.ranges.table import NO_FILE

CODE: list[Step] = [("set_address", 0x1000), ("special", 0, 6), ("file", 2), ("special", 4, 1), ("end", 8)]
TWICE: list[Step] = [*CODE, ("set_address", 0x2000), ("copy",), ("file", 9), ("special", 2, 1), ("end", 4)]
BACK: list[Step] = [("set_address", 0x1010), ("copy",), ("set_address", 0x1004), ("special", 0, 1), ("end", 0x20)]
DEFINED: list[Step] = [("define_file", 0, "late.c"), ("file", 3), *CODE]
DEAD: list[Step] = [("set_address", 0), ("copy",), ("end", 8), *CODE]
UNENDED: list[Step] = [*CODE, ("set_address", 0x3000), ("copy",)]
NO_SIZE = new_tables([b"/src"], [(b"main.c", 0)])[:-1]
HUGE_COUNT = bytes([1, 1, 0x08]) + uleb(1 << 40)
LINE_STRP = bytes([1, 1, 0x1F, 1]) + bytes(4) + bytes([2, 1, 0x1F, 2, 0x0B, 2]) + (bytes(4) + b"\0") * 2


def file_of(programs: Sequence[bytes], order: ByteOrder, size: int) -> tuple[DebugInfo, list[int]]:
    """Units with these programs, and where the programs are."""
    debug = Debug(4, order, size)
    debug.line_strings[:] = b"main.c\0"
    offsets = []
    for number, body in enumerate(programs):
        offsets.append(len(debug.line))
        root = [
            (d.DW_AT_stmt_list, d.DW_FORM_sec_offset, len(debug.line)),
            (d.DW_AT_comp_dir, d.DW_FORM_string, f"/build/{number % 2}"),
        ]
        debug.line += body
        debug.unit(Die(d.DW_TAG_compile_unit, root, [Die(d.DW_TAG_base_type)]))
    return read(debug.elf()), offsets


def as_text(info: DebugInfo, rows: Rows, first: int, last: int) -> list[tuple[int, str | None, int]]:
    texts = [None if file == NO_FILE else info.strings.text(rows.files[file]) for file in rows.file[first:last]]
    return list(zip(rows.vaddr[first:last], texts, rows.line[first:last], strict=True))


@pytest.mark.parametrize("size", [4, 8])
@pytest.mark.parametrize("order", ["little", "big"])
def test_programs_read_at_once_say_what_each_says_by_itself(order: ByteOrder, size: int) -> None:
    made = [
        program(steps, version=version, wide=wide, order=order, address_size=size)
        for steps in (CODE, TWICE, DEAD, [], BACK, DEFINED, UNENDED)
        for version in (2, 3, 4, 5)
        for wide in (False, True)
    ]
    given = {"order": order, "address_size": size}
    made += [
        program(CODE, version=5, tables=NO_SIZE, **given),  # type: ignore[arg-type]
        program(CODE, version=5, tables=HUGE_COUNT, **given),  # type: ignore[arg-type]
        program(CODE, version=5, tables=LINE_STRP, **given),  # type: ignore[arg-type]
        program(CODE, version=5, tables=LINE_STRP, **given),  # type: ignore[arg-type]
        program(CODE, version=9, **given),  # type: ignore[arg-type]
        program(CODE, line_range=0, **given),  # type: ignore[arg-type]
        program(CODE, tables=b"cut", **given),  # type: ignore[arg-type]
        program(CODE, directories=[], files=[], **given),  # type: ignore[arg-type]
        program(CODE, **given)[:20],  # type: ignore[arg-type]
    ]
    info, offsets = file_of(made, order, size)
    arena = Arena(info.strings)

    def by_itself(index: int) -> LineTable:
        comp_dir = info.strings.raw(info.units.value(index, units.COMP_DIR))
        return read_lines(
            info.sections, offset=offsets[index], arena=arena, order=order, address_size=size, comp_dir=comp_dir
        )

    call_file = array("Q", [number for _ in made for number in (0, 1, 2, 77)])
    scopes = Scopes(call_file=call_file)
    scope_ends = array("I", range(4, 4 * len(made) + 1, 4))
    numbers = array("Q", call_file)
    programs = LinePrograms(info.sections, order, 1, Paths(info.sections, order, arena), info.strings)
    starts = Starts(file=array("Q", [number for _ in made for number in (2, 1)]))
    declared = array("Q", starts.file)
    start_ends = array("I", range(2, 2 * len(made) + 1, 2))
    chosen = array("I", range(len(made)))
    problems: list[DwarfError] = []
    rows, ends = programs.read(info.units.rows, chosen, scopes, scope_ends, starts, start_ends, problems)
    expected = [by_itself(index) for index in range(len(made))]
    arena.seal()
    assert list(map(str, problems)) == [str(problem) for table in expected for problem in table.problems]
    assert len(problems) > 10
    first = 0
    for index, table in enumerate(expected):
        assert as_text(info, rows, first, ends[index]) == as_text(info, table.rows, 0, len(table.rows)), index
        called = [info.strings.text(name) for name in scopes.call_file[4 * index : 4 * index + 4]]
        assert called == [info.strings.text(table.file(n)) for n in numbers[4 * index : 4 * index + 4]], index
        begun = [info.strings.text(name) for name in starts.file[2 * index : 2 * index + 2]]
        assert begun == [info.strings.text(table.file(n)) for n in declared[2 * index : 2 * index + 2]], index
        first = ends[index]


def test_programs_are_read_no_more_often_than_their_bytes_justify_when_read_at_once() -> None:
    info, _ = file_of([program([*CODE[:-1], *[("copy",)] * 100_000, ("end", 8)])], "little", 8)
    arena = Arena(info.strings)
    paths = Paths(info.sections, "little", arena)
    programs = LinePrograms(info.sections, "little", 1, paths, info.strings)
    none = array("I", bytes(20))
    problems: list[DwarfError] = []
    programs.read(info.units.rows, array("I", [0] * 5), Scopes(), none, Starts(), none, problems)
    assert ["read more often than the size of the section allows" in str(problem) for problem in problems] == [True] * 3


def test_all_threads_that_read_a_file_have_one_budget() -> None:
    info, _ = file_of([program([*CODE[:-1], *[("copy",)] * 100_000, ("end", 8)])], "little", 8)
    budgets, none, refused = LineBudgets(), array("I", bytes(20)), []
    for _ in range(3):
        paths = Paths(info.sections, "little", Arena(info.strings), budgets=budgets)
        programs = LinePrograms(info.sections, "little", 1, paths, info.strings)
        problems: list[DwarfError] = []
        programs.read(info.units.rows, array("I", [0] * 5), Scopes(), none, Starts(), none, problems)
        refused.append(len(problems))
    assert refused == [3, 5, 5]
