"""holding: the part of a table that answers for some addresses."""

from __future__ import annotations

from array import array
from collections.abc import Iterable

from hypothesis import given
from hypothesis import strategies as st

from tests.forge.ranges import Names, R, S, answer, listed, rows, scopes, table
from whence._base.model import Source
from whence.kernels import rows as rows_kernel
from whence.ranges import Ranges
from whence.ranges.holding import holding
from whence.ranges.merge import merge
from whence.ranges.overlay import overlay_lines


def ascending(vaddrs: Iterable[int]) -> memoryview:
    distinct: memoryview = rows_kernel.ascending(array("Q", vaddrs))[0].numbers()
    return distinct


def held(ranges: list[R], *vaddrs: int) -> list[R]:
    return listed(holding(table(Names(), ranges), ascending(vaddrs)))


def test_ranges_that_hold_an_address_stay_with_the_line_rows_that_do() -> None:
    ranges = [
        R(0, 10, 0, "f", "a.c", ((0, 1), (4, 2), (8, 3))),
        R(4, 3, 1, "g", "g.h", ((0, 9), (1, 10)), "a.c", 2),
        R(10, 5, 0, "h", "a.c", ((0, 7),)),
    ]
    assert held(ranges) == []
    assert held(ranges, 99, 15) == []
    assert held(ranges, 1) == [ranges[0]._replace(lines=((0, 1),))]
    assert held(ranges, 14, 10) == [ranges[2]]
    assert held(ranges, 8, 5, 4) == [ranges[0]._replace(lines=((4, 2), (8, 3))), ranges[1]]


def test_bytes_before_the_first_row_of_a_range_have_no_line() -> None:
    assert held([R(0, 9, 0, "f", "a.c", ((2, 1), (4, 2)))], 1, 6) == [R(0, 9, 0, "f", "a.c", ((4, 2),))]


def test_the_highest_address_is_held() -> None:
    last = (1 << 64) - 1
    assert held([R(last - 9, 10, 0, "f", "a.c", ((0, 1), (9, 2)))], last) == [R(last - 9, 10, 0, "f", "a.c", ((9, 2),))]


SCOPES = st.lists(
    st.tuples(st.integers(0, 40), st.integers(0, 20), st.integers(0, 3), st.sampled_from("fgh")), max_size=8
)
ROWS = st.lists(st.tuples(st.integers(0, 60), st.sampled_from(["a.c", "b.h", None]), st.integers(0, 9)), max_size=9)


@given(st.lists(st.tuples(SCOPES, ROWS), min_size=1, max_size=3), st.sets(st.integers(0, 70), max_size=6))
def test_held_tables_merge_into_the_answers_of_the_whole_ones(
    units: list[tuple[list[tuple[int, int, int, str]], list[tuple[int, str | None, int]]]], asked: set[int]
) -> None:
    def tables() -> list[Ranges]:
        names, made = Names(), []
        for result, lines in units:
            nested = [S(offset, offset + size, depth, name, "c.c", offset) for offset, size, depth, name in result]
            out = Ranges(names.space)
            overlay_lines(scopes(names, nested), rows(names, sorted(lines, key=lambda row: row[0])), out, Source.DWARF)
            made.append(out)
        names.done()
        return made

    vaddrs = ascending(asked)
    full = listed(merge(tables()))
    part = listed(merge([holding(each, vaddrs) for each in tables()]))
    for vaddr in asked:
        assert answer(part, vaddr) == answer(full, vaddr)
    for each in (holding(each, vaddrs) for each in tables()):
        assert all(any(r.vaddr <= vaddr < r.vaddr + r.length for vaddr in asked) for r in listed(each))
