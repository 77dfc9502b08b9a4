"""Objects that are documented as safe from several threads, shared by eight that ask different questions."""

from __future__ import annotations

import os
import subprocess
import sys
import sysconfig
import threading
from collections.abc import Callable
from itertools import cycle
from pathlib import Path

import pytest

import whence
from tests.helpers.programs import compiled
from tests.helpers.stores import Files
from tools.try_wheels import kernels
from whence import lidia
from whence._base.errors import WhenceError
from whence.demangle import demangle

THREADS = 8
FUNCTIONS = 4_000  # more than the caches of an archive have slots for at first: they grow several times
STEP = 0x20


def together(work: Callable[[int], None], threads: int = THREADS) -> None:
    """Call `work` with the numbers of the threads, at once; raise the first exception of any."""
    start, failed = threading.Barrier(threads), list[BaseException]()

    def run(number: int) -> None:
        try:
            start.wait()
            work(number)
        except BaseException as error:
            failed.append(error)

    running = [threading.Thread(target=run, args=(number,)) for number in range(threads)]
    for thread in running:
        thread.start()
    for thread in running:
        thread.join()
    if failed:
        raise failed[0]


def shuffled(number: int) -> list[int]:
    """Return the indexes of all functions in an order of the thread's own."""
    stride = (7, 11, 13, 17, 19, 23, 29, 31)[number]  # none divides FUNCTIONS
    return [(number + stride * index) % FUNCTIONS for index in range(FUNCTIONS)]


@pytest.fixture(scope="module")
def archive() -> bytes:
    """Functions with an inlined call each, in files of their own."""
    builder = lidia.Builder(build_id="ab" * 20)
    for index in range(FUNCTIONS):
        vaddr = STEP * (1 + index)
        builder.add(vaddr=vaddr, length=STEP, function=f"outer{index}", file=f"o{index}.c", line_table=[(0, index)])
        builder.add(
            vaddr=vaddr + 8, length=8, function=f"_Z5innerILi{index}EEvv", file="inner.h", depth=1,
            line_table=[(0, 7)], call_file=f"o{index}.c", call_line=index,
        )  # fmt: skip
    return builder.to_bytes()


def check_frames(frames: whence.Frames, index: int, inner: str) -> None:
    assert [(frame.function, frame.file, frame.line) for frame in frames] == [
        (inner, "inner.h", 7),
        (f"outer{index}", f"o{index}.c", index),
    ]


def test_an_archive_names_addresses_of_several_threads(archive: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.lidia"
    path.write_bytes(archive)
    with lidia.open(path) as mapped, lidia.from_bytes(archive, demangle=True) as readable:

        def work(number: int) -> None:
            indexes = shuffled(number)
            vaddrs = [STEP * (1 + index) + 8 for index in indexes]
            for index, vaddr in zip(indexes, vaddrs):
                check_frames(mapped.lookup(vaddr), index, f"_Z5innerILi{index}EEvv")
                check_frames(readable.lookup(vaddr), index, f"void inner<{index}>()")
            for index, frames in zip(indexes[:500], mapped.lookup_many(vaddrs)):
                check_frames(frames, index, f"_Z5innerILi{index}EEvv")
            for index in indexes[:200]:
                assert mapped[2 * index].function == f"outer{index}"
                assert readable[2 * index + 1].function == f"void inner<{index}>()"

        together(work)
        assert mapped.verify() == []
    for _ in range(6):  # with caches that are empty and grow
        with lidia.from_bytes(archive) as table:

            def again(number: int, table: lidia.Table = table) -> None:
                for index in shuffled(number)[:1_500]:
                    check_frames(table.lookup(STEP * (1 + index) + 8), index, f"_Z5innerILi{index}EEvv")

            together(again)


def test_an_archive_is_opened_and_closed_while_others_are_read(archive: bytes, tmp_path: Path) -> None:
    def work(number: int) -> None:
        path = tmp_path / f"{number}.lidia"
        path.write_bytes(archive)
        for index in shuffled(number)[:60]:
            with lidia.open(path) as table:
                check_frames(table.lookup(STEP * (1 + index) + 8), index, f"_Z5innerILi{index}EEvv")

    together(work)


def test_lookups_end_with_an_error_when_another_thread_closes_the_archive(archive: bytes) -> None:
    for _ in range(20):
        table = lidia.from_bytes(archive)

        def work(number: int, table: lidia.Table = table) -> None:
            if number == 0:
                table.close()
                return
            with pytest.raises(ValueError, match="the archive is closed"):  # noqa: PT012
                for index in cycle(shuffled(number)):
                    check_frames(table.lookup(STEP * (1 + index) + 8), index, f"_Z5innerILi{index}EEvv")

        together(work)


@pytest.mark.skipif(sys.platform == "win32", reason="a mapped file can't be truncated on Windows")
def test_a_file_that_is_truncated_is_an_error_in_its_thread_alone(archive: bytes, tmp_path: Path) -> None:
    def work(number: int) -> None:
        path = tmp_path / f"{number}.lidia"
        for index in shuffled(number)[:25]:
            path.write_bytes(archive)
            with lidia.open(path) as table:
                if number % 2:
                    os.truncate(path, len(archive) // 16)
                    with pytest.raises(WhenceError, match="truncated"):
                        table.lookup(STEP * (1 + index) + 8)
                else:
                    check_frames(table.lookup(STEP * (1 + index) + 8), index, f"_Z5innerILi{index}EEvv")

    together(work)


def test_a_binary_answers_several_threads_and_one_may_close_it(tmp_path: Path) -> None:
    program = compiled()
    with whence.open(program) as binary:
        functions = [part for part in binary.table() if not part.depth]
    expected = {part.vaddr: part.function for part in functions}
    assert len(expected) > 3
    for closed in (False, True):
        binary = whence.open(program)

        def work(number: int, binary: whence.Binary = binary, closed: bool = closed) -> None:
            vaddrs = sorted(expected, key=lambda vaddr: hash((vaddr, number)))
            try:
                for turn in range(20):
                    for vaddr in vaddrs:
                        assert binary.lookup(vaddr)[-1].function == expected[vaddr]
                    assert binary.memory > 0
                    if turn == 10 and number == 7:
                        assert len(binary.table()) >= len(expected)
                    if closed and turn == 5 and number == 0:
                        binary.close()
            except ValueError as error:
                if not closed or "closed" not in str(error):
                    raise

        together(work)
        binary.close()


def test_a_symbolizer_names_its_own_process_while_binaries_are_evicted_and_closed() -> None:
    """It may keep one file open of several, and one thread closes all of them again and again."""
    process = os.getpid()
    with whence.Symbolizer(max_files=1) as symbolizer:
        with whence.Process(process) as view:
            starts = [mapping.start for mapping in view.mappings() if mapping.kind.has_file]
        addresses = [start + 0x100 for start in starts][:12]
        expected = [(answer.frames, answer.reason) for answer in symbolizer.symbolize(process, addresses)]

        def work(number: int) -> None:
            for turn in range(4):
                if number == 0:
                    symbolizer.close()
                answers = symbolizer.symbolize(process, addresses[number:] + addresses[:number])
                offset = len(addresses) - number
                assert [(answer.frames, answer.reason) for answer in answers[offset:] + answers[:offset]] == expected, (
                    turn
                )

        together(work)


def test_threads_that_add_open_and_list_share_a_store(archive: bytes, tmp_path: Path) -> None:
    """All add the same program, and each records a missing build-id of its own."""
    files = Files(tmp_path)
    with whence.Store(tmp_path / "store") as store:

        def work(number: int) -> None:
            assert not [added for added in store.add(files.whole) if added.outcome in ("refused", "error")]
            with store.open(files.build_id) as binary:
                assert binary.lookup(files.vaddr)[0].function == "sum"
            assert files.build_id in {row.build_id for row in store.list()}
            store.missed(f"{number:02x}" * 20, f"thread {number}")

        together(work)
        result = store.find(files.build_id)
        assert result is not None
        assert {missed.build_id for missed in store.wanted()} == {f"{number:02x}" * 20 for number in range(THREADS)}


def test_names_are_demangled_in_several_threads() -> None:
    pytest.importorskip("pydemumble", reason="pydemumble has no wheel for this Python")

    def work(number: int) -> None:
        for index in shuffled(number)[:1_000]:
            assert demangle(f"_Z1fILi{index}EEvv") == f"void f<{index}>()"

    together(work)


def test_a_namer_names_batches_of_several_threads(archive: bytes, tmp_path: Path) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    (tmp_path / f"{'ab' * 20}.lidia").write_bytes(archive)
    from whence.columns import Namer

    with Namer(archive_dirs=[tmp_path], leaf=True) as namer:

        def work(number: int) -> None:
            indexes = shuffled(number)[:300]
            vaddrs = [STEP * (1 + index) for index in indexes]
            batch = pyarrow.record_batch({"build_id": ["ab" * 20] * len(vaddrs), "address": vaddrs})
            named = namer(batch)
            assert named.column("function").to_pylist() == [f"outer{index}" for index in indexes]

        together(work)


@pytest.mark.skipif(not hasattr(sys, "_is_gil_enabled"), reason="Python 3.12 and earlier have no free-threaded build")
def test_whence_leaves_the_global_lock_off() -> None:
    """A module that does not declare that it needs no lock would switch it on in a free-threaded Python."""
    free_threaded = bool(sysconfig.get_config_var("Py_GIL_DISABLED"))
    lines = [*(f"import {name}" for name in kernels()), "import sys", "import whence.lidia as lidia"]
    lines += ["lidia.from_bytes(lidia.Builder().to_bytes(), crc=True)", "print(sys._is_gil_enabled())"]
    script = "\n".join(lines)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHON_GIL"}
    command = [sys.executable, "-W", "error", "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.strip() == str(not free_threaded)
