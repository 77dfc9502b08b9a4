"""Files that are cut or overwritten while whence reads them: an error that says so, never a death or a wrong answer."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
from array import array
from contextlib import ExitStack
from pathlib import Path

import pytest

import whence
from whence import lidia
from whence._base.errors import ElfError, FormatError, LidiaError, TraceError
from whence.archive.create import create_from_elf
from whence.lidia.render import render_many
from whence.objects.elf import ElfFile
from whence.procmap import AddressMapper
from whence.symbolize import Symbolizer

CHANGED = "while it was read"


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    builder = lidia.Builder()
    for number in range(20_000):
        builder.add(lidia.Range(vaddr=0x1000 + 16 * number, length=16, function=f"function_{number}", file="a.c"))
    path = tmp_path / "a.lidia"
    path.write_bytes(builder.to_bytes())
    return path


@pytest.fixture
def library(tmp_path: Path) -> Path:
    path = tmp_path / "liba.so"
    shutil.copy(sys.executable, path)
    return path


def overwrite(path: Path, data: bytes) -> None:
    """As cp does it: cut, then written."""
    with path.open("wb") as file:
        file.write(data)


def test_an_archive_that_was_truncated_is_an_error_for_every_question(archive: Path) -> None:
    with lidia.open(archive) as table:
        answers = table.lookup_many([0x1000 + 16 * number for number in range(20_000)])
        os.truncate(archive, 100)
        for ask in (
            lambda: table.lookup(0x1000 + 16 * 12_345),
            lambda: table.lookup_many([0x1000, 0x20000]),
            lambda: answers.function,
            lambda: answers[19_999],
            lambda: list(answers),
            lambda: table[15_000],
            lambda: list(table),
            lambda: table.info(),
            lambda: table.verify(),
            lambda: table.check_crc(),
            lambda: render_many(table, b"0x1000\n"),
        ):
            with pytest.raises(LidiaError, match=CHANGED) as caught:
                ask()
            assert "truncated" in str(caught.value)
            assert str(caught.value) == f"{archive}: the file was truncated while it was read"
            assert caught.value.code == "changed"


def test_an_archive_that_another_one_was_copied_over_is_an_error_not_its_mixture(archive: Path) -> None:
    builder = lidia.Builder()
    for number in range(30_000):
        builder.add(lidia.Range(vaddr=0x1000 + 16 * number, length=16, function=f"other_{number}"))
    with lidia.open(archive) as table:
        assert table.lookup(0x1000)[0].function == "function_0"
        overwrite(archive, builder.to_bytes())
        with pytest.raises(LidiaError, match="overwritten"):
            table.lookup(0x1000 + 16 * 12_345)
    with lidia.open(archive) as table:
        assert table.lookup(0x1000)[0].function == "other_0"


def test_a_copy_of_an_archive_answers_whatever_happens_to_the_file(archive: Path) -> None:
    with lidia.open(archive, copy=True) as table:
        overwrite(archive, b"something else")
        assert table.lookup(0x1010)[0].function == "function_1"
        assert table.lookup_many([0x1020])[0][0].function == "function_2"
        assert table.verify() == []


def test_an_archive_that_was_asked_much_still_notices_changes_of_its_file(archive: Path) -> None:
    with lidia.open(archive) as table:
        for number in range(20_000):
            assert table.lookup(0x1000 + 16 * number)[0].function == f"function_{number}"
        overwrite(archive, b"something else")
        with pytest.raises(LidiaError, match="truncated"):
            table.lookup(0x1000)


def test_a_replaced_archive_still_answers(archive: Path, tmp_path: Path) -> None:
    new = tmp_path / "new"
    new.write_bytes(b"something else")
    with lidia.open(archive) as table:
        new.replace(archive)
        assert table.lookup(0x1010)[0].function == "function_1"


@pytest.mark.parametrize("how", ["cut", "copied over"])
def test_an_elf_file_that_is_written_to_is_an_error_for_every_reader(library: Path, how: str) -> None:
    binary = whence.open(library)
    with ExitStack() as stack:
        stack.enter_context(pytest.raises(ElfError, match=CHANGED))
        elf = stack.enter_context(ElfFile.open(library))
        content = elf.content(".text")
        if how == "cut":
            os.truncate(library, 5000)
        else:
            overwrite(library, Path("/bin/sh").read_bytes())
        for ask in (
            lambda: elf.segments,
            lambda: elf.symbols(".dynsym"),
            lambda: elf.notes(),
            lambda: elf.build_id,
            lambda: elf.content(".dynstr"),
            lambda: binary.lookup(0x401000),
            lambda: binary.lookup_many([0x401000]),
            lambda: binary.table(),
        ):
            with pytest.raises(FormatError, match=CHANGED):
                ask()
        bytes(content)  # reading views ends; leaving the block is the check


def test_an_archive_of_a_file_that_is_cut_meanwhile_does_not_take_its_name(library: Path, tmp_path: Path) -> None:
    out = tmp_path / "out.lidia"
    out.write_bytes(b"before")
    with ExitStack() as stack:
        stack.enter_context(pytest.raises(ElfError, match=CHANGED))
        elf = stack.enter_context(ElfFile.open(library))
        os.truncate(library, 9000)
        create_from_elf(elf, str(out))
    assert out.read_bytes() == b"before"


def test_a_trace_that_is_cut_while_it_is_salvaged_is_an_error(tmp_path: Path) -> None:
    from whence._base.mapped import MappedFile
    from whence.gotrace.salvaging import generations

    path = tmp_path / "a.trace"
    path.write_bytes(b"go 1.23 trace\x00\x00\x00" + bytes(100_000))
    with path.open("rb") as file:
        mapped = MappedFile(file.fileno(), str(path), TraceError)
    os.truncate(path, 16)
    generations(mapped.view)
    with pytest.raises(TraceError, match=CHANGED):
        mapped.check()


LOADS = "import ctypes, sys, time; l = ctypes.CDLL(sys.argv[1]); print(ctypes.cast(l.answer, ctypes.c_void_p).value, flush=True); sys.stdin.read()"  # noqa: E501


def shared(folder: Path, name: str, body: str) -> Path:
    source, path = folder / f"{name}.c", folder / f"{name}.so"
    source.write_text(body)
    subprocess.run(["gcc", "-g", "-shared", "-fPIC", "-o", path, source], check=True)
    return path


@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc on this machine")
def test_a_symbolizer_opens_a_library_again_that_was_copied_over(tmp_path: Path) -> None:
    old = shared(tmp_path, "old", "int answer(void) { return 42; }\n")
    new = shared(tmp_path, "new", "int before(void) { return 1; }\nint after(void) { return 2; }\n")
    with (
        subprocess.Popen(
            [sys.executable, "-c", LOADS, str(old)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as child,
        Symbolizer() as symbolizer,
    ):
        assert child.stdout is not None
        address = int(child.stdout.readline())
        assert symbolizer.symbolize(child.pid, [address])[0].frames[0].function == "answer"
        overwrite(old, new.read_bytes())
        answer = symbolizer.symbolize(child.pid, [address])[0]
        assert [frame.function for frame in answer.frames] == ["before"]  # where `answer` was
        overwrite(old, b"not ELF at all")
        assert symbolizer.symbolize(child.pid, [address])[0].reason is not None
        child.kill()


def test_files_cut_and_restored_all_the_time_kill_no_reader(library: Path, tmp_path: Path) -> None:
    data = library.read_bytes()
    with ElfFile.open(library) as elf, whence.open(library, dwarf=False) as reference:
        symbols = [*elf.symbols(".symtab").value, *elf.symbols(".dynsym").value]  # a distribution's Python is stripped
        asked = [value for value in symbols if reference.lookup(value)]
        right = [reference.lookup(vaddr) for vaddr in asked]
    assert right
    stop = threading.Event()

    def disturb() -> None:
        while not stop.is_set():
            os.truncate(library, 4096)
            overwrite(library, data)

    thread = threading.Thread(target=disturb)
    thread.start()
    try:
        for _ in range(60):
            try:
                AddressMapper(library)
                with whence.open(library, dwarf=False) as binary:
                    result = [binary.lookup(vaddr) for vaddr in asked]
            except (FormatError, OSError):
                continue
            if all(result):
                assert result == right
    finally:
        stop.set()
        thread.join()
    with whence.open(library, dwarf=False) as binary:  # whole again
        assert [binary.lookup(vaddr) for vaddr in asked] == right


def test_a_foreign_fault_is_passed_to_the_previous_handler(tmp_path: Path) -> None:
    script = """if True:
        import faulthandler, mmap, os, sys
        first, second, archive = sys.argv[1:4]
        order = sys.argv[4]
        if order == "before":
            faulthandler.enable()
        from whence import lidia
        table = lidia.open(archive)
        if order == "after":
            faulthandler.enable()
            again = lidia.open(archive)
        file = open(first, "r+b")
        mapping = mmap.mmap(file.fileno(), 0)
        os.truncate(first, 0)
        mapping[5000]
    """
    builder = lidia.Builder()
    builder.add(lidia.Range(vaddr=0x1000, length=16, function="f"))
    (tmp_path / "a.lidia").write_bytes(builder.to_bytes())
    for order, said in (("none", ""), ("before", "Fatal Python error: Bus error"), ("after", "Bus error")):
        (tmp_path / "first").write_bytes(bytes(10_000))
        paths = [str(tmp_path / name) for name in ("first", "second", "a.lidia")]
        done = subprocess.run([sys.executable, "-c", script, *paths, order], capture_output=True, text=True, timeout=60)
        assert done.returncode == -signal.SIGBUS, (order, done.stderr)
        assert said in done.stderr


def test_rows_of_mappings_that_are_gone_are_used_again_and_their_addresses_are_not_ours(archive: Path) -> None:
    tables = [lidia.open(archive) for _ in range(50)]
    for table in tables[::2]:
        table.close()
    again = [lidia.open(archive) for _ in range(25)]
    os.truncate(archive, 10)
    for table in (*tables[1::2], *again):
        with pytest.raises(LidiaError, match="truncated"):
            table.lookup(0x1000 + 16 * 9_999)


def test_views_keep_the_bytes_after_the_file_is_closed(library: Path) -> None:
    elf = ElfFile.open(library)
    content = elf.content(".dynstr")
    before = bytes(content)
    elf.close()
    assert bytes(content) == before
    assert array("B", content)
