"""The caller at every instruction of a run matches the calls and returns before it."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.helpers.live import compiled
from tests.helpers.stepping import Report, step_through

PROGRAM = """#include <setjmp.h>
#include <stdlib.h>
#include <string.h>
static volatile int sink;
static jmp_buf out;
__attribute__((noinline)) static int deep(int n) { if (!n) longjmp(out, 1); return deep(n - 1) + 1; }
__attribute__((noinline)) static int wide(int n) {
    char place[n];
    memset(place, n, n);
    sink = place[n / 2];
    return n > 10 ? wide(n - 7) + place[1] : place[0];
}
static int compare(const void *a, const void *b) { return *(const int *)b - *(const int *)a; }
int main(void) {
    int numbers[40];
    for (int i = 0; i < 40; i++) numbers[i] = i * 7919 % 41;
    qsort(numbers, 40, sizeof *numbers, compare);
    if (!setjmp(out)) sink = deep(6);
    sink += wide(100);
    return 0;
}
"""
STEPS, MANY = 12_000, 1_000_000


def assert_right(report: Report, least: int) -> None:
    assert (report.wrong, report.shown) == (0, [])
    assert report.steps >= least
    assert report.complete >= report.steps // 200
    assert report.found_by["cfi"] > report.steps * 0.95


@pytest.mark.parametrize("options", [("-O0",), ("-O3", "-fomit-frame-pointer")], ids=" ".join)
def test_every_caller_of_a_static_programs_run_is_right(tmp_path: Path, options: tuple[str, ...]) -> None:
    program = compiled(tmp_path, "-static", *options, source=PROGRAM)
    assert_right(step_through([str(program)], STEPS), STEPS)


def test_every_caller_in_the_loader_is_right(tmp_path: Path) -> None:
    program = compiled(tmp_path, "-O1", source=PROGRAM)
    assert_right(step_through([str(program)], STEPS), STEPS)


@pytest.mark.oracle
@pytest.mark.parametrize("options", [("-O0",), ("-O2",), ("-O3", "-fomit-frame-pointer", "-static")], ids=" ".join)
def test_every_caller_of_a_million_steps_is_right(tmp_path: Path, options: tuple[str, ...]) -> None:
    """Again and again through the same program, and through /bin/ls."""
    program = compiled(tmp_path, *options, source=PROGRAM.replace("wide(100)", "wide(900)"))
    steps = 0
    for words in ([str(program)], ["/bin/ls", "/"], ["/usr/bin/env"]):
        report = step_through(words, MANY // 2)
        assert_right(report, 10_000)
        steps += report.steps
    assert steps > 400_000
