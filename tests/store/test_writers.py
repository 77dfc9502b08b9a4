"""Concurrent writers, and writers that are killed at each step."""

from __future__ import annotations

import json
import os
import threading
import time
from contextlib import suppress
from pathlib import Path

import pytest

from tests.helpers.live import until
from tests.helpers.stores import Files, Watched, in_child, killed_at
from whence.store import Busy, Store, leases, names
from whence.store.folder import Folder
from whence.store.leases import Lease
from whence.store.quality import scan
from whence.store.verify import verify


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("files"))


@pytest.fixture(autouse=True)
def _no_power_cuts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Skip fsync: these tests end processes, not machines."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def is_whole(store: Store) -> None:
    """Check that every file is one of the files that were put, and that lookups work."""
    problems = [problem for problem in verify(store) if problem.build_id]
    assert not problems, problems


def steps(tmp_path: Path, files: Files, first: list[Path], second: Path) -> int:
    """Return the number of writes that adding a file takes."""
    location = Watched(Folder(tmp_path / "count"), lambda number: None)
    with Store(Folder(tmp_path / "count")) as store:
        store.add(*first)
    with Store(location) as store:
        store.add(second)
    return location.count


@pytest.mark.parametrize("case", ["first file", "better file", "second kind"])
def test_a_writer_that_is_killed_at_any_step_leaves_a_valid_store(tmp_path: Path, files: Files, case: str) -> None:
    """Before and after each write the old or the new file answers; adding again completes the write."""
    first, second = {
        "first file": ([], files.whole),
        "better file": ([files.symbols], files.whole),
        "second kind": ([files.stripped], files.debug),
    }[case]
    count = steps(tmp_path, files, first, second)
    assert count >= 12
    for number in range(count):
        folder = tmp_path / str(number)
        with Store(folder) as store:
            store.add(*first)

        def work(folder: Path = folder, number: int = number) -> None:
            Store(Watched(Folder(folder), killed_at(number)), jobs=1).add(second)

        assert in_child(work) == -9, number
        with Store(folder) as store:
            for kind in names.ELF_KINDS:
                with store.file(files.build_id, kind) as path:
                    assert path is None or path.read_bytes() in {
                        each.read_bytes() for each in (*first, second)
                    }, (number, kind)  # fmt: skip
            if first:
                with store.open(files.build_id) as binary:
                    assert binary.lookup(files.vaddr) or first == [files.stripped]
                assert [row.build_id for row in store.list()] == [files.build_id]
            began = time.monotonic()
            store.add(second)
            assert time.monotonic() - began < leases.LEASE_SECONDS / 2  # who was killed is not waited for
            is_whole(store)
            with store.open(files.build_id) as binary:
                assert binary.lookup(files.vaddr)[-1].line
            expected = store.find(files.build_id)
            assert expected is not None
            for kind in scan(second).kinds:
                with store.file(files.build_id, kind) as path:
                    assert path is not None
                    assert path.read_bytes() == second.read_bytes()
            assert [row.build_id for row in store.list()] == [files.build_id]
            assert not list((folder / "locks").glob("*"))


def test_a_removal_that_is_killed_at_any_step_is_completed(tmp_path: Path, files: Files) -> None:
    """The remaining files are valid or removed by the next writer; missing files are not listed."""
    location = Watched(Folder(tmp_path / "count"), lambda number: None)
    with Store(Folder(tmp_path / "count")) as store:
        store.add(files.whole, layouts=["gdb"])
    assert Store(location).remove(files.build_id)
    assert location.count >= 12
    for number in range(location.count):
        folder = tmp_path / str(number)
        with Store(folder) as store:
            store.add(files.whole, layouts=["gdb"])

        def work(folder: Path = folder, number: int = number) -> None:
            Store(Watched(Folder(folder), killed_at(number))).remove(files.build_id)

        assert in_child(work) == -9, number
        with Store(folder) as store:
            is_whole(store)
            for row in store.list():
                with store.open(row.build_id) as binary:
                    assert binary.lookup(files.vaddr)
            store.remove(files.build_id)
            assert store.list() == []
            assert not [path for path in folder.rglob("*") if files.build_id in str(path)], number


@pytest.mark.parametrize("places", ["folder", "memory"])
def test_of_two_concurrent_writers_the_better_file_is_kept(tmp_path: Path, files: Files, places: str) -> None:
    """A poorer and a better file are put at the same time, in any order: the better file remains."""
    for number in range(100):
        location = f"memory://race-{id(files)}-{number}" if places == "memory" else str(tmp_path / str(number))
        stores = [Store(location), Store(location)]
        gate = threading.Barrier(2)
        failed: list[BaseException] = []

        def put(store: Store, path: Path, gate: threading.Barrier = gate, failed: list[BaseException] = failed) -> None:
            try:
                gate.wait()
                with open(path, "rb") as file:
                    store.put(files.build_id, "", file, wait=60)
            except BaseException as error:
                failed.append(error)

        pair = [(stores[0], files.symbols), (stores[1], files.whole)]
        threads = [threading.Thread(target=put, args=each) for each in (pair if number % 2 else reversed(pair))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert not failed
        with stores[0].file(files.build_id, "executable") as path:
            assert path is not None
            assert path.read_bytes() == files.whole.read_bytes()
        expected = stores[0].find(files.build_id)
        assert expected is not None
        assert expected.quality.units
        assert expected.archive is not None
        with stores[0].open(files.build_id) as binary:
            assert binary.lookup(files.vaddr)[-1].line
        if number % 20 == 0:
            is_whole(stores[0])


def test_processes_that_add_the_same_files_at_once_make_one_store(tmp_path: Path, files: Files) -> None:
    children = []
    for paths in [(files.stripped, files.debug), (files.whole, files.symbols), (files.debug, files.whole)]:
        pid = os.fork()
        if pid == 0:
            status = 1
            try:
                result = Store(tmp_path / "store", jobs=1).add(*paths)
                status = 0 if all(each.outcome != "busy" for each in result) else 2
            finally:
                os._exit(status)
        children.append(pid)
    assert [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in children] == [0, 0, 0]
    with Store(tmp_path / "store") as store:
        is_whole(store)
        with store.file(files.build_id, "executable") as path:
            assert path is not None
            assert path.read_bytes() == files.whole.read_bytes()
        assert len(store.list()) == 1


def test_a_lease_makes_other_writers_busy(tmp_path: Path, files: Files) -> None:
    with Store(tmp_path / "store") as store:
        with Lease(store.objects, files.build_id, 0), open(files.whole, "rb") as file:
            assert store.put(files.build_id, "", file).outcome == "busy"
        with open(files.whole, "rb") as file:
            assert store.put(files.build_id, "", file).outcome == "added"


def test_the_lease_of_another_machine_expires_by_time_only(
    tmp_path: Path, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    location = Folder(tmp_path / "store")
    for ends, holds in ((time.time() + 30, True), (time.time() - leases.SKEW_SECONDS - 1, False)):
        expected = {"owner": "x", "host": "elsewhere", "pid": 1, "started": 1, "until": ends}
        location.put(names.lock_key(files.build_id), json.dumps(expected).encode())
        if holds:
            with pytest.raises(Busy):
                Lease(location, files.build_id, 0)
        else:
            with Lease(location, files.build_id, 0) as lease:
                assert lease.taken_over


def test_only_one_writer_takes_over_an_expired_lease(tmp_path: Path, files: Files) -> None:
    location = Folder(tmp_path / "store")
    for _ in range(20):
        location.put(names.lock_key(files.build_id), b'{"host": "elsewhere", "until": 0}')
        gate = threading.Barrier(8)
        taken: list[Lease] = []

        def take(gate: threading.Barrier = gate, taken: list[Lease] = taken) -> None:
            gate.wait()
            with suppress(Busy):
                taken.append(Lease(location, files.build_id, 0))

        threads = [threading.Thread(target=take) for _ in range(8)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(taken) == 1
        taken[0].release()


def test_a_writer_that_lost_its_lease_does_not_write(
    tmp_path: Path, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An owner that slept past the end of its lease does not write, and does not release the lease of its successor."""
    location = Folder(tmp_path / "store")
    lease = Lease(location, files.build_id, 0)
    lease._end = time.monotonic() + leases.MARGIN_SECONDS / 2
    with pytest.raises(Busy, match="expired before its files were written"):
        lease.check()
    lease.release()
    assert location.head(names.lock_key(files.build_id)) is not None


def test_a_lease_is_renewed_while_its_owner_works(
    tmp_path: Path, files: Files, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(leases, "RENEW_SECONDS", 0.01)
    monkeypatch.setattr(leases, "_renewer", leases._Renewer())
    location = Folder(tmp_path / "store")
    with Lease(location, files.build_id, 0) as lease:
        before = location.head(names.lock_key(files.build_id))
        lease.keep()
        assert until(lambda: location.head(names.lock_key(files.build_id)) != before)
        lease.check()
    assert location.head(names.lock_key(files.build_id)) is None


def test_a_full_disk_leaves_the_store_as_it_was(tmp_path: Path, files: Files) -> None:
    """The disk is full at each write in turn: the error is reported, and the previous files answer."""
    count = steps(tmp_path, files, [files.symbols], files.whole)

    def full(number: int, now: int) -> None:
        if now == number:
            raise OSError(28, "No space left on device")

    for number in range(0, count, 2):
        folder = tmp_path / str(number)
        with Store(folder) as store:
            store.add(files.symbols)
        location = Watched(Folder(folder), lambda now, number=number: full(number, now))  # type: ignore[misc]
        with Store(location, jobs=1) as store:
            try:
                store.add(files.whole)
            except OSError as error:
                assert str(folder) in (error.filename or ""), error  # noqa: PT017
        with Store(folder) as store:
            with store.open(files.build_id) as binary:
                assert binary.lookup(files.vaddr)
            store.add(files.whole)
            is_whole(store)
            with store.file(files.build_id, "executable") as path:
                assert path is not None
                assert path.read_bytes() == files.whole.read_bytes()


@pytest.mark.parametrize("until", ["NaN", "-1", "-1e999", "true", '"soon"', "9" * 400, "null"])
def test_a_lease_with_an_invalid_end_expires(until: str) -> None:
    from whence.store.leases import facts_of, is_over

    facts = facts_of(b'{"until": %s}' % until.encode())
    assert not is_over(facts, time.time())
    assert is_over(facts, time.time() - 1000)
