"""The symbolizer: an answer or a reason for each address, independent of the others."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path

import pytest

from tests.forge.proc import Line, process
from tests.helpers.fakes import CODE_VADDR, ID, OTHER, FakeLocator, mapped, only, program
from whence._base.model import Frame, Source
from whence.objects.elf import ElfFile
from whence.producers import Producers
from whence.symbolize import Reason, Symbolized, Symbolizer, internal_error


@pytest.fixture
def locator() -> FakeLocator:
    return FakeLocator()


def test_a_runtime_address_becomes_a_vaddr_of_its_file_and_frames(tmp_path: Path, locator: FakeLocator) -> None:
    path = program(tmp_path / "app")
    process(tmp_path, 7, [mapped(path)])
    with Symbolizer(proc_root=tmp_path, locator=locator) as symbolizer:
        answer = only(symbolizer, 7, 0x7000_0010)
    assert answer.frames == (Frame("app@0x401010"),)
    assert (answer.file_offset, answer.vaddr, answer.reason) == (0x1010, 0x401010, None)
    assert answer.mapping is not None
    assert answer.mapping.build_id == ID
    assert answer


def test_a_return_address_is_looked_up_one_byte_before(tmp_path: Path, locator: FakeLocator) -> None:
    process(tmp_path, 7, [mapped(program(tmp_path / "app"))])
    with Symbolizer(proc_root=tmp_path, locator=locator) as symbolizer:
        first, last = symbolizer.symbolize(7, [0x7000_0011, 0x7000_1000], return_address=True)
    assert (first.address, first.vaddr, first.file_offset) == (0x7000_0011, 0x401011, 0x1011)
    assert first.frames == (Frame("app@0x401010"),)
    assert last.vaddr == 0x402000  # just after the mapping: the call was inside


def test_every_failure_is_a_reason_of_its_own_address(
    tmp_path: Path, locator: FakeLocator, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(internal_error, "reraise", False)
    good, broken, bug = (
        program(tmp_path / name, build_id) for name, build_id in (("app", ID), ("broken", ""), ("bug", ""))
    )
    script, gone, other = tmp_path / "script", program(tmp_path / "gone"), program(tmp_path / "other", OTHER)
    script.write_bytes(b"#!/bin/sh\n" * 1000)
    lines = [
        mapped(good, 0x1000_0000),
        Line(0x2000_0000, 0x2000_1000, str(good), 0x9000, of=good),
        mapped(broken, 0x3000_0000),
        mapped(bug, 0x3800_0000),
        mapped(script, 0x4000_0000),
        mapped(gone, 0x5000_0000),
        Line(0x6000_0000, 0x6000_1000),
        Line(0x6000_1000, 0x6000_2000, permissions="rw-p"),
        Line(0x6100_0000, 0x6100_1000, "[heap]", permissions="rwxp"),
        mapped(other, 0x7000_0000),
    ]
    process(tmp_path, 7, lines)
    gone.unlink()
    locator.build_ids[str(other)] = ID
    expected = {
        (7, 0x1000_0000): None,
        (7, 0x1000_0001): Reason.NOT_IN_ARCHIVE,
        (7, 0x1000_0FF0): Reason.BROKEN_FILE,
        (7, 0x1000_0FE0): Reason.INTERNAL_ERROR,
        (7, 0x1000_0FF2): None,
        (7, 0x2000_0000): Reason.OUTSIDE_SEGMENTS,
        (7, 0x3000_0000): Reason.BROKEN_FILE,
        (7, 0x3800_0000): Reason.INTERNAL_ERROR,
        (7, 0x4000_0000): Reason.NOT_ELF,
        (7, 0x5000_0000): Reason.FILE_GONE,
        (7, 0x6000_0000): Reason.NOT_FILE_BACKED,
        (7, 0x6000_1000): Reason.NOT_EXECUTABLE,
        (7, 0x6100_0000): Reason.NOT_FILE_BACKED,
        (7, 0x7000_0000): Reason.BUILD_ID_MISMATCH,
        (7, 0x10): Reason.UNMAPPED,
        (7, -1): Reason.UNMAPPED,
        (7, 1 << 64): Reason.UNMAPPED,
        (8, 0x10): Reason.NO_SUCH_PROCESS,
    }
    with Symbolizer(proc_root=tmp_path, locator=locator) as symbolizer:
        answers = symbolizer.symbolize_many(expected)
        assert {key: answer.reason for key, answer in zip(expected, answers, strict=True)} == expected
        assert all(bool(answer.frames) == (answer.reason is None) for answer in answers)
        assert [answer.address for answer in answers] == [address for _, address in expected]
        assert symbolizer.symbolize_many(reversed(list(expected))) == answers[::-1]
        assert symbolizer.symbolize_many([]) == []


def test_an_internal_error_is_logged_once_with_its_traceback_and_the_batch_continues(
    tmp_path: Path, locator: FakeLocator, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(internal_error, "reraise", False)
    process(tmp_path, 7, [mapped(program(tmp_path / "app"))])
    with Symbolizer(proc_root=tmp_path, locator=locator) as symbolizer:
        good, bug = symbolizer.symbolize(7, [0x7000_0010, 0x7000_0FE0])
    assert good.frames
    assert (bug.reason, bug.detail) == (Reason.INTERNAL_ERROR, "RuntimeError: a bug")
    assert [record.name for record in caplog.records] == ["whence"]
    assert "in lookup_many" in caplog.text
    assert "RuntimeError: a bug" in caplog.text


def test_an_internal_error_is_raised_in_tests(tmp_path: Path, locator: FakeLocator) -> None:
    process(tmp_path, 7, [mapped(program(tmp_path / "app"))])
    with Symbolizer(proc_root=tmp_path, locator=locator) as symbolizer, pytest.raises(RuntimeError, match="a bug"):
        symbolizer.symbolize(7, [0x7000_0010, 0x7000_0FE0])


def test_each_reason_has_a_word_a_sentence_and_a_remedy() -> None:
    for reason in Reason:
        assert reason.word == reason.word.lower()
        assert reason.sentence[0].islower()
        assert not reason.sentence.endswith(".")
        assert len(reason.remedy) > 10
    assert len({reason.sentence for reason in Reason}) == len(Reason)


def test_a_stripped_binary_says_so(tmp_path: Path, locator: FakeLocator) -> None:
    process(tmp_path, 7, [mapped(program(tmp_path / "app"))])
    with Symbolizer(proc_root=tmp_path, locator=locator) as symbolizer:
        assert only(symbolizer, 7, 0x7000_0001).reason is Reason.NOT_IN_ARCHIVE
        with ElfFile.open(locator.opened[0].path) as elf:
            locator.opened[0].producers = Producers(elf)
            assert only(symbolizer, 7, 0x7000_0001).reason is Reason.NO_DEBUG_FILE


def test_a_failure_is_not_remembered(tmp_path: Path, locator: FakeLocator) -> None:
    with Symbolizer(proc_root=tmp_path, locator=locator) as symbolizer:
        assert only(symbolizer, 7, 0x7000_0000).reason is Reason.NO_SUCH_PROCESS
        path = program(tmp_path / "broken", "")
        process(tmp_path, 7, [mapped(path)])
        assert only(symbolizer, 7, 0x7000_0000).reason is Reason.BROKEN_FILE
        path.rename(tmp_path / "whole")
        process(tmp_path, 7, [mapped(tmp_path / "whole")])
        symbolizer.resolver.invalidate(7)
        assert only(symbolizer, 7, 0x7000_0000).frames


def test_one_file_in_many_processes_is_opened_once(tmp_path: Path, locator: FakeLocator) -> None:
    path = program(tmp_path / "app")
    for pid in range(5):
        process(tmp_path, pid, [mapped(path, 0x1000_0000 * (pid + 1))])
    with Symbolizer(proc_root=tmp_path, locator=locator) as symbolizer:
        answers = symbolizer.symbolize_many((pid, 0x1000_0000 * (pid + 1) + 2 * pid) for pid in range(5))
        assert [answer.frames[0].function for answer in answers] == [
            f"app@{CODE_VADDR + 2 * pid:#x}" for pid in range(5)
        ]
        assert len(locator.opened) == 1
    assert locator.opened[0].closed


def test_files_held_open_are_bounded_and_the_oldest_goes(tmp_path: Path, locator: FakeLocator) -> None:
    paths = [program(tmp_path / f"app{n}", f"{n:02x}" * 20) for n in range(6)]
    process(tmp_path, 7, [mapped(path, 0x1000_0000 * (n + 1)) for n, path in enumerate(paths)])
    with Symbolizer(proc_root=tmp_path, locator=locator, max_files=3) as symbolizer:
        for n in range(6):
            assert only(symbolizer, 7, 0x1000_0000 * (n + 1))
            assert only(symbolizer, 7, 0x1000_0000)  # used each time: it stays
        assert len(symbolizer.binaries) == 3
        assert sorted(Path(fake.path).name for fake in locator.opened if not fake.closed) == ["app0", "app4", "app5"]
    assert all(fake.closed for fake in locator.opened)


def test_bytes_of_tables_are_bounded(tmp_path: Path) -> None:
    locator = FakeLocator(memory=100)
    paths = [program(tmp_path / f"app{n}", f"{n:02x}" * 20) for n in range(6)]
    process(tmp_path, 7, [mapped(path, 0x1000_0000 * (n + 1)) for n, path in enumerate(paths)])
    with Symbolizer(proc_root=tmp_path, locator=locator, max_bytes=250) as symbolizer:
        assert all(symbolizer.symbolize(7, [0x1000_0000 * (n + 1) for n in range(6)]))
        assert symbolizer.binaries.memory == 200


def test_many_threads_get_right_answers_while_binaries_come_and_go(tmp_path: Path, locator: FakeLocator) -> None:
    paths = [program(tmp_path / f"app{n}", f"{n:02x}" * 20) for n in range(6)]
    process(tmp_path, 7, [mapped(path, 0x1000_0000 * (n + 1)) for n, path in enumerate(paths)])
    wrong: list[Symbolized] = []
    with Symbolizer(proc_root=tmp_path, locator=locator, max_files=2) as symbolizer:

        def ask(seed: int) -> None:
            for turn in range(100):
                n = (seed * 5 + turn) % 6
                answer = only(symbolizer, 7, 0x1000_0000 * (n + 1) + 2 * turn)
                if not answer or answer.frames[0].function != f"app{n}@{CODE_VADDR + 2 * turn:#x}":
                    wrong.append(answer)

        workers = [threading.Thread(target=ask, args=(seed,)) for seed in range(6)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
    assert wrong == []
    assert all(fake.closed for fake in locator.opened)


def test_generated_code_is_named_by_the_processs_perf_map(tmp_path: Path, locator: FakeLocator) -> None:
    directory = process(tmp_path, 7, [Line(0x5000_0000, 0x5000_1000, permissions="rwxp")])
    (directory / "status").write_text(f"Name:\tx\nUid:\t{os.getuid()}\t{os.getuid()}\t0\t0\nNSpid:\t7\t2\n")
    (directory / "root" / "tmp").mkdir(parents=True)
    perf_map = directory / "root" / "tmp" / "perf-2.map"
    with Symbolizer(proc_root=tmp_path, locator=locator) as symbolizer:
        assert only(symbolizer, 7, 0x5000_0010).reason is Reason.NOT_FILE_BACKED
        perf_map.write_text("50000000 20 LazyCompile:~main app.js:1\n")
        assert only(symbolizer, 7, 0x5000_0010).frames == (Frame("LazyCompile:~main app.js:1", source=Source.PERFMAP),)
        assert only(symbolizer, 7, 0x5000_0020).reason is Reason.NOT_FILE_BACKED
        perf_map.write_text("50000000 20 LazyCompile:~main app.js:1\n50000020 10 later\n")
        assert only(symbolizer, 7, 0x5000_0020).frames[0].function == "later"
        perf_map.unlink()
        perf_map.symlink_to("/etc/passwd")
        assert only(symbolizer, 7, 0x5000_0020).reason is Reason.NOT_FILE_BACKED


def test_kernel_addresses_are_named_by_kallsyms_where_it_shows_them(tmp_path: Path, locator: FakeLocator) -> None:
    symbols = tmp_path / "kallsyms"
    symbols.write_text("ffffffff81000000 T one\nffffffff81000100 d data\nffffffff81000200 t two\t[mod]\n")
    with Symbolizer(proc_root=tmp_path, locator=locator, kallsyms=str(symbols)) as symbolizer:
        answers = symbolizer.symbolize(7, [0xFFFFFFFF81000010, 0xFFFFFFFF81000210, 0xFFFFFFFF80000000])
        assert [a.frames[0].function if a.frames else a.reason for a in answers] == [
            "one",
            "two [mod]",
            Reason.UNMAPPED,
        ]
        assert answers[0].frames[0].source == "kallsyms"
    symbols.write_text("0000000000000000 T one\n")
    for path in (symbols, tmp_path / "missing"):
        with Symbolizer(proc_root=tmp_path, locator=locator, kallsyms=str(path)) as symbolizer:
            assert only(symbolizer, 7, 0xFFFFFFFF81000010).reason is Reason.KERNEL_HIDDEN


def test_the_documented_reasons_are_the_reasons() -> None:
    page = (Path(__file__).parents[2] / "docs" / "processes.md").read_text()
    rows = [line.strip("| ").split(" | ") for line in page.splitlines() if line.startswith("| ") and " | " in line]
    assert rows[1:] == [[reason.word, reason.sentence] for reason in Reason]


def test_a_pid_that_is_used_again_answers_for_the_new_process_at_once(tmp_path: Path, locator: FakeLocator) -> None:
    process(tmp_path, 7, [mapped(program(tmp_path / "old"))], start_time=100)
    with Symbolizer(proc_root=tmp_path, locator=locator) as symbolizer:
        assert only(symbolizer, 7, 0x7000_0010).frames == (Frame("old@0x401010"),)
        process(tmp_path, 7, [mapped(program(tmp_path / "new", OTHER))], start_time=101)
        assert only(symbolizer, 7, 0x7000_0010).frames == (Frame("new@0x401010"),)
        shutil.rmtree(tmp_path / "7")
        assert only(symbolizer, 7, 0x7000_0010).reason is Reason.NO_SUCH_PROCESS
