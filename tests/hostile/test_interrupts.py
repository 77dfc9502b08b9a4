"""Ctrl-C while a kernel works for minutes: commands and Python's API end within a second, and leave nothing behind."""

from __future__ import annotations

import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest

from tests.forge.ranges import Names, R, table
from tests.helpers.programs import compiled
from tests.hostile.bounds import ROOT
from whence.lidia.writer import write

# What stands in for a kernel: it lets other threads run, looks at no signal, and takes minutes.
SLOW = """
    import hashlib, os, sys
    from importlib import import_module
    def slow(*arguments, **options):
        os.write(1, b"working\\n")
        hashlib.pbkdf2_hmac("sha256", b"", b"", (1 << 31) - 1)
    def slowed(module, name):
        setattr(import_module("whence." + module), name, slow)
"""
SECONDS = 30.0  # by the clock, on a machine that may be busy: one where it is not; the kernel takes minutes


def interrupted(words: str, *arguments: str | Path) -> str:
    """What a script prints to stderr that gets SIGINT while its kernel is at work. It ends within a second, with 130
    where it does not say otherwise."""
    script = textwrap.dedent(SLOW) + textwrap.dedent(words)
    command = [sys.executable, "-c", script, *map(str, arguments)]
    with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == "working\n", process.stderr.read()
            time.sleep(0.1)
            process.send_signal(signal.SIGINT)
            sent = time.monotonic()
            _, error = process.communicate(timeout=2 * SECONDS)
            took = time.monotonic() - sent
        finally:
            process.kill()
    assert took < SECONDS
    assert process.returncode == 130, error
    return error


COMMAND = """
    import whence.dwarf.info  # kernels take types of each other when they are imported
    slowed(*sys.argv[1].split())
    from whence.cli.main import main
    sys.exit(main(sys.argv[2:]))
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    names = Names()
    path = tmp_path / "app.lidia"
    write(table(names, [R(0x1000, 16, 0, "f")]), path)
    return path


@pytest.mark.parametrize(
    "kernel", ["dwarf.kernels.dies ScopeReader", "ranges.kernels.overlay Sweep", "lidia.kernels.encode Survey"]
)
def test_ctrl_c_ends_create_while_a_kernel_reads_dwarf_or_writes_names(tmp_path: Path, kernel: str) -> None:
    out = tmp_path / "out.lidia"
    error = interrupted(COMMAND, kernel, "lidia", "create", compiled("-g"), "-o", out)
    assert error == "whence: interrupted\n"
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("kernel", ["units read_headers", "units UnitRanges", "lines LinePrograms"])
def test_ctrl_c_ends_the_first_question_to_a_file_with_dwarf(kernel: str) -> None:
    asked = "addr", compiled("-g"), "1139"
    assert interrupted(COMMAND, f"dwarf.kernels.{kernel}", *asked) == "whence: interrupted\n"


@pytest.mark.parametrize("action", ["verify", "info"])
def test_ctrl_c_ends_a_look_at_a_whole_archive(archive: Path, action: str) -> None:
    assert interrupted(COMMAND, "lidia.kernels.inspect Inspection", "lidia", action, archive) == "whence: interrupted\n"


def test_ctrl_c_ends_a_lookup_of_many_addresses_from_python(archive: Path) -> None:
    interrupted(
        """
        import whence
        from whence.lidia.table import Table
        Table._still_open = lambda self: type("Archive", (), {"find_frames": slow})
        with whence.open(sys.argv[1]) as binary:
            try:
                binary.lookup_many(range(1 << 17))
            except KeyboardInterrupt:
                sys.exit(130)
        """,
        archive,
    )


def test_after_ctrl_c_the_same_binary_answers() -> None:
    interrupted(
        """
        import whence
        from whence.ranges.kernels import overlay
        kernel = overlay.Sweep
        slowed("ranges.kernels.overlay", "Sweep")
        with whence.open(sys.argv[1]) as binary:
            try:
                binary.table()
            except KeyboardInterrupt:
                overlay.Sweep = kernel
                start = next(one.vaddr for one in binary.functions() if one.function == "main")
                assert binary.lookup(start)[-1].function == "main"
                sys.exit(130)
        """,
        compiled("-g"),
    )


def test_ctrl_c_ends_reading_and_drawing_a_profile(tmp_path: Path) -> None:
    path = tmp_path / "a.folded"
    path.write_text("main;f 1\n")
    for kernel in ("profiles.folded read", "profiles.flamegraph.kernels.tree equal_stacks"):
        command: list[str | Path] = ["profile", path, "--flamegraph", tmp_path / "out.html"]
        assert interrupted(COMMAND, kernel, *command) == "whence: interrupted\n"
    assert list(tmp_path.iterdir()) == [path]


def test_what_another_exception_of_a_signal_ends_ends_with_it() -> None:
    interrupted(
        """
        import signal
        from whence.interrupts import interruptible
        class Enough(Exception):
            pass
        def enough(*_):
            raise Enough
        signal.signal(signal.SIGINT, enough)
        try:
            interruptible(slow)()
        except Enough:
            sys.exit(130)
        """
    )


def test_the_thread_that_was_interrupted_cleans_up() -> None:
    error = interrupted(
        """
        import time
        from whence.interrupts import interruptible
        def work():
            try:
                os.write(1, b"working\\n")
                while True:
                    time.sleep(0.001)
            finally:
                os.write(2, b"cleaned up\\n")
        try:
            interruptible(work)()
        except KeyboardInterrupt:
            sys.exit(130)
        """
    )
    assert error == "cleaned up\n"


def test_a_thread_that_gets_the_interruption_of_the_one_that_made_it_ends_without_a_word() -> None:
    script = """
        import _thread, time
        from whence import interrupts
        waits, done = _thread.allocate_lock(), _thread.allocate_lock()
        waits.acquire()
        def work():
            waits.release()
            time.sleep(1)
        waiting = _thread.start_new_thread(work, ())
        waits.acquire()
        done.acquire()
        interrupts._stop(waiting, KeyboardInterrupt, done)
        time.sleep(1)
    """
    done = subprocess.run([sys.executable, "-c", textwrap.dedent(script)], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")


def test_after_ctrl_c_in_the_midst_of_an_import_others_can_import() -> None:
    """What a thread that is interrupted right after it took the lock of imports leaves behind."""
    error = interrupted(
        """
        import _imp, time
        from whence.interrupts import interruptible
        def work():
            os.write(1, b"working\\n")
            try:
                while True:
                    time.sleep(0.001)
            except KeyboardInterrupt:
                _imp.acquire_lock()
                raise
        try:
            interruptible(work)()
        except KeyboardInterrupt:
            import wave
            sys.exit(130)
        """
    )
    assert error == ""
