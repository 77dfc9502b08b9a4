"""Caches of frames and texts never change answers."""

from __future__ import annotations

import random

from tests.forge.ranges import Names, R, table
from whence import lidia
from whence.lidia.writer import to_bytes


def test_more_functions_and_frames_than_fit_the_caches_keep_their_names() -> None:
    count = 150_000
    ranges = [R(0x1000 + 16 * n, 16, 0, f"f{n}", f"{n % 7}.c", ((0, n + 1), (8, n + 2))) for n in range(count)]
    archive = lidia.from_bytes(to_bytes(table(Names(), ranges)), demangle=str.upper)
    asked = [random.Random(7).randrange(count) for _ in range(5000)] + list(range(0, count, 3)) * 2
    for n in asked:
        for byte, line in ((0, n + 1), (9, n + 2)):
            (frame,) = archive.lookup(0x1000 + 16 * n + byte)
            assert (frame.function, frame.file, frame.line) == (f"F{n}", f"{n % 7}.c", line)


def test_single_and_batch_lookups_agree_before_and_after_links_are_made() -> None:
    ranges = []
    for n in range(3000):
        ranges += [R(0x1000 + 32 * n, 32, 0, f"f{n}", "a.c", ((0, 1),)),
                   R(0x1008 + 32 * n, 8, 1, f"g{n % 5}", "b.h", ((0, 2),), "a.c", n)]  # fmt: skip
    data = to_bytes(table(Names(), ranges))
    asked = [random.Random(1).randrange(0xF00, 0x1100 + 32 * 3000) for _ in range(4000)]
    at_once = list(lidia.from_bytes(data).lookup_many(asked))
    archive = lidia.from_bytes(data)
    assert [archive.lookup(vaddr) for vaddr in asked] == at_once
