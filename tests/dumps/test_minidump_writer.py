"""Cores written as minidumps: the same threads, registers and stacks; read by LLDB, too."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from tests.forge.core import Mapped, core, status
from tests.helpers.cores import PROGRAM, core_of
from tests.helpers.live import compiled
from whence._base.errors import Unsupported, WrongUse
from whence.cli.main import main
from whence.dumps.contexts import read_wide, write_context
from whence.dumps.core import read_core
from whence.dumps.minidump import Minidump
from whence.dumps.minidump_process import thread_states
from whence.objects.elf import ElfFile
from whence.objects.elf.kernels import constants
from whence.symbolize import Core, Stack
from whence.unwind.core import core_dump

LLDB = shutil.which("lldb-19") or shutil.which("lldb")


def facts(stacks: list[Stack]) -> list[tuple[object, ...]]:
    """What a stack says, without addresses of variables."""
    return [
        (
            stack.tid, stack.signal and (stack.signal.name, stack.signal.address), stack.registers, str(stack.end),
            [(frame.pc, frame.sp, str(frame.found_by), frame.place.vaddr) for frame in stack.frames],
        )
        for stack in stacks
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("machine", "bits"),
    [(constants.EM_X86_64, 64), (constants.EM_386, 32), (constants.EM_AARCH64, 64), (constants.EM_ARM, 32)],
)
def test_registers_mappings_and_memory_of_each_machine_are_kept(machine: int, bits: int, tmp_path: Path) -> None:
    mapped = [
        Mapped(0x10000, 0x11000, "/opt/a b", 0, 4),
        Mapped(0x11000, 0x13000, "/opt/a b", 0x1000, 5),
        Mapped(0x20000, 0x21000, flags=5, memory=b"generated".ljust(0x1000, b"\0")),
        Mapped(0x70000, 0x72000, flags=6, memory=bytes(range(256)) * 32),
    ]
    threads = [status(tid, pc, 0x70100, bits=bits, machine=machine) for tid, pc in ((78, 0x11234), (77, 0x20001))]
    path, dump = tmp_path / "core", tmp_path / "core.dmp"
    path.write_bytes(core(mapped, threads, bits=bits, machine=machine))
    old = Core(path)
    for all_memory in (False, True):
        done = old.save_minidump(dump, all_memory=all_memory)
        assert (done.threads, done.modules, done.size) == (2, 1, dump.stat().st_size)
        new = Core(dump)
        assert facts(new.stacks()) == facts(old.stacks())
        assert new.threads == old.threads
        assert (new.pid, new.command, new.arguments) == (old.pid, old.command, old.arguments)
        rows = [[(m.path, m.start, m.end, m.offset, m.permissions) for m in each.mappings()] for each in (old, new)]
        assert rows[0] == rows[1]
        assert new.read(0x70100, 256) == bytes(range(256))
    with pytest.raises(WrongUse, match="is a minidump already"):
        new.save_minidump(tmp_path / "again.dmp")


def test_a_machine_that_minidumps_do_not_have_is_refused(tmp_path: Path) -> None:
    path, dump = tmp_path / "core", tmp_path / "core.dmp"
    path.write_bytes(core([Mapped(0x1000, 0x2000)], [status(1, 0x1000, machine=constants.EM_MIPS)], machine=8))
    with pytest.raises(Unsupported, match="minidumps have no registers of mips"):
        Core(path).save_minidump(dump)
    assert not dump.exists()


@pytest.mark.parametrize("crash", ["d", "h", "s", "q", "a"])
def test_stacks_of_a_real_core_are_kept(crash: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = compiled(tmp_path, "-pthread", "-O2", "-g", source=PROGRAM)
    path, dump = core_of(program, crash), tmp_path / "app.dmp"
    assert main(["core", str(path), "--minidump", str(dump)]) == 0
    assert re.search(r"app\.dmp: [\d,]+ bytes: 3 threads, \d modules, [\d,]+ bytes of memory", capsys.readouterr().out)
    assert facts(Core(dump).stacks()) == facts(Core(path).stacks())
    assert dump.stat().st_size < 200_000
    if crash == "d" and LLDB is not None:
        of_core, of_dump = (of_lldb(LLDB, program, each) for each in (path, dump))
        assert of_dump == of_core
        assert len(of_dump[0]) > 40


def of_lldb(lldb: str, program: Path, dump: Path) -> list[list[str]]:
    """Return the addresses of the frames of each thread, as LLDB prints them."""
    words = [lldb, "-x", "-b", "-o", f"target create {program} --core {dump}", "-o", "thread backtrace all"]
    printed = subprocess.run(words, capture_output=True, text=True, timeout=120).stdout
    return [
        re.findall(r"frame #\d+: (0x[0-9a-f]+) ", text) for text in re.split(r"^[* ] thread #", printed, flags=re.M)[1:]
    ]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--all-memory"], "--all-memory: only with --minidump"),
        (["--minidump", "o.dmp", "--maps"], "--minidump cannot be used with addresses, --maps"),
        (["--minidump", "core"], "core is the core itself"),
    ],
)
def test_options_that_do_not_fit_are_refused(
    words: list[str], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("core").write_bytes(core([Mapped(0x1000, 0x2000)], [status(1, 0x1000)]))
    assert main(["core", "core", *words]) == 2
    assert message in capsys.readouterr().err


@pytest.mark.parametrize("machine", [constants.EM_X86_64, constants.EM_AARCH64])
def test_floating_point_registers_of_threads_are_kept(machine: int) -> None:
    wide = bytes(range(256)) * 2 + (b"" if machine == constants.EM_X86_64 else b"fpsrfpcr")
    written = write_context({}, machine, wide)
    assert len(written) == len(write_context({}, machine))
    assert read_wide(memoryview(written), machine) == wide
    assert read_wide(memoryview(write_context({}, machine)), machine) == b""
    assert read_wide(memoryview(written)[:300], machine) == b""


def test_a_written_minidump_has_the_floating_point_registers_of_the_core(tmp_path: Path) -> None:
    path = core_of(compiled(tmp_path, source=PROGRAM))
    Core(path).save_minidump(tmp_path / "core.dmp")
    with ElfFile.open(path) as elf, Minidump.open(tmp_path / "core.dmp") as dump:
        stored = {thread.tid: thread.wide for thread in core_dump(elf, read_core(elf)).threads}
        assert {thread.tid: thread.wide for thread in thread_states(dump)} == stored
    assert all(len(wide) == 512 for wide in stored.values())
