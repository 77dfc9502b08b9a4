"""Core files: mappings, files by build-id, and threads; forged, and written by Linux and gdb."""

from __future__ import annotations

import json
import os
import re
import resource
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.forge.core import Mapped, core, status
from tests.forge.elf import Segment, build_id_note, forge, note
from tests.helpers.live import compiled, running
from tests.helpers.programs import UNTIL_ASLEEP
from tests.helpers.survive import survives
from whence._base.errors import MapsError
from whence._base.window import ByteOrder
from whence.archive.create import create
from whence.cli.main import main
from whence.dumps.core import NT_SIGINFO, read_core
from whence.dumps.process import CoreMappings, LocalPaths
from whence.objects.elf import ElfFile
from whence.objects.elf.kernels import constants
from whence.procmap.snapshot import SnapshotMappings

ID = "0123456789abcdef" * 2
CRASH = (
    """#include <pthread.h>
#include <unistd.h>
__attribute__((noinline)) static void boom(volatile int *p) { *p = 1; }
__attribute__((noinline)) static void *wait(void *x) { for (;;) pause(); return x; }
"""
    + UNTIL_ASLEEP
    + """
int main(void) { pthread_t t; pthread_create(&t, 0, wait, 0); until_asleep(1); boom((int *)8); return 0; }
"""
)


def head(bits: int = 64, order: ByteOrder = "little", build_id: str = ID) -> bytes:
    """Return the first page of a program whose code is at offset 0x1000, vaddr 0x401000."""
    segments = [Segment(constants.PT_LOAD, 5, file_offset=0x1000, vaddr=0x401000, file_size=0x1800, align=0x1000)]
    sections = []
    if build_id:
        sections = [build_id_note(build_id, order)]
        segments.append(Segment(constants.PT_NOTE, 4, of=".note.gnu.build-id", align=4))
    return forge(sections, segments, bits=bits, order=order, section_table=False).ljust(0x1000, b"\0")


def program(bits: int = 64, order: ByteOrder = "little", load: bool = True) -> list[Mapped]:
    name = "/opt/a b\n"
    return [
        Mapped(0x10000, 0x11000, name, 0, 4, head(bits, order)),
        Mapped(0x11000, 0x13000, name, 0x1000, 5, load=load),
        Mapped(0x20000, 0x21000, flags=5),
        Mapped(0x30000, 0x31000, flags=6),
    ]


def read(data: bytes) -> CoreMappings:
    return read_core(ElfFile.from_bytes(data))


@pytest.mark.parametrize(
    ("machine", "bits", "order"),
    [
        (constants.EM_X86_64, 64, "little"),
        (constants.EM_386, 32, "little"),
        (constants.EM_AARCH64, 64, "little"),
        (constants.EM_AARCH64, 64, "big"),
        (constants.EM_ARM, 32, "little"),
    ],
)
def test_threads_mappings_and_files_are_read_on_each_machine(machine: int, bits: int, order: ByteOrder) -> None:
    threads = [
        status(tid, pc, sp, 11, bits=bits, order=order, machine=machine)
        for tid, pc, sp in ((78, 0x11234, 0x30100), (77, 0x20001, 0x30200))
    ]
    result = read(core(program(bits, order), threads, bits=bits, order=order, machine=machine, vdso=0x20000))
    assert result.threads == ((78, 11, 0x11234, 0x30100), (77, 0, 0x20001, 0x30200))
    assert (result.snapshot.pid, result.snapshot.command, result.missing) == (77, "app", 0)
    code, vdso = result.snapshot.mappings
    assert (code.path, code.start, code.limit, code.offset, code.build_id) == (
        "/opt/a b\n",
        0x11000,
        0x13000,
        0x1000,
        ID,
    )
    assert (vdso.kind.value, vdso.start, vdso.limit) == ("vdso", 0x20000, 0x21000)
    file, none = result.snapshot.file_of
    assert file is not None
    assert file.mapper is not None
    assert file.mapper.vaddr(code, 0x11234) == 0x401234
    assert none is None


def test_a_signal_belongs_to_the_thread_that_received_it() -> None:
    info = note("CORE", NT_SIGINFO, (11).to_bytes(4, "little").ljust(128, b"\0"), "little")
    of_other = note("CORE", NT_SIGINFO, (19).to_bytes(4, "little").ljust(128, b"\0"), "little")
    first, second = status(1, 0x11234), status(2, 0x11234)

    def signals(*threads: bytes) -> list[int]:
        return [thread.signal for thread in read(core(program(), threads)).threads]

    assert signals(first, second) == [11, 0]  # old kernels write no NT_SIGINFO, but the thread first
    assert signals(first + info, second) == [11, 0]
    assert signals(first, second + info) == [0, 11]
    assert signals(first + of_other, second + info) == [0, 11]  # gdb writes one for each thread
    assert signals(status(1, 0x11234, signal=0), second) == [0, 11]
    assert signals(status(1, 0x11234, signal=0), status(2, 0x11234, signal=0)) == [0, 0]


def test_registers_of_other_machines_are_not_guessed() -> None:
    data = core(program(), [status(78, 0x11234, machine=constants.EM_MIPS)], machine=constants.EM_MIPS)
    assert read(data).threads == ((78, 11, None, None),)


def test_mappings_that_gdb_omits_are_code_if_the_file_says_so() -> None:
    mapped = program(load=False)
    mapped.append(Mapped(0x13000, 0x14000, mapped[0].name, 0x5000, load=False))  # after the executable segment
    (code,) = [m for m in read(core(mapped)).snapshot.mappings if m.kind.has_file]
    assert (code.start, code.limit, code.build_id) == (0x11000, 0x13000, ID)


def test_a_file_mapped_anew_under_the_same_name_is_another_file() -> None:
    other = "fedcba98" * 4
    mapped = [
        *program(),
        Mapped(0x40000, 0x41000, "/opt/a b\n", 0, 4, head(build_id=other)),
        Mapped(0x41000, 0x43000, "/opt/a b\n", 0x1000),
    ]
    ids = [m.build_id for m in read(core(mapped)).snapshot.mappings if m.kind.has_file]
    assert ids == [ID, other]


def test_a_file_without_a_build_id_is_accepted_if_it_starts_like_the_memory(tmp_path: Path) -> None:
    path = tmp_path / "app"
    mapped = [Mapped(0x10000, 0x11000, str(path), 0, 4, head(build_id="")), Mapped(0x11000, 0x13000, str(path), 0x1000)]
    path.write_bytes(head(build_id="") + bytes(0x2000))
    (file,) = read(core(mapped)).snapshot.file_of
    assert file is not None
    assert file.stamp
    with ElfFile.from_bytes(core(mapped)) as elf:
        (file,) = read_core(elf, paths=LocalPaths(allows=lambda path: False)).snapshot.file_of
    assert file is not None
    assert not file.stamp
    path.write_bytes(head() + bytes(0x2000))
    (file,) = read(core(mapped)).snapshot.file_of
    assert file is not None
    assert not file.stamp
    path.unlink()
    os.mkfifo(path)  # nor is one waited for
    read(core(mapped))


def cut_core(path: Path, *, memory: bytes = b"", end: int = 0x13000, offset: int = 0x1000) -> bytes:
    """Return a core without its end, which has the first page of a program."""
    mapped = [Mapped(0x11000, end, str(path), offset, 5, memory), Mapped(0x10000, 0x11000, str(path), 0, 4, head())]
    data = core(mapped, [status(78, 0x11234)])
    return data[: data.index(head())]


def test_a_file_whose_first_page_is_missing_is_accepted_as_unproved_if_it_fits(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "app"
    path.write_bytes(head() + b"\x90" * 0x1800)
    result = read(cut_core(path))
    (file,) = result.snapshot.file_of
    assert file is not None
    assert file.mapper is not None
    assert (file.build_id, file.is_unchanged(), result.unproved) == ("", True, (str(path),))
    assert file.mapper.vaddr(result.snapshot.mappings[0], 0x11234) == 0x401234
    assert read(cut_core(path, memory=b"\x90" * 0x1000)).unproved == (str(path),)
    (tmp_path / "core").write_bytes(cut_core(path))
    main(["core", str(tmp_path / "core"), "--save-snapshot", str(tmp_path / "snapshot")])
    assert f"{path}: its first page is missing in the core: the file at this path fits" in capsys.readouterr().err
    (kept,) = SnapshotMappings.from_json((tmp_path / "snapshot").read_text()).file_of
    assert kept is not None
    assert kept.unproved


def test_a_file_that_contradicts_a_core_is_not_accepted(tmp_path: Path) -> None:
    path = tmp_path / "app"
    path.write_bytes(head() + b"\x90" * 0x1800)
    for other in (
        cut_core(path, memory=b"\xcc" * 0x1000),  # other code
        cut_core(path, end=0x14000),  # longer than the segment
        cut_core(path, offset=0x2000),
        cut_core(tmp_path / "none"),
        cut_core(tmp_path),
    ):
        assert read(other).unproved == ()
    (tmp_path / "core").write_bytes(cut_core(path))
    os.utime(tmp_path / "core", (1000, 1000))  # written before the file
    with ElfFile.open(tmp_path / "core") as elf:
        assert read_core(elf).unproved == ()
    path.write_bytes(head(bits=32) + b"\x90" * 0x1800)
    assert read(cut_core(path)).unproved == ()


def test_every_truncation_and_flipped_byte_of_a_core_gives_an_error_or_an_answer() -> None:
    full = core(program(), [status(78, 0x11234), status(77, 0x20001)], vdso=0x20000)
    for data in [full[:size] for size in range(0, len(full), 3)] + [
        full[:index] + bytes([full[index] ^ flip]) + full[index + 1 :]
        for index in range(min(len(full), 0x800))
        for flip in (1, 0x80)
    ]:
        result = survives(read, data)
        if result is None:
            continue
        assert len(result.snapshot.mappings) == len(result.snapshot.file_of)
        assert result.snapshot.to_json()
    assert 0 < read(full[:-0x400]).missing <= 0x400


def test_a_file_that_is_not_a_core_is_an_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(MapsError, match="an ELF file, but not a core file: its type is 3, expected 4"):
        read(core(program(), type=constants.ET_DYN))
    (tmp_path / "empty").write_bytes(core([]))
    assert main(["core", str(tmp_path / "empty")]) == 1
    assert capsys.readouterr().err == f"whence: {tmp_path}/empty: the core has no threads\n"
    assert main(["core", str(tmp_path / "empty"), "zz"]) == 2
    assert main(["core", str(tmp_path / "none")]) == 3


def test_commands_for_programs_suggest_the_command_for_cores(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "core").write_bytes(core(program()))
    for command in ("addr", "explain"):
        assert main([command, str(tmp_path / "core"), "11234"]) == 3
        assert capsys.readouterr().err == (
            f"whence: {tmp_path}/core: a core file, not a program (whence core reads it)\n"
        )


def test_a_counted_but_missing_entry_of_nt_file_is_an_error() -> None:
    data = bytearray(core(program()))
    offset = data.index((2).to_bytes(8, "little") + (0x1000).to_bytes(8, "little"))
    data[offset : offset + 8] = (1 << 60).to_bytes(8, "little")
    with pytest.raises(MapsError, match="core NT_FILE"):
        read(bytes(data))


@pytest.fixture(scope="module")
def crashed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """Return a program of two threads and its core."""
    directory = tmp_path_factory.mktemp("core")
    path = compiled(directory, "-pthread", source=CRASH)
    if Path("/proc/sys/kernel/core_pattern").read_text().strip() not in ("core", "core.%p"):
        pytest.skip("cores do not go into the folder of the process here")

    def allow() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    subprocess.run([path], cwd=directory, preexec_fn=allow)
    cores = list(directory.glob("core*"))
    if not cores:
        pytest.skip("no core was left")
    return path, cores[0]


def test_a_core_of_linux_names_its_threads_the_one_that_crashed_first(
    crashed: tuple[Path, Path], capsys: pytest.CaptureFixture[str]
) -> None:
    path, file = crashed
    main(["core", str(file)])
    about, *lines = capsys.readouterr().out.splitlines()
    assert re.fullmatch(rf"process \d+, {path}, {path}, \d+-\d\d-\d\d \d\d:\d\d:\d\d", about)
    assert lines[0].startswith("thread ")
    assert lines[0].endswith(" SIGSEGV, address 0x8 not mapped")
    assert lines[2] == f"      boom at {path}.c:3"
    assert sum(line.startswith("thread ") for line in lines) == 2
    main(["core", str(file), "--json"])
    first = json.loads(capsys.readouterr().out.splitlines()[0])
    assert (first["process"]["executable"], first["process"]["command"]) == (str(path), path.name)
    assert (first["signal"], first["frames"][0]["function"]) == (11, "boom")
    assert main(["core", str(file), "--maps"]) == 0
    assert str(path) in capsys.readouterr().out


def test_a_core_is_named_by_archives_and_later_by_its_snapshot(
    crashed: tuple[Path, Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, file = crashed
    (pc, *_) = (thread.pc for thread in read(file.read_bytes()).threads)
    assert pc is not None
    create(path, tmp_path / "archive")
    moved = path.rename(tmp_path / "moved")
    try:
        assert main(["core", str(file), f"{pc:x}"]) == 1
        assert "no-file" in capsys.readouterr().out
        for given in (tmp_path / "archive", moved):
            assert main(["core", str(file), f"{pc:x}", "--binary", str(given)]) == 0
            assert "boom at" in capsys.readouterr().out
        assert main(["core", str(file), "--save-snapshot", str(tmp_path / "snapshot")]) == 0
        assert main(["addr", "--snapshot", str(tmp_path / "snapshot"), str(tmp_path / "archive"), f"{pc:x}"]) == 0
        assert "boom at" in capsys.readouterr().out
    finally:
        moved.rename(path)


def test_a_core_of_gdb_answers_like_the_process(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    if shutil.which("gcore") is None:
        pytest.skip("gcore (of gdb) is not on this machine")
    with running([compiled(tmp_path)]) as (pid, words):
        done = subprocess.run(["gcore", "-o", tmp_path / "core", str(pid)], capture_output=True)
        if done.returncode:
            pytest.skip("gdb may not look at processes here")
        main(["pid", str(pid), *words])
        live = capsys.readouterr().out
        main(["pid", str(pid)])
        stopped = capsys.readouterr().out.splitlines()[1:]
    assert main(["core", str(tmp_path / f"core.{pid}"), *words]) == 0
    assert capsys.readouterr().out == live
    main(["core", str(tmp_path / f"core.{pid}")])
    result = capsys.readouterr().out.splitlines()[2:]
    innermost = result[0].removeprefix("  #0  ").removesuffix(" [registers]")
    assert [f"  {innermost}", *result[1 : len(stopped)]] == stopped
