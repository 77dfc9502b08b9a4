"""A system that refuses threads, as one does to a user or a container that has as many as are allowed: what can be done
without them is done, the same answers come, and what cannot says so."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from tests.helpers.programs import compiled
from tests.hostile.bounds import ROOT

# The first argument is how many threads there are in all.
FEW_THREADS = """
    import _thread, sys
    left, start = int(sys.argv[1]), _thread.start_new_thread
    def start_new_thread(*arguments):
        global left
        left -= 1
        if left < 0:
            raise RuntimeError("can't start new thread")
        return start(*arguments)
    _thread.start_new_thread = start_new_thread
    from whence.dwarf import ahead, streaming
    streaming.SMALLEST = streaming.SMALLEST_PREFIX = 1  # every packed .debug_info is large
    ahead.FIRST = 16
    from whence.cli.main import main
    sys.exit(main(sys.argv[2:]))
"""


def run(threads: int, *words: object, stdin: str = "") -> tuple[int, str, str]:
    """What a command prints, and its exit code, where there are so many threads."""
    command = [sys.executable, "-c", textwrap.dedent(FEW_THREADS), str(threads), *map(str, words)]
    done = subprocess.run(command, cwd=ROOT, input=stdin, capture_output=True, text=True, timeout=60)
    return done.returncode, done.stdout, done.stderr


@pytest.fixture(scope="module")
def program() -> Path:
    return compiled("-g", "-O2", "-gz")


def addresses(program: Path) -> list[str]:
    from whence.objects.elf import ElfFile

    with ElfFile.open(program) as elf:
        return [hex(vaddr) for start, end in elf.code_ranges() for vaddr in range(start, end, 2)]


@pytest.mark.parametrize("threads", range(4))
@pytest.mark.parametrize("many", [False, True], ids=["one", "many"])
def test_addresses_are_answered_with_as_many_threads_as_there_are(program: Path, threads: int, many: bool) -> None:
    asked = addresses(program)
    asked = asked * 10 if many else asked[len(asked) // 2 :][:1]
    stdin = "\n".join(asked)
    usual = run(1000, "addr", program, "--jobs", "4", stdin=stdin)
    assert usual[1]
    assert not usual[2]
    assert run(threads, "addr", program, "--jobs", "4", stdin=stdin) == usual


@pytest.mark.parametrize("threads", range(4))
def test_an_archive_is_the_same_with_as_many_threads_as_there_are(program: Path, threads: int, tmp_path: Path) -> None:
    few, usual = tmp_path / "few.lidia", tmp_path / "usual.lidia"
    status, _, errors = run(threads, "lidia", "create", program, "-o", few, "--jobs", "4")
    assert (status, errors) == (0, "")
    assert run(1000, "lidia", "create", program, "-o", usual, "--jobs", "4")[0] == 0
    assert few.read_bytes() == usual.read_bytes()


def test_profiles_are_named_and_written_without_threads(program: Path, tmp_path: Path) -> None:
    paths = [tmp_path / f"{name}.folded" for name in "ab"]
    for path in paths:
        path.write_text("main;work 3\n")
    out = tmp_path / "out"
    for words in ([*paths, "-o", out, "--format", "folded"], [paths[0], "-o", tmp_path / "c.folded"]):
        status, _, errors = run(0, "profile", *words)
        assert status == 0, errors
    assert {path.name for path in out.iterdir()} == {"a.folded", "b.folded"}


def test_commands_that_need_threads_say_so(program: Path, tmp_path: Path) -> None:
    assert run(0, "store", "add", tmp_path / "store", program) == (
        3, "", f"whence: new store {tmp_path}/store\n"
        "whence: the system refused to start a thread: check ulimit -u and the container's pids.max\n",
    )  # fmt: skip
