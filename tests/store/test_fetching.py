"""Requests to a bucket: one per archive, a few ranges for a few addresses, few for missing files."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from tests.helpers.live import until
from tests.helpers.stores import Files
from whence import lidia
from whence.lidia import Builder, Range
from whence.locate.cache import Cache
from whence.locate.search import FileQuery
from whence.locator.locator import Locator
from whence.store import Store, fetching, names, ranged
from whence.store.ranged import RangedBinary

pytest.importorskip("obstore", reason="obstore is not installed")

from whence.store.bucket import Bucket, bucket_at

ID = "ab" * 20


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("files"))


@pytest.fixture
def bucket() -> Bucket:
    return bucket_at(f"memory://{random.getrandbits(64):x}")


def requests(bucket: Bucket) -> int:
    """Return the number of requests since the last call."""
    count, bucket.requests, bucket.received = bucket.requests, 0, 0
    return count


def test_an_archive_is_fetched_once_and_compared_once_an_hour(
    bucket: Bucket, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store(bucket)
    store.add(files.whole)

    def lines() -> int:
        with Locator(dirs=(), local=False, sources=[store.source(cache=tmp_path / "cache")]) as locator:
            search = locator.search(FileQuery(files.build_id), addresses=100)
            assert search.opened is not None
            with search.opened as opened:
                return opened.binary.lookup(files.vaddr)[-1].line

    requests(bucket)
    assert lines()
    assert 0 < requests(bucket) <= 8
    assert lines()
    assert requests(bucket) == 0
    monkeypatch.setattr(fetching, "FRESH_SECONDS", -1.0)
    assert lines()
    assert 0 < requests(bucket) <= 4
    assert bucket.received < files.whole.stat().st_size


def test_a_new_archive_replaces_the_cached_archive(
    bucket: Bucket, files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(fetching, "FRESH_SECONDS", -1.0)
    store = Store(bucket)
    store.add(files.symbols)
    source = store.source(cache=tmp_path / "cache")
    for better in (None, files.whole):
        if better is not None:
            store.add(better)
        candidates = {each.is_archive: each for each in source.find(FileQuery(files.build_id), [])}
        with lidia.open(candidates[True].path) as table:
            assert bool(table.lookup(files.vaddr)[-1].line) == (better is not None)


def test_cached_files_answer_when_the_bucket_is_unreachable(bucket: Bucket, files: Files, tmp_path: Path) -> None:
    store = Store(bucket)
    store.add(files.whole)
    source = store.source(cache=tmp_path / "cache")
    (first, *_) = source.find(FileQuery(files.build_id), [])
    assert first.is_archive

    def down(*words: object, **named: object) -> None:
        raise OSError(5, "down")

    for name in ("head", "read", "fetch", "read_range"):
        setattr(bucket, name, down)
    again = store.source(cache=tmp_path / "cache")
    (first, *_) = again.find(FileQuery(files.build_id), [])
    assert first.is_archive
    tried: list = []
    assert list(again.find(FileQuery(ID), tried)) == []
    assert [each.outcome.code for each in tried] == ["broken"]


def test_a_miss_is_cached_for_all_processes(bucket: Bucket, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = Store(bucket)
    bucket.put(names.MARKER, b"{}")
    cache = Cache(tmp_path / "cache")
    assert not list(store.source(cache=cache).find(FileQuery(ID), []))
    assert 0 < requests(bucket) <= 4
    source = store.source(cache=cache)
    for _ in range(5):
        assert not list(source.find(FileQuery(ID), []))
        assert source.fetch(ID) is None
    assert requests(bucket) == 0
    monkeypatch.setattr(fetching, "ABSENT_SECONDS", -1.0)
    assert not list(store.source(cache=cache).find(FileQuery(ID), []))
    assert requests(bucket) > 0


def large_archive(functions: int) -> bytes:
    """Return an archive with inlined calls and gaps between functions."""
    builder = Builder(build_id=ID)
    pick = random.Random(7)
    for number in range(functions):
        offset = 0x1000 + 64 * number
        lines = [(0, number + 1), (9, number + 2), (20, number + 5)]
        name = f"function_{number}_{'x' * pick.randrange(300)}"
        builder.add(Range(offset, 60, name, f"dir/{number % 97}.c", line_table=lines))
        for depth in range(1, pick.randrange(4)):
            name, inner = f"inlined_{number % 511}", [(0, depth), (3, 70)]
            item = Range(offset + 4 * depth, 40 - 8 * depth, name, "inlined.h", "call.c", 40 + depth, depth, inner)
            builder.add(item)
    return builder.to_bytes()


def test_a_few_addresses_of_a_large_archive_read_a_few_ranges(bucket: Bucket) -> None:
    content = large_archive(30_000)
    assert len(content) > 6 << 20
    bucket.put("a", content)
    status = bucket.head("a")
    assert status is not None
    pick = random.Random(3)
    with lidia.from_bytes(content) as full:
        requests(bucket)
        asked = [0x1000 + 64 * pick.randrange(30_000) + pick.randrange(64) for _ in range(4)]
        with RangedBinary(bucket, status, False) as binary:
            assert binary.build_id == ID
            result = binary.lookup_many(asked)
            assert list(result) == list(full.lookup_many(asked))
        assert bucket.received < len(content) / 5
        assert requests(bucket) <= 30
        for count in (1, 30, 65):
            asked = [0xFFF + pick.randrange(64 * 30_000 + 99) for _ in range(count)]
            with RangedBinary(bucket, status, False) as binary:
                assert [binary.lookup(each) for each in asked] == [full.lookup(each) for each in asked]
                assert list(binary.lookup_many(asked)) == list(full.lookup_many(asked))
                assert binary.lookup(-1) == binary.lookup(1 << 64) == binary.lookup(0) == ()
        with RangedBinary(bucket, status, True) as binary:
            assert sum(1 for _ in binary.ranges()) == len(full)
            assert binary.find(full[0].function)


@pytest.mark.parametrize("cut", [0, 100, 5000, 1 << 20, -40])
def test_a_damaged_archive_raises_or_answers_as_the_local_file_does(bucket: Bucket, cut: int) -> None:
    content = large_archive(6_000)[: cut or None]
    if cut == 0:
        content = bytes(content[:200]) + os.urandom(len(content) - 200)
    bucket.put("a", content)
    status = bucket.head("a")
    assert status is not None
    try:
        with lidia.from_bytes(content) as table:
            expected = [table.lookup(0x1000 + 64 * number) for number in range(3)]
    except Exception as error:
        with pytest.raises((type(error), OSError)):
            RangedBinary(bucket, status, False).lookup(0x1000)
        return
    with RangedBinary(bucket, status, False) as binary:
        assert [binary.lookup(0x1000 + 64 * number) for number in range(3)] == expected


def test_the_locator_reads_ranges_for_few_addresses_and_all_for_many(bucket: Bucket, tmp_path: Path) -> None:
    store = Store(bucket)
    content = large_archive(10_000)
    bucket.put(names.file_key(ID, names.ARCHIVE), content)
    for addresses, part in ((3, 0.5), (1000, 1.5)):
        source = store.source(cache=tmp_path / f"cache{addresses}")
        with Locator(dirs=(), local=False, sources=[source]) as locator:
            requests(bucket)
            search = locator.search(FileQuery(ID), addresses=addresses)
            assert search.opened is not None
            with search.opened as opened:
                assert opened.binary.lookup(0x1000 + 64 * 5)[0].line
            assert isinstance(opened.binary, RangedBinary) == (addresses == 3)
            assert bucket.received < part * len(content)


def test_an_archive_that_is_replaced_while_it_is_read_is_an_error(bucket: Bucket) -> None:
    content = large_archive(6_000)
    bucket.put("a", content)
    status = bucket.head("a")
    assert status is not None
    with RangedBinary(bucket, status, False) as binary:

        def is_replaced() -> bool:
            """Return True once the file's time differs: clocks of file systems tick a few hundred times a second."""
            bucket.put("a", content[:-1] + b"x")
            return bucket.head("a") != status

        assert until(is_replaced)
        with pytest.raises(OSError, match=r"."):
            binary.lookup(0x1000 + 64 * 3000)


def test_the_parts_that_were_read_are_disjoint_and_ordered() -> None:
    sparse = object.__new__(ranged.SparseObject)
    sparse._starts, sparse._ends = [], []
    have = set()
    pick = random.Random(1)
    for _ in range(300):
        start = pick.randrange(200)
        end = start + pick.randrange(1, 20)
        sparse._add(start, end)
        have |= {*range(start, end)}
        assert {
            each for start, end in zip(sparse._starts, sparse._ends, strict=True) for each in range(start, end)
        } == have
        assert sparse._starts == sorted(sparse._starts)
        assert all(end < start for end, start in zip(sparse._ends, sparse._starts[1:]))
        probe = pick.randrange(200)
        assert sparse.has(probe, probe + 3) == ({probe, probe + 1, probe + 2} <= have)
