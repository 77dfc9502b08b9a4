"""The simulation of a fleet (benchmarks/fleet.py) counts what it says it counts."""

from __future__ import annotations

import random
from array import array

import pytest

from benchmarks import fleet


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fleet, "BUILD_IDS", 1000)
    monkeypatch.setattr(fleet, "WARM", 0.0)


def test_a_cache_forgets_what_was_used_least_recently() -> None:
    cache = fleet.Cache(30)
    assert [cache.ask(one, 10) for one in (1, 2, 3, 1, 4, 1, 2)] == [False, False, False, True, False, True, False]
    assert not cache.ask(9, 31)
    assert not cache.ask(9, 31)  # what is larger than the cache is never in it


def test_a_cache_that_holds_all_misses_each_build_id_once_a_server() -> None:
    asked = fleet.trace(1.0, 20_000, random.Random(1))
    sizes = array("Q", [10] * 1000)
    alone = fleet.simulate(asked, sizes, 1 << 20, 1, by_id=False)
    assert alone.misses == len({*asked})
    assert alone.fetched == 10 * alone.misses
    assert fleet.simulate(asked, sizes, 1 << 20, 4, by_id=True).misses == alone.misses
    assert fleet.simulate(asked, sizes, 1 << 20, 4, by_id=False).misses > 2 * alone.misses


def test_build_ids_are_asked_for_by_zipf_s_law() -> None:
    asked = fleet.trace(1.0, 100_000, random.Random(1))
    first, tenth = asked.count(0), asked.count(9)
    assert 8 < first / tenth < 12
