"""The lines that hold byte strings, found in one pass."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from whence.filter.kernels.needles import Needles

TEXTS = st.binary(max_size=200) | st.lists(st.sampled_from([b"a", b"b", b"ab", b"\n", b" "]), max_size=60).map(b"".join)


@given(TEXTS, st.lists(st.binary(min_size=1, max_size=3).filter(lambda needle: b"\n" not in needle), max_size=8))
def test_the_lines_with_needles_are_those_that_hold_them(text: bytes, needles: list[bytes]) -> None:
    expected, start = [], 0
    for line in text.split(b"\n"):
        bits = sum(1 << bit for bit, needle in enumerate(needles) if needle in line)
        if bits:
            expected += [start, start + len(line), bits]
        start += len(line) + 1
    assert Needles(tuple(needles)).lines(text).numbers().tolist() == expected


@pytest.mark.parametrize("needles", [(b"",), (b"a\nb",), (b"x",) * 65])
def test_what_is_no_needle_is_refused(needles: tuple[bytes, ...]) -> None:
    with pytest.raises(ValueError, match="64 byte strings"):
        Needles(needles)
