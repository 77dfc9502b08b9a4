"""Ingestion of many files by child processes, some of which die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.live import until
from tests.helpers.stores import Files
from whence._base import child
from whence.store import Store, ingest, intake
from whence.store.verify import verify

COUNT = 12
MORE = 100  # enough to be in the middle of them when the first is done


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(tmp_path_factory.mktemp("files"))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory, files: Files) -> Path:
    """Return programs with different build-ids, one of them with its debug file."""
    made = tmp_path_factory.mktemp("many")
    full, build_id = files.whole.read_bytes(), bytes.fromhex(files.build_id)
    for number in range(COUNT):
        (made / f"{number:02}").write_bytes(full.replace(build_id, bytes([number]) * len(build_id)))
    (made / "program.debug").write_bytes(files.debug.read_bytes())
    (made / "program").write_bytes(files.stripped.read_bytes())
    return made


@pytest.fixture(autouse=True)
def _many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intake, "MANY", 2)


def dying_of(name: str) -> str:
    """Return the code of a process that kills itself for a file with this name."""
    return (
        "import sys; sys.path[:] = sys.argv[1:]; import os; from whence.store import ingest\n"
        "whole = ingest.Ingester.ingest\n"
        f"def one(self, path, *rest):\n    if path.endswith({name!r}): os.kill(os.getpid(), 9)\n"
        "    return whole(self, path, *rest)\n"
        "ingest.Ingester.ingest = one; ingest.main()"
    )


def is_whole(store: Store) -> None:
    assert not [problem for problem in verify(store) if problem.build_id]


def test_processes_make_the_store_that_threads_make(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    started: list[int] = []
    start = subprocess.Popen

    def counted(*words: object, **named: object) -> subprocess.Popen[bytes]:
        process: subprocess.Popen[bytes] = start(*words, **named)  # type: ignore[call-overload]
        started.append(process.pid)
        return process

    monkeypatch.setattr(child.subprocess, "Popen", counted)  # type: ignore[attr-defined]
    with Store(tmp_path / "one", jobs=1) as store:
        alone = store.add(folder)
        told = {row.build_id: row._replace(revision=0, added=0) for row in store.list()}
    assert not started
    with Store(tmp_path / "two", jobs=2) as store:
        together = store.add(folder)
        assert {row.build_id: row._replace(revision=0, added=0) for row in store.list()} == told
        is_whole(store)
        assert {each.outcome for each in store.add(folder)} == {"same"}
    assert len(told) == COUNT + 1
    assert len(started) == 2 * 2 * intake.PROCESSES_PER_CORE
    assert sorted(map(str, alone)) == sorted(map(str, together))
    assert not list((tmp_path / "two" / "locks").glob("*"))
    assert not list((tmp_path / "two" / ".whence-incoming").iterdir())


def test_a_file_that_kills_its_process_is_refused_and_the_rest_is_kept(
    tmp_path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ingest, "CODE", dying_of("03"))
    with Store(tmp_path / "store", jobs=2) as store:
        result = {os.path.basename(each.origin): each for each in store.add(folder)}
        refused = [name for name, each in result.items() if each.outcome == "refused"]
        assert refused == ["03"]
        assert result["03"].why == "the process that read the file ended with signal 9"
        assert len(store.list()) == COUNT
        monkeypatch.setattr(ingest, "CODE", ingest.CODE.replace("endswith('03')", "endswith('nothing')"))
        store.add(folder)
        assert len(store.list()) == COUNT + 1
        is_whole(store)


def test_the_store_s_own_error_ends_the_call(tmp_path: Path, folder: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / "buildid").write_text("a file where a folder has to be")
    with Store(tmp_path / "store", jobs=2) as store, pytest.raises(OSError, match=r"(Not a directory|File exists)"):
        store.add(folder)


def children_of(pid: int) -> list[int]:
    lists = [path.read_text() for path in Path(f"/proc/{pid}/task").glob("*/children")]
    return [int(word) for text in lists for word in text.split()]


def is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except FileNotFoundError:
        return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="the children are read from Linux's /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGKILL])
def test_child_processes_end_with_their_parent(
    tmp_path: Path, folder: Path, files: Files, number: signal.Signals
) -> None:
    """After Ctrl-C and kill -9 no process is left, the store is valid, and the next call completes it."""
    many = tmp_path / "in"
    many.mkdir()
    full, build_id = files.whole.read_bytes(), bytes.fromhex(files.build_id)
    for each in range(MORE):
        (many / str(each)).write_bytes(full.replace(build_id, each.to_bytes(2, "big") * (len(build_id) // 2)))
    for number_of_try in range(20):  # until the signal arrives before the call ends
        location = tmp_path / f"store{number_of_try}"
        command = [sys.executable, "-m", "whence.cli", "store", "add", str(location), str(many)]
        with subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env={**os.environ, "PYTHONUNBUFFERED": "1"}
        ) as process:
            assert process.stdout is not None
            assert process.stdout.readline().startswith(b"added")
            processes = children_of(process.pid)
            process.send_signal(number)
            process.communicate(timeout=60)
        assert until(lambda pids=processes: not any(map(is_running, pids)))  # type: ignore[misc]
        if process.returncode and (processes or len(os.sched_getaffinity(0)) == 1):
            break
    assert process.returncode == {signal.SIGINT: 130, signal.SIGKILL: -signal.SIGKILL}[number]
    with Store(location, jobs=2) as store:
        store.add(many)
        assert len(store.list()) == MORE
        assert not list((location / "locks").glob("*"))
        is_whole(store)
