"""Ctrl-C while a kernel works: commands and the Python API stop within a second, and leave no files."""

from __future__ import annotations

import io
import signal
import subprocess
import sys
import textwrap
import threading
import time
from array import array
from collections.abc import Callable
from pathlib import Path

import pytest

import whence
from tests.forge.elf import Section, forge
from tests.forge.ranges import Names, R, table
from tests.hostile import interrupted, processor_time
from tests.hostile.bounds import ROOT
from tests.hostile.inputs.dwarf import CODE, GOOD_TABLE, SIZE, address, unit
from tests.hostile.inputs.elf import big_text_of_short_names
from whence import lidia
from whence._base import cores
from whence.dwarf.info import DebugInfo
from whence.flamegraph.kernels.tree import equal_stacks
from whence.lidia.kernels.inspect import Inspection
from whence.lidia.table import Table
from whence.lidia.writer import write
from whence.objects.elf import ElfFile
from whence.objects.elf.function_symbols import functions
from whence.objects.elf.kernels.constants import ET_DYN
from whence.ranges import StringSpace

Work = Callable[[], object]
FIRST_COUNT = 250_000
LONG = 0.15  # seconds; kernels check for signals every 0.01


class Enough(Exception):
    """What the handler of a signal raises."""


def one_large_unit(count: int = 1_000_000) -> bytes:
    """Return an ELF file with debug info of one unit with so many functions."""
    function = b"\2f\0" + address(CODE) + address(16, 4)
    info = unit(b"\1" + address(CODE) + address(SIZE, 4) + function * count + b"\0")
    text = Section(".text", b"", type=8, flags=6, vaddr=CODE, size=SIZE)
    table = Section(".debug_abbrev", GOOD_TABLE + b"\0")
    return forge([text, Section(".debug_info", info), table], type=ET_DYN)


def large_archive(count: int) -> Table:
    names = Names()
    ranges = table(names, [R(0x1000, 16, 0, "f")])
    for name in ("length", "depth", "function", "file", "call_file", "line_index", "line_count", "call_line", "source"):
        setattr(ranges, name, getattr(ranges, name) * count)
    ranges.vaddr = array("Q", range(0x1000, 0x1000 + 16 * count, 16))
    out = io.BytesIO()
    write(ranges, out)
    return lidia.from_bytes(out.getvalue())


# Work that takes a time proportional to `count`.


def debug_info(count: int) -> Work:
    elf = ElfFile(one_large_unit(count))
    return lambda: DebugInfo(elf, strings=StringSpace()).ranges(jobs=1)


def symbols(count: int) -> Work:
    elf = ElfFile(big_text_of_short_names(count))
    return lambda: functions(elf)


def inspection(count: int) -> Work:
    archive = large_archive(count)
    return lambda: Inspection(archive._data, archive._sections)


def lookups(count: int) -> Work:
    archive = large_archive(count)
    asked = array("Q", [0x1000 + 7919 * row % (16 * count) for row in range(count)])
    return lambda: archive.find_frames(asked)


def stacks(count: int) -> Work:
    first = array("Q", range(0, 16 * count + 1, 16))
    stack = array("I", range(16 * count))
    free = b"\xff" * (4 << (2 * count).bit_length())
    same, weight = array("I", bytes(4 * count)), array("d", [1.0]) * count
    return lambda: equal_stacks(first, stack, array("I", free), same, weight)


@pytest.mark.parametrize("make", [debug_info, symbols, inspection, lookups, stacks])
def test_a_signal_ends_a_kernel_long_before_it_is_done(make: Callable[[int], Work]) -> None:
    """Processor time counts, of work that takes LONG on this machine."""
    count, full = FIRST_COUNT, 0.0
    while True:
        work = make(count)
        work()  # imports
        began = time.process_time()
        work()
        full = time.process_time() - began
        if full >= LONG:
            break
        count *= 2
    handled: list[float] = []

    def handle(*_: object) -> None:
        handled.append(time.process_time())
        raise Enough

    before = signal.signal(signal.SIGPROF, handle)
    try:
        began = time.process_time()
        signal.setitimer(signal.ITIMER_PROF, full / 8)
        with pytest.raises(Enough):
            work()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)
    assert handled[0] - began < 0.75 * full
    work()  # can be called again


def test_after_ctrl_c_the_same_binary_answers(tmp_path: Path) -> None:
    path = tmp_path / "app"
    path.write_bytes(one_large_unit())
    with whence.open(path) as binary:
        before = signal.signal(signal.SIGPROF, signal.default_int_handler)
        try:
            signal.setitimer(signal.ITIMER_PROF, 0.02)
            with pytest.raises(KeyboardInterrupt):
                binary.table()
        finally:
            signal.setitimer(signal.ITIMER_PROF, 0)
            signal.signal(signal.SIGPROF, before)
        assert binary.lookup(CODE)[-1].function == "f"


def test_ctrl_c_ends_create_in_the_middle_of_a_unit_and_leaves_nothing(tmp_path: Path) -> None:
    path = tmp_path / "app"
    path.write_bytes(one_large_unit())
    create: list[str | Path] = ["whence", "lidia", "create", path, "-o", tmp_path / "out.lidia"]
    full = processor_time(create)
    (tmp_path / "out.lidia").unlink()
    interrupted(create, after=full / 2)
    assert list(tmp_path.iterdir()) == [path]


def test_the_first_of_several_threads_ends_the_work_of_all_when_a_signal_comes() -> None:
    """A thread that is in the middle of a long call is left alone."""
    release = threading.Event()
    done: list[int] = []

    def work(tool: int, piece: int) -> None:
        if tool:
            release.wait(60)
            done.append(piece)
        else:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        cores.share(range(2), range(1000), work)
    release.set()
    assert len(done) <= 1


def test_ctrl_c_during_an_import_is_one_line() -> None:
    script = """
        import sys
        class Finder:
            def find_spec(self, name, path=None, target=None):
                if name == "whence.objects.elf.file":
                    raise KeyboardInterrupt
        sys.meta_path.insert(0, Finder())
        from whence.cli.main import main
        sys.exit(main(["addr", sys.executable, "1000"]))
    """
    command = [sys.executable, "-c", textwrap.dedent(script)]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert (done.returncode, done.stderr) == (130, "whence: interrupted\n")
