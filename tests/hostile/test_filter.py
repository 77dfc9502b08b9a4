"""Lines of a log built to make the patterns of `whence filter` slow: each costs time in proportion to its length."""

import re
import time

from hypothesis import given
from hypothesis import strategies as st

from tests.hostile.bounds import bounded
from whence.filter import FORMS, LogFilter, Places
from whence.filter.forms import ANY_ADDRESS
from whence.filter.kernels.needles import Needles
from whence.filter.naming import MAX_LINE

WORDS = (
    b"0x1 ", b"#1 0x1  (", b"#1 ", b"+0x1", b"a(", b"a(+0x1) [0x", b"[0x", b"[<", b"@ ", b"@ 0x1 ", b" ", b"\t",
    b"a", b"/", b"/a", b"a+0x1/0x1 ", b"a+0x1/0x1 [a", b"#1 <null> <null> (", b"#1 0x1 (", b"{{{bt:1:0x1:",
    b"{{{pc:", b"{{{module:1:", b"frame #1: ", b"frame #1: (0x1 in ", b"#1 pc 00000001 a (",
    b"#1 pc 00000001 a (x+1", b"#00 pc 00000001  /a ", b"C  [", b"C  [a", b"1# 0x1 in ", b"#1 0x1 n/a (", b" 1  a",
    b" + 0x1", b": segfault at 1 ip 1 sp 1 error 1 in ", b": segfault at 1 ip 1 sp 1 error 1 in a[", b"acktrace: ",
    b"1: 0x1 - ", b"1: 0x1  [", b"#1 0x1 in ?? () from ", b"a[0x", b"a(b+", b"(", b"created by a(", b"a:1 ",
    b"(unknown)", b"@ 0x111111  1  ", b"@ 111111  ", b"1", b"0x", b"  0x", b" /a+", b"\xc3\xa9", b"+", b"#",
    b"(0x1 in ", b"f", b"{{{mmap:0x1:0x1:load:1:", b"a() [0x1] ",
    b"#1 0x1 in ", b"#1 0x1 in a (", b"frame #1: a + 0x1 ", b"frame #1: + 0x1 (0x1 in ", b'Binary file "',
    b'Binary file "a", at ',
    b"#1 0x0000000000000001 a (", b"(a + 0x1", b"1: 0x1 [a ", b"1: 0x1 a[", b"module a with", b" Executable: /a",
    b" at: 0x1 0x1 ",
    b"0x1 0x1 + 1 ", b"1 a\t0x0000000000000001 a + 1", b"a:wasm-function[1]:0x1 ", b"a:wasm-function", b"1: 0x1 - a!",
    b"a (", b"a (b ", b"a(b c(", b"a(() ", b"a(b (c (d) ", b"() [0x", b" > /", b" > /a() [0x", b"1: (", b"1: (a ",
    b"#1: a[", b" +0x1]", b"@ 0x1 in /", b"  $00000001", b" at $00000001", b"ubsan: ", b"NEW_PC: 0x1  (", b"]: a b ",
    b"a: b(1) ", b"SUMMARY: ThreadSanitizer: a (/a",
    b"]: ", b" | ", b'":"', b"\\u003c", b"\\n", b'{"a":"',
)  # fmt: skip


def in_its_place(found: re.Match[bytes]) -> bytes:
    """Bytes of a needle's class."""
    return {b"d": b"1", b"x": b"1", b"_": b" ", b"~": b" ", b"w": b"a"}.get(found[1], b"")


def filtered(word: bytes, size: int) -> int:
    """The bytes that come out for lines of one word again and again, each with the needles of all forms at its end.

    The line that begins with the word has `size` bytes, those with something in front of it a quarter."""
    needles = b" ".join(
        re.sub(rb"%(.)", in_its_place, needle.text) for form in (*FORMS, ANY_ADDRESS) for needle in form.needles
    )
    starts = (b"", b"#1 0x1  (", b"C  [", b" ", b"\t", b'{"')
    count = 0
    with Places() as places:
        log = LogFilter(places, every=True)
        for start in starts:
            length = size // 4 if start else size
            line = start + word * (length // len(word))
            count += len(log.feed(line[: length - len(needles) - 1] + b" " + needles + b"\n"))
    return count


def all_filtered(size: int) -> list[int]:
    return [filtered(word, size) for word in WORDS]


def test_a_log_of_lines_that_begin_many_frames_costs_time_in_proportion() -> None:
    size = MAX_LINE // 4
    outcome = bounded(all_filtered, size, stored=2 * size * len(WORDS), seconds=10, megabytes=150)
    assert all(count >= 3 * size // 2 for count in outcome.answer)


def test_modules_that_a_log_tells_anew_before_each_address_cost_time_in_proportion() -> None:
    """Each range of a module was looked at for each address."""
    text = b"".join(
        b"{{{mmap:%#x:0x1000:load:1:r:0x1}}}\n{{{pc:%#x}}}\n" % (index << 12, index << 12) for index in range(10_000)
    )
    log = LogFilter(Places())
    began = time.process_time()
    assert log.feed(text) + log.finish() == text
    assert time.process_time() - began < 5


@given(
    parts=st.lists(st.tuples(st.integers(0, 40), st.integers(1, 20), st.integers(0, 3)), max_size=12),
)
def test_a_part_of_a_module_takes_the_place_of_what_lay_there_before(parts: list[tuple[int, int, int]]) -> None:
    places = Places()
    expected: dict[int, tuple[int, int]] = {}
    for index, (start, size, number) in enumerate(parts):
        places.add_range(start, size, number, 100 * index)
        expected |= {offset: (number, 100 * index + offset - start) for offset in range(start, start + size)}
    told = {
        offset: (number, vaddr + offset - start)
        for start, end, number, vaddr, _ in places._ranges
        for offset in range(start, end)
    }
    assert told == expected
    assert [each[0] for each in places._ranges] == places._range_starts == sorted(places._range_starts)


class CountedNeedles:
    """Needles that count the bytes in which they are searched for."""

    def __init__(self, needles: Needles) -> None:
        self._needles = needles
        self.searched = 0

    def lines(self, text: bytes, active: int) -> object:
        self.searched += len(text)
        return self._needles.lines(text, active)


def test_a_log_of_many_reports_is_searched_a_few_times() -> None:
    """The rest of a block was searched again after each report in it."""
    report = b"WARNING: ThreadSanitizer: data race\n    #0 <null> <null> (app+0x1234)\n" * 8 + b"==================\n"
    text = report * 2000
    with Places() as places:
        log = LogFilter(places)
        counted = CountedNeedles(log._forms.needles)
        log._forms.needles = counted
        assert log.feed(text) + log.finish() == text
    assert counted.searched < 4 * len(text)
