"""overlay_lines: rows over scopes."""

from __future__ import annotations

from array import array
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.forge.ranges import Names, R, S, answer, listed, rows, scopes
from whence._base.model import Source
from whence.ranges import Ranges
from whence.ranges.kernels.columns import locate
from whence.ranges.kernels.overlay import Sweep
from whence.ranges.overlay import overlay_groups, overlay_lines
from whence.ranges.table import Locations, zeros


def overlaid(found: list[S], lines: list[tuple[int, str | None, int]]) -> list[R]:
    names = Names()
    out = Ranges(names.space)
    overlay_lines(scopes(names, found), rows(names, lines), out, Source.DWARF)
    names.done()
    return listed(out)


def test_a_function_takes_the_rows_inside_it() -> None:
    assert overlaid([S(0x10, 0x20, 0, "f")], [(0x10, "a.c", 3), (0x14, "a.c", 5), (0x20, None, 0)]) == [
        R(0x10, 0x10, 0, "f", "a.c", ((0, 3), (4, 5)))
    ]


def test_a_row_inside_an_inlined_call_belongs_to_the_call_and_does_not_cut_the_caller() -> None:
    result = overlaid(
        [S(0x10, 0x20, 0, "f"), S(0x14, 0x18, 1, "g", "a.c", 7)],
        [(0x10, "a.c", 6), (0x14, "g.h", 2), (0x18, "a.c", 8), (0x20, None, 0)],
    )
    assert result == [
        R(0x10, 0x10, 0, "f", "a.c", ((0, 6), (8, 8))),
        R(0x14, 4, 1, "g", "g.h", ((0, 2),), "a.c", 7),
    ]


def test_a_range_is_cut_where_its_own_file_changes() -> None:
    result = overlaid([S(0, 12, 0, "f")], [(0, "a.c", 1), (4, "b.h", 2), (8, "a.c", 3), (12, None, 0)])
    assert [(r.vaddr, r.length, r.file, r.lines) for r in result] == [
        (0, 4, "a.c", ((0, 1),)),
        (4, 4, "b.h", ((0, 2),)),
        (8, 4, "a.c", ((0, 3),)),
    ]


def test_a_change_of_file_after_a_call_cuts_at_the_end_of_the_call() -> None:
    result = overlaid(
        [S(0, 12, 0, "f"), S(4, 8, 1, "g", "a.c", 1)], [(0, "a.c", 1), (4, "g.h", 2), (8, "b.c", 3), (12, None, 0)]
    )
    assert [(r.vaddr, r.length, r.depth) for r in result] == [(0, 8, 0), (4, 4, 1), (8, 4, 0)]


def test_rows_outside_every_scope_are_ranges_without_a_name() -> None:
    result = overlaid([], [(0, "a.s", 1), (2, "a.s", 2), (4, None, 0), (8, "b.s", 1), (9, None, 0)])
    assert result == [R(0, 4, 0, "", "a.s", ((0, 1), (2, 2))), R(8, 1, 0, "", "b.s", ((0, 1),))]


def test_a_stretch_without_rows_has_no_file() -> None:
    result = overlaid([S(0, 12, 0, "f")], [(0, "a.c", 1), (4, None, 0), (8, "a.c", 3), (12, None, 0)])
    assert [(r.vaddr, r.file) for r in result] == [(0, "a.c"), (4, ""), (8, "a.c")]


def test_line_0_keeps_the_file() -> None:
    result = overlaid([S(0, 12, 0, "f")], [(0, "a.c", 1), (4, "a.c", 0), (8, "a.c", 3), (12, None, 0)])
    assert result == [R(0, 12, 0, "f", "a.c", ((0, 1), (4, 0), (8, 3)))]


def test_a_later_function_wins_where_two_overlap() -> None:
    result = overlaid([S(0, 12, 0, "f"), S(4, 8, 0, "g")], [])
    assert [(r.vaddr, r.length, r.function) for r in result] == [(0, 4, "f"), (4, 4, "g"), (8, 4, "f")]


def test_an_entry_far_from_the_start_of_its_range_cuts_it() -> None:
    result = overlaid([S(0, 0x30000, 0, "f")], [(0, "a.c", 1), (0x20000, "a.c", 2), (0x20004, "a.c", 3)])
    assert [(r.vaddr, r.length, r.lines) for r in result] == [
        (0, 0x20000, ((0, 1),)),
        (0x20000, 0x10000, ((0, 2), (4, 3))),
    ]


def test_parts_of_one_inlined_call_that_touch_are_one_range() -> None:
    result = overlaid(
        [S(0, 20, 0, "f"), S(4, 8, 1, "g", "a.c", 1), S(8, 12, 1, "g", "a.c", 1), S(12, 16, 1, "g", "a.c", 2)],
        [(0, "a.c", 1), (4, "g.h", 2), (8, "g.h", 2), (10, "g.h", 5), (12, "g.h", 5), (16, "a.c", 1), (20, None, 0)],
    )
    assert result == [
        R(0, 20, 0, "f", "a.c", ((0, 1),)),
        R(4, 8, 1, "g", "g.h", ((0, 2), (6, 5)), "a.c", 1),
        R(12, 4, 1, "g", "g.h", ((0, 5),), "a.c", 2),
    ]


def test_nothing_gives_nothing() -> None:
    assert overlaid([], []) == []
    assert overlaid([S(5, 5, 0, "f"), S(9, 3, 0, "g")], [(0, None, 0)]) == []


SCOPES = st.lists(st.tuples(st.integers(0, 40), st.integers(0, 20), st.integers(0, 4)), max_size=12)
ROWS = st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["a", "b", None]), st.integers(0, 3)), max_size=20)


@given(SCOPES, ROWS, st.booleans())
def test_every_address_gets_the_last_scope_that_covers_it_and_the_row_that_holds_there(
    raw: list[tuple[int, int, int]], lines: list[tuple[int, str | None, int]], apart: bool
) -> None:
    result: list[S] = []
    chains: list[list[int]] = []
    for location, (vaddr, size, depth) in enumerate(raw):
        depth = min(depth, len(chains[-1]) if chains else 0)
        chains.append([*(chains[-1][:depth] if chains else []), location])
        name = f"f{location}" if apart else "f"
        result.append(S(vaddr, vaddr + size, depth, name, name, location if apart else 7))
    lines = sorted(lines, key=lambda row: row[0])
    lines = [row if row[1] is not None else (row[0], None, 0) for row in lines]
    lines.append((70, None, 0))
    got = overlaid(result, lines)
    assert got == sorted(got, key=lambda r: (r.vaddr, r.depth))
    for address in range(70):
        row = next((row for row in reversed(lines) if row[0] <= address), (0, None, 0))
        file, line = row[1] or "", row[2]
        owner = next((i for i in range(len(result) - 1, -1, -1) if result[i].vaddr <= address < result[i].end), None)
        if owner is None:
            want = [("", file, line)] if file else []
        else:
            chain = [result[i] for i in chains[owner]][::-1]
            want = [(chain[0].function, file, line)]
            want += [(s.function, inner.call_file, inner.call_line) for inner, s in pairwise(chain)]
        assert answer(got, address) == want


def test_chains_that_overlap_without_end_do_not_multiply_the_ranges() -> None:
    deep = [S(0, 20_000, depth, f"d{depth}") for depth in range(500)]
    holes = [S(2 * i, 2 * i + 1, 0, "hole") for i in range(9_000)]
    assert len(overlaid(deep + holes, [])) < 12 * (len(deep) + len(holes))


LAST = 2**64 - 1  # the last address there is


@pytest.mark.parametrize(
    ("scopes_before", "rows_before"),
    [
        ([S(0x10, 0x20, 0, "e")], [(0x10, "e.c", 1), (0x20, None, 0), (LAST, "e.c", 2)]),
        ([S(0x10, 0x20, 0, "e"), S(LAST, LAST, 0, "last")], [(0x10, "e.c", 1), (0x20, None, 0)]),
    ],
    ids=["row", "scope"],
)
def test_what_begins_at_the_last_address_takes_nothing_from_the_next_group(
    scopes_before: list[S], rows_before: list[tuple[int, str | None, int]]
) -> None:
    names = Names()
    result = scopes(names, [*scopes_before, S(0x30, 0x40, 0, "f")])
    lines = rows(names, [*rows_before, (0x30, "f.c", 7), (0x40, None, 0)])
    out = Ranges(names.space)
    ends = array("I", [len(scopes_before), len(result)])
    overlay_groups(result, ends, lines, array("I", [len(rows_before), len(lines)]), out, Source.DWARF)
    names.done()
    assert listed(out) == [
        R(0x10, 0x10, 0, "e", "e.c", ((0, 1),)),
        R(0x30, 0x10, 0, "f", "f.c", ((0, 7),)),
    ]


def test_neighbours_that_were_joined_stay_so() -> None:
    names = Names()
    result = scopes(
        names, [S(0, 12, 0, "f"), S(2, 4, 1, "g", "a.c", 7), S(4, 6, 1, "g", "a.c", 7), S(8, 9, 1, "h", "a.c", 8)]
    )
    lines = rows(names, [(0, "a.c", 1), (12, None, 0)])
    sweep = Sweep()
    sweep.run(result, array("I", range(4)), lines, array("I", [4]), array("I", [2]))
    assert sweep.join(result) == sweep.join(result)


def test_locations_of_fewer_columns_than_lines_or_for_fewer_rows_are_refused() -> None:
    full = Locations(array("I", [0, 5]), array("I", [0, 6]), array("I", [0, 7]))
    cut = Locations(array("I", [0, 5]), array("I", [0]), array("I", [0, 7]))
    numbers, column, discriminator = array("I", [1, 9]), zeros("I", 2), zeros("I", 2)
    for start, locations, into in ((0, cut, column), (-1, full, column), (0, full, zeros("I", 1))):
        with pytest.raises(ValueError, match="columns do not match"):
            locate(numbers, start, locations, into, discriminator)
    locate(numbers, 0, full, column, discriminator)
    assert [*map(list, (numbers, column, discriminator))] == [[5, 0], [6, 0], [7, 0]]
