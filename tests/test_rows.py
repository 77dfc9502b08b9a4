"""The kernel of rows does what a loop in Python would do."""

from __future__ import annotations

from array import array
from collections.abc import Callable
from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.kernels import rows
from whence.ranges.kernels import order as order_kernel

SMALL = st.integers(0, 6)
WORD = st.sampled_from([0, 1, 5, 1 << 31, (1 << 32) - 1])
LONG = WORD | st.sampled_from([1 << 32, 1 << 63, (1 << 64) - 1])


@given(st.lists(LONG), st.data())
def test_rows_are_taken_in_the_order_asked(numbers: list[int], data: st.DataObject) -> None:
    wanted = data.draw(st.lists(st.integers(0, len(numbers) - 1))) if numbers else []
    column = array("Q", numbers)
    assert list(rows.taken(column, "Q", array("I", wanted))) == [numbers[row] for row in wanted]


@given(st.lists(WORD), st.data())
def test_numbers_of_32_bits_are_taken_as_ones_of_64(numbers: list[int], data: st.DataObject) -> None:
    wanted = data.draw(st.lists(st.integers(0, len(numbers) - 1))) if numbers else []
    out = rows.taken(array("I", numbers), "I", array("I", wanted), "Q")
    assert (out.typecode, list(out)) == ("Q", [numbers[row] for row in wanted])


@given(st.lists(LONG))
def test_equal_keys_have_one_number_in_the_order_they_come_first(keys: list[int]) -> None:
    numbers, distinct = rows.numbered(array("Q", keys), "Q")
    expected = list(dict.fromkeys(keys))
    assert list(distinct) == expected
    assert list(numbers) == [expected.index(key) for key in keys]


@given(st.lists(LONG))
def test_distinct_keys_ascend_and_each_key_finds_its_own(keys: list[int]) -> None:
    distinct, offset = rows.ascending(array("Q", keys))
    assert list(distinct) == sorted({*keys})
    assert [distinct[each] for each in offset] == keys


@given(st.integers(1000, 3000), st.integers(1, 64), st.integers(0, 9), st.randoms(use_true_random=False))
def test_many_keys_in_no_order_come_into_one_like_a_few(count: int, bits: int, shift: int, random: Random) -> None:
    keys = [random.getrandbits(bits) << shift & (1 << 64) - 1 for _ in range(count)]
    distinct, offset = rows.ascending(array("Q", keys))
    assert list(distinct) == sorted({*keys})
    assert [distinct[each] for each in offset] == keys


@given(st.integers(1000, 3000), st.integers(1, 20), st.randoms(use_true_random=False))
def test_many_equal_keys_keep_their_order(count: int, different: int, random: Random) -> None:
    keys = [random.randrange(different) for _ in range(count)]
    first, second = array("I", bytes(4 * count)), array("I", bytes(4 * count))
    result = second if order_kernel.order(array("Q", keys), first, second, True) else first
    assert list(result) == sorted(range(count), key=keys.__getitem__)


@pytest.mark.parametrize(("typecode", "number"), [("B", 255), ("I", (1 << 32) - 1), ("Q", (1 << 64) - 1)])
def test_rows_are_set_to_the_numbers_given_whatever_their_width(typecode: str, number: int) -> None:
    column = array(typecode, [1, 2, 3])
    rows.put(column, typecode, array("I", [2, 0]), array(typecode, [number, 7]))
    assert list(column) == [7, 2, number]


@given(st.lists(LONG), LONG)
def test_rows_above_a_limit_are_those_whose_number_is_greater(numbers: list[int], limit: int) -> None:
    result = rows.above(array("Q", numbers), limit)
    assert list(result.numbers()) == [row for row, each in enumerate(numbers) if each > limit]


@given(st.lists(SMALL))
def test_rows_are_grouped_in_their_order(groups: list[int]) -> None:
    order, starts = rows.grouped(array("I", groups), 7)
    result = [list(order.numbers()[starts[group] : starts[group + 1]]) for group in range(7)]
    assert result == [[row for row, each in enumerate(groups) if each == group] for group in range(7)]


@given(st.lists(SMALL, min_size=1, max_size=6), st.data())
def test_lists_are_concatenated(sizes: list[int], data: st.DataObject) -> None:
    first = array("I", [sum(sizes[:index]) for index in range(len(sizes) + 1)])
    chosen = data.draw(st.lists(st.integers(0, len(sizes) - 1), max_size=8))
    starts, result = rows.spans(first, array("I", chosen))
    lists = [list(result.numbers()[low:high]) for low, high in pairwise(starts)]
    assert lists == [list(range(first[each], first[each + 1])) for each in chosen]


@given(st.lists(LONG), LONG)
def test_sums_are_those_of_64_bits(numbers: list[int], by: int) -> None:
    assert list(rows.moved(array("Q", numbers), by)) == [(each + by) % (1 << 64) for each in numbers]


@pytest.mark.parametrize(
    "call",
    [
        lambda: rows.taken(b"\0" * 4, "I", array("I", [1])),
        lambda: rows.put(array("I", [0]), "I", array("I", [1]), array("I", [5])),
        lambda: rows.put(array("I", [0]), "I", array("I", [0]), array("I")),
        lambda: rows.put(array("I", [0]), "Q", array("I", [0]), array("Q", [5])),
        lambda: rows.raised(array("I", [(1 << 32) - 1]), 1),
        lambda: rows.grouped(array("I", [2]), 2),
        lambda: rows.grouped(array("I", [0]), (1 << 63) - 1),
        lambda: rows.spans(array("I", [0, 2]), array("I", [1])),
        lambda: rows.spans(array("I", [2, 1]), array("I", [0])),
        lambda: rows.spans(array("I"), array("I")),
    ],
)
def test_rows_that_are_not_there_are_refused(call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match="columns do not match"):
        call()


def test_an_order_takes_two_columns_with_room_for_all_keys() -> None:
    keys, ends, column, short = array("Q", [2, 1]), array("I", [2]), array("I", [0, 0]), array("I", [0])
    for first, second in ((column, column), (column, short), (short, column)):
        with pytest.raises(ValueError, match="columns do not match"):
            order_kernel.order(keys, first, second, True)
        with pytest.raises(ValueError, match="columns do not match"):
            order_kernel.order_groups(keys, ends, first, second)
