"""merge: ranges that continue a function where another function begins."""

from __future__ import annotations

from tests.forge.ranges import Names, R, listed, table
from whence.ranges.merge import merge


def merged(*ranges: R) -> list[R]:
    return listed(merge([table(Names(), list(ranges))]))


def test_a_function_wins_from_its_start_over_the_rest_of_an_earlier_one() -> None:
    begun, rest = R(0, 20, 0, "f", "a.s", ((0, 1),)), R(20, 4, 0, "f")
    later = R(20, 30, 0, "g", "b.c", ((0, 7), (8, 8)))
    assert merged(begun, rest, later) == merged(later, begun, rest) == [begun, later]


def test_the_rest_of_a_function_keeps_what_the_later_one_leaves() -> None:
    begun, rest = R(0, 20, 0, "f", "a.s"), R(20, 40, 0, "f", "b.s")
    assert merged(begun, rest, R(20, 10, 0, "g")) == [begun, R(20, 10, 0, "g"), R(30, 30, 0, "f", "b.s")]


def test_a_function_that_continues_nothing_wins_as_the_shorter_one() -> None:
    begun, shorter = R(0, 20, 0, "f"), R(20, 4, 0, "h")
    assert merged(begun, shorter, R(20, 30, 0, "g")) == [begun, shorter, R(24, 26, 0, "g")]


def test_lines_without_a_function_continue_none() -> None:
    begun, shorter = R(0, 20, 0, "", "a.s"), R(20, 4, 0, "", "b.s")
    assert merged(begun, shorter, R(20, 30, 0, "g")) == [begun, shorter, R(24, 26, 0, "g")]
