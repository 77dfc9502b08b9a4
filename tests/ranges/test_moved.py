"""moved: the table of an object file at the addresses that a linker gave its functions."""

from __future__ import annotations

from array import array

from hypothesis import given
from hypothesis import strategies as st

from tests.forge.ranges import Names, R, answer, listed, located, table
from whence.ranges.moved import Pieces, moved


def pieces(*rows: tuple[int, int, int]) -> Pieces:
    """Pieces (start, end, new address of the start)."""
    return Pieces(*(array("Q", column) for column in zip(*rows, strict=True)) if rows else (array("Q"),) * 3)


def moved_list(ranges: list[R], *rows: tuple[int, int, int]) -> list[R]:
    return listed(moved(table(Names(), ranges), pieces(*rows)))


OBJECT = [
    R(0, 10, 0, "f", "a.c", ((0, 1), (4, 2), (8, 3))),
    R(4, 3, 1, "g", "g.h", ((0, 9), (1, 10)), "a.c", 2),
    R(16, 8, 0, "h", "a.c", ((0, 7),)),
    R(24, 8, 0, "k", "a.c", ((0, 8),)),
]


def test_each_function_moves_by_its_own_distance_with_its_inlined_calls() -> None:
    assert moved_list(OBJECT, (0, 10, 0x5000), (16, 24, 0x100)) == [
        OBJECT[0]._replace(vaddr=0x5000), OBJECT[1]._replace(vaddr=0x5004), OBJECT[2]._replace(vaddr=0x100),
    ]  # fmt: skip


def test_code_that_the_linker_dropped_has_no_ranges() -> None:
    assert moved_list(OBJECT) == []
    assert moved_list(OBJECT, (10, 16, 0x100)) == []


def test_a_function_is_cut_at_the_end_of_its_piece() -> None:
    assert moved_list(OBJECT, (0, 6, 0x100)) == [
        OBJECT[0]._replace(vaddr=0x100, length=6, lines=((0, 1), (4, 2))),
        OBJECT[1]._replace(vaddr=0x104, length=2),
    ]


def test_lines_without_a_function_are_divided_among_the_functions_of_symbols() -> None:
    lines = R(0, 30, 0, "", "a.s", ((0, 1), (8, 2), (12, 3), (20, 4)))
    assert moved_list([lines], (0, 10, 0x100), (10, 20, 0x300), (25, 30, 0x200)) == [
        lines._replace(vaddr=0x100, length=10, lines=((0, 1), (8, 2))),
        lines._replace(vaddr=0x300, length=10, lines=((0, 2), (2, 3))),
        lines._replace(vaddr=0x200, length=5, lines=((0, 4),)),
    ]


def test_columns_move_with_their_lines_and_calls() -> None:
    out = moved(located(), pieces((0x1010, 0x1020, 0)))
    assert out.columns is not None
    assert list(out.columns.line_column) == [5, 9, 3]
    assert list(out.columns.line_discriminator) == [0, 2, 0]
    assert list(out.columns.call_column) == [0, 17]


@given(st.data())
def test_an_address_has_the_frames_of_the_byte_that_moved_there(data: st.DataObject) -> None:
    starts = sorted(data.draw(st.sets(st.integers(0, 40), max_size=6)))
    rows = []
    for index, start in enumerate(starts):
        limit = starts[index + 1] if index + 1 < len(starts) else 48
        rows.append((start, data.draw(st.integers(start + 1, limit)), 0x1000 * (index + 1)))
    ranges = [
        R(0, 12, 0, "f", "a.c", ((0, 1), (4, 2), (8, 3))),
        R(12, 9, 0, "", "b.s", ((0, 1), (2, 2), (5, 3))),
        R(30, 10, 0, "k", "a.c", ((0, 8),)),
    ]
    out = moved_list(ranges, *rows)
    for start, end, target in rows:
        for address in range(start, end):
            assert answer(out, target + address - start) == answer(ranges, address)
