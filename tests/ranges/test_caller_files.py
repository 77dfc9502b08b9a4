"""caller_files: each range has the file its function's frame shows."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tests.forge.ranges import Names, R, S, answer, listed, rows, scopes, table
from whence._base.model import Source
from whence.ranges import Ranges
from whence.ranges.caller_files import caller_files
from whence.ranges.merge import merge
from whence.ranges.overlay import overlay_lines


def filed(*ranges: R) -> list[R]:
    return listed(caller_files(table(Names(), list(ranges))))


def test_a_function_that_is_all_inlined_calls_has_the_file_of_the_calls() -> None:
    assert filed(R(0, 8, 0, "f"), R(0, 8, 1, "g", "g.h", ((0, 1),), "f.c", 3)) == [
        R(0, 8, 0, "f", "f.c"),
        R(0, 8, 1, "g", "g.h", ((0, 1),), "f.c", 3),
    ]


def test_a_function_without_calls_and_one_whose_calls_are_in_its_file_stay_whole() -> None:
    given_ranges = [
        R(0, 12, 0, "f", "f.c", ((0, 1), (8, 2))),
        R(4, 4, 1, "g", "g.h", ((0, 1),), "f.c", 1),
        R(12, 4, 0, "h", "", ()),
    ]
    assert filed(*given_ranges) == given_ranges


def test_a_function_called_from_lines_of_another_file_is_cut_around_the_call_and_keeps_its_lines() -> None:
    result = filed(
        R(0, 12, 0, "f", "f.c", ((0, 1), (2, 5))),
        R(4, 4, 1, "g", "g.h", ((0, 1),), "table.def", 9),
        R(5, 1, 2, "k", "k.h", ((0, 7),), "g.h", 2),
    )
    assert result == [
        R(0, 4, 0, "f", "f.c", ((0, 1), (2, 5))),
        R(4, 4, 0, "f", "table.def"),
        R(4, 4, 1, "g", "g.h", ((0, 1),), "table.def", 9),
        R(5, 1, 2, "k", "k.h", ((0, 7),), "g.h", 2),
        R(8, 4, 0, "f", "f.c", ((0, 5),)),
    ]


def test_calls_from_two_files_side_by_side_are_two_pieces() -> None:
    result = filed(
        R(0, 8, 0, "f"),
        R(0, 4, 1, "g", "g.h", (), "a.c", 1),
        R(4, 4, 1, "g", "g.h", (), "b.c", 1),
    )
    assert [(r.vaddr, r.length, r.depth, r.file) for r in result] == [
        (0, 4, 0, "a.c"), (0, 4, 1, "g.h"), (4, 4, 0, "b.c"), (4, 4, 1, "g.h"),
    ]  # fmt: skip


def test_an_inlined_call_that_is_cut_keeps_its_call_site_in_every_piece() -> None:
    result = filed(
        R(0, 12, 0, "f", "f.c", ((0, 1),)),
        R(2, 8, 1, "g", "g.h", ((0, 4),), "f.c", 2),
        R(4, 2, 2, "k", "k.h", (), "table.def", 3),
    )
    pieces = [(r.vaddr, r.length, r.file, r.lines, r.call_file, r.call_line) for r in result if r.function == "g"]
    assert pieces == [
        (2, 2, "g.h", ((0, 4),), "f.c", 2), (4, 2, "table.def", (), "f.c", 2), (6, 4, "g.h", ((0, 4),), "f.c", 2),
    ]  # fmt: skip


def test_nothing_comes_of_nothing() -> None:
    assert filed() == []


FILES = st.sampled_from(["a.c", "b.h", "c.h", ""])


@given(
    st.lists(
        st.tuples(st.integers(0, 30), st.integers(0, 20), st.integers(0, 3), FILES, st.integers(1, 9)),
        min_size=1, max_size=12,
    ),
    st.lists(st.tuples(st.integers(0, 50), st.one_of(st.none(), FILES), st.integers(0, 5)), max_size=12),
)  # fmt: skip
def test_answers_stay_and_every_range_has_the_file_of_its_frame(
    found: list[tuple[int, int, int, str, int]], lines: list[tuple[int, str | None, int]]
) -> None:
    """Scopes as wild as they come, overlaid and merged: a chain's files are those of its ranges."""
    names = Names()
    made = [
        S(vaddr, vaddr + size, depth, f"f{index}", file, line)
        for index, (vaddr, size, depth, file, line) in enumerate(found)
    ]
    made[0] = made[0]._replace(depth=0)
    out = Ranges(names.space)
    overlay_lines(scopes(names, made), rows(names, sorted(lines, key=lambda row: row[0])), out, Source.DWARF)
    names.done()
    out = merge([out])
    before = listed(out)
    after = listed(caller_files(out))
    assert [(r.vaddr, r.depth) for r in after] == sorted((r.vaddr, r.depth) for r in after)
    assert all(r.length for r in after)
    for address in range(60):
        frames = answer(after, address)
        assert frames == answer(before, address)
        chain = sorted((r for r in after if r.vaddr <= address < r.vaddr + r.length), key=lambda r: -r.depth)
        assert [r.file for r in chain] == [file for _, file, _ in frames]
