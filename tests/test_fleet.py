"""The simulations of a fleet (benchmarks/fleet) count what they say they count."""

from __future__ import annotations

import argparse
import random
from array import array
from pathlib import Path

import pytest

from benchmarks.fleet import caches, catalog, naming, storm
from benchmarks.fleet.builds import Builds
from whence.locator.opening import open_binary
from whence.store import Store


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(caches, "BUILD_IDS", 1000)
    monkeypatch.setattr(caches, "WARM", 0.0)


def test_a_cache_forgets_what_was_used_least_recently() -> None:
    cache = caches.Cache(30)
    assert [cache.ask(each, 10) for each in (1, 2, 3, 1, 4, 1, 2)] == [False, False, False, True, False, True, False]
    assert not cache.ask(9, 31)
    assert not cache.ask(9, 31)  # what is larger than the cache is never in it


def test_a_cache_that_holds_all_misses_each_build_id_once_a_server() -> None:
    asked = caches.trace(1.0, 20_000, random.Random(1))
    sizes = array("Q", [10] * 1000)
    alone = caches.simulate(asked, sizes, 1 << 20, 1, by_id=False)
    assert alone.misses == len({*asked})
    assert alone.fetched == 10 * alone.misses
    assert caches.simulate(asked, sizes, 1 << 20, 4, by_id=True).misses == alone.misses
    assert caches.simulate(asked, sizes, 1 << 20, 4, by_id=False).misses > 2 * alone.misses


def test_build_ids_are_asked_for_by_zipf_s_law() -> None:
    asked = caches.trace(1.0, 100_000, random.Random(1))
    first, tenth = asked.count(0), asked.count(9)
    assert 8 < first / tenth < 12


def test_each_build_has_its_own_build_id_and_names(tmp_path: Path) -> None:
    builds = Builds(tmp_path, 20)
    for number in (3, 40):
        path = tmp_path / str(number)
        path.write_bytes(builds.content(number))
        with open_binary(path) as binary:
            assert binary.build_id == builds.build_id(number)
            assert [frame.function for frame in binary.lookup(builds.address)][-1] == builds.name(number)
    assert len({*builds.nights(3)}) == 3


def test_nothing_is_lost_in_a_small_storm() -> None:
    options = argparse.Namespace(
        builds=3, rate=3.0, hosts=5, servers=1, workers=1, functions=20, kill_seconds=0.0, seed=1
    )
    outcome = storm.storm(options, shared_cache=True, by_build=False)
    assert (outcome.lost_names, outcome.lost_uploads, len(outcome.names)) == (0, [], 15)
    assert outcome.reads["debuginfo"] == outcome.reads["lidia.gz"] == 1


def test_a_server_names_profiles_and_forwards_them(capsys: pytest.CaptureFixture[str]) -> None:
    options = "--bytes 20000 --locations 5 --functions 20 --seconds 1 --clients 1 --workers 1"
    assert naming.main(options.split()) == 0
    assert "samples/s and core" in capsys.readouterr().out


def test_commands_list_every_build_of_a_generated_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with Store(tmp_path / "store") as store:
        store.add(_program(tmp_path))
    catalog.fill(tmp_path / "store", 30)
    catalog.commands(tmp_path / "store", 30)
    lines = capsys.readouterr().out.splitlines()
    assert "32 lines" in next(line for line in lines if "store ls" in line)  # a heading, and one real build


def _program(folder: Path) -> Path:
    Builds(folder, 20)
    return folder / "program"
