"""Search for needles, compared with Python's own search."""

import re
import time

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from whence.filter.forms import AFTER_PREFIX
from whence.filter.kernels.needles import Needles

TEXTS = st.binary(max_size=200) | st.lists(st.sampled_from([b"a", b"b", b"ab", b"\n", b" "]), max_size=60).map(b"".join)


@given(
    TEXTS, st.lists(st.binary(min_size=1, max_size=3).filter(lambda needle: not set(b"\n%") & set(needle)), max_size=8)
)
def test_lines_finds_each_line_that_contains_a_needle(text: bytes, needles: list[bytes]) -> None:
    expected, start = [], 0
    for line in text.split(b"\n"):
        bits = sum(1 << bit for bit, needle in enumerate(needles) if needle in line)
        if bits:
            expected += [start, start + len(line), bits]
        start += len(line) + 1
    assert Needles(tuple(needles)).lines(text).numbers().tolist() == expected


CLASSES = {
    "%d": "[0-9]++",
    "%x": "[0-9a-fA-F]++",
    "%_": "[ \\t]++",
    "%~": "[ \\t]*+",
    "%w": "[^ \\t\\r]++",
    "%$": '(?= *+(?:[\\r\\x1b"\\\\]|$))',
}
PLACES = {b"%^": rf"(?:^|{AFTER_PREFIX})(?:\x1b\[[0-9;]*m)*", b"%/": "/[^ \\t]*", b"%w": "(?<=[^ \\t])"}


def as_pattern(needle: bytes) -> re.Pattern[bytes]:
    place = PLACES.get(needle[:2], "")
    text = (needle[2:] if place else needle).decode()
    return re.compile(
        (place + re.sub("%.|[^%]+", lambda part: CLASSES.get(part[0]) or re.escape(part[0]), text)).encode()
    )


NEEDLES = st.builds(
    lambda place, word, parts: place + word + b"".join(parts),
    st.sampled_from([b"", *PLACES]),
    st.sampled_from([b"a", b"#", b"0x", b" ("]),
    st.lists(
        st.sampled_from([*(name.encode() for name in CLASSES if name != "%$"), b"a", b" ", b"#", b"0x"]), max_size=4
    ),
)
LINES = st.lists(
    st.sampled_from(
        [
            b"a",
            b"#",
            b"0x",
            b" ",
            b"\t",
            b"(",
            b"1",
            b"f",
            b"/",
            b"\r",
            b"\x1b",
            b"\x1b[1m",
            b"\n",
            b"x",
            b"0",
            b"]: ",
            b" | ",
            b'":"',
            b" stderr F ",
            b"\\",
            b'"',
        ]
    ),
    max_size=60,
).map(b"".join)


@given(LINES, st.lists(NEEDLES.flatmap(lambda each: st.sampled_from([each, each + b"%$"])), max_size=10))
@example(b"/a #10x1\n", [b"%/ #%d", b"#%da", b"#%d0", b"#%d%x"])
def test_classes_match_like_regular_expressions(text: bytes, needles: list[bytes]) -> None:
    prefixes = {line: len(re.findall(AFTER_PREFIX.encode(), line)) for line in text.split(b"\n")}
    assume(all(count <= 3 and len(line) < 128 for line, count in prefixes.items()))
    assume(not any(count and line.startswith((b" ", b"\t", b"\x1b")) for line, count in prefixes.items()))
    expected, start = [], 0
    for line in text.split(b"\n"):
        bits = sum(1 << bit for bit, needle in enumerate(needles) if as_pattern(needle).search(line))
        if bits:
            expected += [start, start + len(line), bits]
        start += len(line) + 1
    assert Needles(tuple(needles)).lines(text).numbers().tolist() == expected


def test_inactive_needles_are_not_searched_for() -> None:
    needles = Needles((b"a", b"b", b"c"))
    assert needles.lines(b"ab\nb\nc", 0b101).numbers().tolist() == [0, 2, 1, 5, 6, 4]


@pytest.mark.parametrize("needles", [(b"",), (b"a\nb",), (b"x",) * 129, (b"%d",), (b"%^%d",), (b"a%q",), (b"a" * 256,)])
def test_an_invalid_needle_is_refused(needles: tuple[bytes, ...]) -> None:
    with pytest.raises(ValueError, match=r"more than 128|invalid needle|unknown class"):
        Needles(needles)


def test_a_line_with_many_starts_of_needles_takes_linear_time() -> None:
    """A word is read once, even if many needles may start in it."""
    needles = Needles((b"%/[0x", b"%^%d  %w + 0x%x%$", b"%/+0x%x%$"))
    text = b"1  " + b"[0x+0x + 0x" * 200_000
    began = time.process_time()
    for _ in range(5):
        needles.lines(text)
    assert time.process_time() - began < 5


def test_needles_share_bits_unless_they_start_a_line() -> None:
    needles = Needles((b"a", b"b", b"%^c"), (0, 0, 1))
    assert needles.lines(b"ba\nb\nc").numbers().tolist() == [0, 2, 1, 3, 4, 1, 5, 6, 2]
    with pytest.raises(ValueError, match="starts a line and shares its bit"):
        Needles((b"a", b"%^c"), (0, 0))
    with pytest.raises(ValueError, match="each below 64"):
        Needles((b"a",), (64,))
