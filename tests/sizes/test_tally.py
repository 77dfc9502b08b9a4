"""Bytes of ranges, counted as a byte-by-byte walk counts them."""

from __future__ import annotations

from array import array
from collections import Counter

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.ranges import Ranges, StringSpace
from whence.ranges.merge import merge
from whence.ranges.table import zeros
from whence.sizes.kernels.tally import Tally, sums
from whence.sizes.units import fill

SPANS = st.lists(st.tuples(st.integers(0, 90), st.integers(1, 30)), max_size=12)


def table_of(spans: list[tuple[int, int]]) -> Ranges:
    table = Ranges(StringSpace())
    for row, (start, length) in enumerate(spans):
        table.vaddr.append(start)
        table.length.append(length)
        table.function.append(row + 1)
    fill(table)
    return merge([table])


def nested(functions: list[tuple[int, int]], calls: list[tuple[int, int]]) -> Ranges:
    """A merged table of functions, and in each of them the first call that overlaps it, at depth 1."""
    table = table_of(functions)
    rows = list(zip(table.vaddr, table.length, table.function, strict=True))
    out = Ranges(StringSpace())
    for vaddr, length, function in rows:
        out.vaddr.append(vaddr)
        out.length.append(length)
        out.depth.append(0)
        out.function.append(function)
        for number, (start, size) in enumerate(calls):
            low, high = max(start, vaddr), min(start + size, vaddr + length)
            if low < high:
                out.vaddr.append(low)
                out.length.append(high - low)
                out.depth.append(1)
                out.function.append(100 + number)
                break
    depth = out.depth
    fill(out)
    out.depth = depth
    return out


def counted(table: Ranges, innermost: bool, code: list[tuple[int, int]]) -> tuple[Counter[int], set[int]]:
    tally, sizes = Tally(), zeros("Q", len(table))
    starts, ends = array("Q", [start for start, _ in code]), array("Q", [end for _, end in code])
    tally.run(table, innermost, starts, ends, sizes)
    gaps = {byte for low, high in zip(tally.gap_start, tally.gap_end, strict=True) for byte in range(low, high)}
    out: Counter[int] = Counter()
    for name, size in zip(table.function, sizes, strict=True):
        out[name] += size
    return +out, gaps


def walked(table: Ranges, innermost: bool, code: list[tuple[int, int]]) -> tuple[Counter[int], set[int]]:
    owner: dict[int, int] = {}
    for vaddr, length, depth, name in zip(table.vaddr, table.length, table.depth, table.function, strict=True):
        if innermost or not depth:
            owner |= dict.fromkeys(range(vaddr, vaddr + length), name)
    every = [byte for start, end in code for byte in range(start, end)]
    return Counter(owner[byte] for byte in every if byte in owner), {byte for byte in every if byte not in owner}


@given(SPANS, SPANS, st.lists(st.integers(0, 130), max_size=8, unique=True), st.booleans())
def test_bytes_are_counted_as_a_walk_over_each_byte_counts_them(
    functions: list[tuple[int, int]], calls: list[tuple[int, int]], cuts: list[int], innermost: bool
) -> None:
    table = nested(functions, calls)
    cuts = sorted(cuts)
    code = list(zip(cuts[::2], cuts[1::2], strict=False))
    assert counted(table, innermost, code) == walked(table, innermost, code)


def test_a_range_that_wraps_around_ends_with_the_addresses() -> None:
    table = table_of([(0, 1)])
    table.vaddr[0], table.length[0] = (1 << 64) - 16, 1 << 63
    last = (1 << 64) - 1
    assert counted(table, False, [(last - 31, last)]) == (Counter({1: 15}), set(range(last - 31, last - 15)))


def test_code_that_overlaps_is_refused() -> None:
    with pytest.raises(ValueError, match="columns do not match"):
        Tally().run(table_of([(0, 4)]), False, array("Q", [0, 4]), array("Q", [8, 16]), zeros("Q", 1))


def test_a_number_without_a_sum_is_refused() -> None:
    with pytest.raises(ValueError, match="columns do not match"):
        sums(array("I", [0, 1]), array("Q", [5, 5]), zeros("Q", 1))
