"""The cache of files by build-id: whole entries only, made once, bounded, safe between processes."""

from __future__ import annotations

import multiprocessing
import os
import time
from pathlib import Path

import pytest

from whence.debuginfo.cache import Cache


def test_an_entry_is_made_once_and_found_again(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    assert cache.get("abcd.lidia") is None
    path = cache.put("abcd.lidia", lambda new: new.write_bytes(b"one"))
    assert cache.put("abcd.lidia", lambda new: new.write_bytes(b"two")) == path == cache.get("abcd.lidia")
    assert path.read_bytes() == b"one"


def test_what_could_not_be_made_leaves_nothing(tmp_path: Path) -> None:
    def half(new: Path) -> None:
        new.write_bytes(b"half")
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        Cache(tmp_path).put("abcd.lidia", half)
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == [".lock"]


def test_the_least_recently_used_entries_go_when_the_limit_is_passed(tmp_path: Path) -> None:
    cache = Cache(tmp_path, limit_bytes=250)
    for age, key in enumerate(("aa11.lidia", "bb22.lidia", "cc33.lidia")):
        path = cache.put(key, lambda new: new.write_bytes(bytes(100)))
        os.utime(path, (1000 + age, 1000 + age))
    assert cache.get("bb22.lidia") is not None  # used now
    cache.put("dd44.lidia", lambda new: new.write_bytes(bytes(100)))
    kept = [key for key in ("aa11", "bb22", "cc33", "dd44") if cache.get(f"{key}.lidia")]
    assert kept == ["bb22", "dd44"]


def test_an_entry_larger_than_the_limit_is_still_given(tmp_path: Path) -> None:
    assert Cache(tmp_path, limit_bytes=1).put("abcd.debuginfo", lambda new: new.write_bytes(bytes(100))).exists()


def test_what_was_left_unfinished_goes_after_a_day(tmp_path: Path) -> None:
    cache = Cache(tmp_path)
    cache.put("abcd.lidia", lambda new: new.write_bytes(b"x"))
    young, old = tmp_path / "ab" / "abcd.x.1-0.new", tmp_path / "ab" / "abcd.y.1-0.new"
    for path in (young, old):
        path.write_bytes(b"half")
    day_ago = time.time() - 25 * 3600
    os.utime(old, (day_ago, day_ago))
    ahead = tmp_path / "ab" / "abcd.z.1-0.new"  # made before the clock was set back
    ahead.write_bytes(b"half")
    os.utime(ahead, (time.time() + 25 * 3600,) * 2)
    cache.trim()
    assert young.exists()
    assert not old.exists()
    assert not ahead.exists()


@pytest.mark.parametrize("key", ["../../etc/passwd", "ab/cd.lidia", "abcd", ".lidia", "a.lidia", "abcd.lidia\n", ""])
def test_a_key_never_leaves_the_folder(tmp_path: Path, key: str) -> None:
    with pytest.raises(ValueError, match=r"BUILD-ID\.WHAT"):
        Cache(tmp_path).path(key)


def _make(root: str, made: str) -> None:
    def slowly(new: Path) -> None:
        time.sleep(0.05)
        new.write_bytes(b"whole")
        with open(made, "a") as file:
            file.write("x")

    assert Cache(root).put("abcd.lidia", slowly).read_bytes() == b"whole"


def test_processes_that_want_the_same_entry_make_it_once(tmp_path: Path) -> None:
    made = tmp_path / "made"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=_make, args=(str(tmp_path / "root"), str(made))) for _ in range(3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    assert made.read_text() == "x"
