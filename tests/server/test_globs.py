"""Patterns of /metadata, compared with the C library's fnmatch."""

from __future__ import annotations

import ctypes
import random
import sys
import time

import pytest

from whence.server.globs import compiled

FNM_PATHNAME = 1


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="compares with glibc")
def test_patterns_match_what_fnmatch_matches() -> None:
    fnmatch = ctypes.CDLL(None).fnmatch
    dice = random.Random(8)
    differences = []
    for _ in range(60_000):
        glob = "".join(dice.choices("ab.-*?[]!{/", k=dice.randint(0, 8)))
        name = "".join(dice.choices("ab.-[]{/*", k=dice.randint(0, 6)))
        if "[." in glob:  # collating symbols
            continue
        expected = fnmatch(glob.encode(), name.encode(), FNM_PATHNAME) == 0
        if bool(compiled(glob).fullmatch(name)) != expected:
            differences.append((glob, name, expected))
    assert differences == []


@pytest.mark.parametrize(
    ("glob", "name", "fits"),
    [("[.*]", ".", True), ("[.*]", "*", True), ("[.*]", "x", False), ("[[:digit:]]a", "7a", True), ("\\*", "*", True)],
)
def test_brackets_and_backslashes(glob: str, name: str, fits: bool) -> None:
    assert bool(compiled(glob).fullmatch(name)) is fits


def test_many_stars_take_no_time() -> None:
    began = time.process_time()
    assert compiled("*a" * 30 + "b").fullmatch("a" * 2000) is None
    assert time.process_time() - began < 5
