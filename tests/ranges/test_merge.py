"""merge: several tables into one."""

from __future__ import annotations

from array import array
from time import process_time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.forge.ranges import Names, R, S, answer, listed, rows, scopes, table
from whence._base.model import Source
from whence.ranges import Ranges
from whence.ranges.kernels import merge as merge_kernel
from whence.ranges.merge import Picks, Stretches, join, merge, move_lines
from whence.ranges.overlay import overlay_lines
from whence.ranges.table import PER_RANGE, ColumnNumbers, zeros


def merged(*tables: list[R], last_wins: bool = False) -> list[R]:
    names = Names()
    made = [table(names, ranges) for ranges in tables]
    return listed(merge(made, last_wins=last_wins))


def test_a_table_in_order_stays_as_it_is() -> None:
    given_ranges = [
        R(0, 10, 0, "f", "a.c", ((0, 1), (4, 2))),
        R(4, 2, 1, "g", "g.h", ((0, 9),), "a.c", 2),
        R(10, 5, 0, "h"),
    ]
    assert merged(given_ranges) == given_ranges


def test_trees_are_put_into_order() -> None:
    result = merged([R(10, 5, 0, "h"), R(12, 1, 1, "i"), R(0, 10, 0, "f"), R(4, 2, 1, "g")])
    assert [r.function for r in result] == ["f", "g", "h", "i"]


def test_a_function_inside_another_splits_it_with_its_lines() -> None:
    result = merged([R(0, 30, 0, "f", "a.c", ((0, 1), (8, 2), (12, 3), (22, 4))), R(10, 10, 0, "g", "b.c", ((0, 7),))])
    assert result == [
        R(0, 10, 0, "f", "a.c", ((0, 1), (8, 2))),
        R(10, 10, 0, "g", "b.c", ((0, 7),)),
        R(20, 10, 0, "f", "a.c", ((0, 3), (2, 4))),
    ]


def test_of_two_with_the_same_addresses_the_first_counts_or_the_last_when_asked() -> None:
    alias = [R(0, 8, 0, "one"), R(0, 8, 0, "two")]
    assert [r.function for r in merged(alias)] == ["one"]
    assert [r.function for r in merged(alias, last_wins=True)] == ["two"]


def test_sizes_of_zero_are_dropped() -> None:
    assert [r.function for r in merged([R(0, 8, 0, "one"), R(4, 0, 0, "mark"), R(8, 8, 0, "two")])] == ["one", "two"]


def test_a_better_table_covers_a_lower_one_and_leaves_it_the_rest() -> None:
    result = merged([R(10, 10, 0, "f", "a.c", source=1)], [R(0, 40, 0, "sym", source=3)])
    assert result == [R(0, 10, 0, "sym", source=3), R(10, 10, 0, "f", "a.c", source=1), R(20, 20, 0, "sym", source=3)]


def test_lines_without_a_function_take_the_symbol_beneath_and_keep_their_lines() -> None:
    result = merged([R(0, 8, 0, "", "a.s", ((0, 1), (4, 2)))], [R(2, 4, 0, "sym", source=3)])
    assert result == [
        R(0, 2, 0, "", "a.s", ((0, 1),)),
        R(2, 4, 0, "sym", "a.s", ((0, 1), (2, 2)), source=3),
        R(6, 2, 0, "", "a.s", ((0, 2),)),
    ]


def test_an_inlined_range_is_clipped_to_its_parent() -> None:
    assert [(r.vaddr, r.length) for r in merged([R(0, 8, 0, "f"), R(4, 20, 1, "g")])] == [(0, 8), (4, 4)]


def test_no_tables_give_an_empty_one() -> None:
    assert listed(merge([])) == []
    assert merged([], []) == []


UNIT = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 20), st.integers(0, 3), st.sampled_from(["", "n"])), max_size=8
)


def overlaid(names: Names, raw: list[tuple[int, int, int, str]], out: Ranges, tag: str) -> None:
    result: list[S] = []
    depth = -1
    for location, (vaddr, size, wanted, name) in enumerate(raw):
        depth = min(wanted, depth + 1)
        result.append(S(vaddr, vaddr + size, depth, name and f"{tag}{location}", f"{tag}c", location))
    lines = [(vaddr, tag, vaddr + 1) for vaddr in range(0, 60, 3)] if tag < "b" else []
    overlay_lines(scopes(names, result), rows(names, [*lines, (60, None, 0)]), out, Source.DWARF)


@given(st.lists(st.lists(UNIT, max_size=3), max_size=3))
def test_every_address_has_the_answer_of_the_best_table_that_names_it(
    tables: list[list[list[tuple[int, int, int, str]]]],
) -> None:
    names = Names()
    made = []
    for number, units in enumerate(tables):
        out = Ranges(names.space)
        for unit in units:
            overlaid(names, unit, out, "abc"[number])
        made.append(out)
    names.done()
    trees: list[list[list[R]]] = []
    for each in made:
        trees.append([])
        for r in listed(each):
            if r.depth == 0:
                trees[-1].append([])
            trees[-1][-1].append(r)
    got = listed(merge(made))
    assert got == sorted(got, key=lambda r: (r.vaddr, r.depth))
    for address in range(61):
        layers = []
        for roots in trees:
            covering = [tree for tree in roots if tree[0].vaddr <= address < tree[0].vaddr + tree[0].length]
            if covering:
                layers.append(max(covering, key=lambda t: (t[0].vaddr, -t[0].length, -roots.index(t))))
        best = None
        for tree in layers:
            if best is None:
                best = answer(tree, address)
            elif not best[-1][0]:
                root = answer(tree, address)[-1][0]
                best[-1] = (root, *best[-1][1:])
        assert answer(got, address) == (best or [])


def test_a_table_that_is_given_twice_is_refused() -> None:
    item = table(Names(), [R(16 * row, 8, 0, "f") for row in range(100)])
    for tables in ([item, item], [table(Names(), [R(0, 8, 0, "g")]), item, item]):
        with pytest.raises(ValueError, match="a table is given twice"):
            merge(tables)


def test_tables_joined_at_once_are_what_they_are_one_after_the_other() -> None:
    def parts() -> list[Ranges]:
        names = Names()
        made = []
        for start, lines in ((0, 2), (64, 0), (96, 3), (200, 1)):
            made.append(table(names, [R(start, 16, 0, "f"), R(start, 4, 1, "g")]))
            made[-1].line_offset, made[-1].line_number = array("I", range(lines)), array("I", range(lines))
            made[-1].line_count = array("I", [lines, 0])
        made[2].columns = ColumnNumbers(*(array("I", [7] * rows) for rows in (3, 3, 2, 2)))
        return made

    at_once = join(parts())
    first, *others = parts()
    for other in others:
        join([first, other])
    for name in (*PER_RANGE, "line_offset", "line_number", "columns"):
        assert getattr(at_once, name) == getattr(first, name), name
    assert list(at_once.line_index) == [0, 0, 2, 2, 2, 2, 5, 5]


def test_roots_are_not_counted_from_past_the_end() -> None:
    """The place after the greatest number there is would be before all of them."""
    with pytest.raises(ValueError, match="columns"):
        merge_kernel.count_roots(array("I", [0, 1]), (1 << 63) - 1, 2)


def test_tables_that_do_not_begin_at_the_first_range_are_refused() -> None:
    given_table = table(Names(), [R(0, 20, 5, "f"), R(10, 5, 6, "g")])
    stretches = Stretches(array("Q", [5]), array("Q", [20]), array("I", [1]), array("I", [0]))
    for bounds in (array("I"), array("I", [1, 2])):
        with pytest.raises(ValueError, match="columns do not match"):
            merge_kernel.MergePlan(2).make(given_table, bounds, stretches, Picks.of_size(2))


def test_a_range_of_many_lines_in_many_pieces_costs_no_more_than_its_lines_and_pieces() -> None:
    def cost(count: int) -> float:
        """Processor time for a range of as many lines, of a byte each, that was cut into as many pieces."""
        pieces = Ranges(Names().space, vaddr=array("Q", range(count)), length=array("Q", [1]) * count)
        pieces.line_index, pieces.line_count = zeros("I", count), array("I", [count]) * count
        pieces.line_offset, pieces.line_number = array("I", range(count)), array("I", range(count))
        begun = process_time()
        move_lines(zeros("I", count), array("Q", [0]), pieces)
        spent = process_time() - begun
        assert [pieces.line_number[row] for row in pieces.line_index] == list(range(count))
        assert set(pieces.line_count) == {1}
        return spent

    few, many = (min(cost(count) for _ in range(3)) for count in (6_000, 60_000))
    assert many < 50 * few


def test_a_chain_that_is_repeated_too_often_is_whole_or_its_root_alone() -> None:
    holes = [R(2 * index + 1, 1, 0, "hole") for index in range(1_500)]
    chains: dict[int, list[str]] = {}
    for result in merged(holes, [R(0, 4_000, depth, f"d{depth}") for depth in range(100)]):
        chains.setdefault(result.vaddr, []).append(result.function)
    full = [f"d{depth}" for depth in range(100)]
    assert all(chain in (["hole"], ["d0"], full) for chain in chains.values())
    assert full in chains.values()
    assert ["d0"] in chains.values()
