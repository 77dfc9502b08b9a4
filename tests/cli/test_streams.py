"""Standard streams that are closed, full, or short of letters: a line and an exit code, never a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.live import compiled
from whence.gotrace import Event, Version

WHENCE = [sys.executable, "-m", "whence.cli"]
ODD = "p\udcff\x1b[31m"  # a byte that is not UTF-8, and what would colour a terminal


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A program whose name, source file, and function have such names."""
    path = compiled(
        tmp_path_factory.mktemp("odd"), "-g", source="int f_XX;\nint main(void) { return f_XX; }\n", name=ODD
    )
    path.write_bytes(path.read_bytes().replace(b"main\0", b"ma\xff\x1b\0"))
    return path


def run(*words: str | Path, encoding: str = "utf-8:strict", shell: str = "") -> subprocess.CompletedProcess[bytes]:
    """Run whence with these arguments; `shell` follows the command line, for example ">&-"."""
    environment = {**os.environ, "PYTHONIOENCODING": encoding}
    command = ["sh", "-c", f'"$@" {shell}', "sh", *WHENCE, *map(str, words)]
    return subprocess.run(command, capture_output=True, env=environment, stdin=subprocess.DEVNULL)


@pytest.mark.parametrize("words", [["symbols"], ["build-id"], ["addr", "1000"], ["dwarf"]])
@pytest.mark.parametrize("shell", [">&-", "> /dev/full"])
def test_output_that_can_not_be_written_is_told_in_one_line(words: list[str], shell: str, program: Path) -> None:
    done = run(words[0], program, *words[1:], shell=shell)
    assert done.returncode == 3
    assert done.stderr in (b"whence: stdout: Bad file descriptor\n", b"whence: stdout: No space left on device\n")


def test_a_closed_stdin_is_an_empty_one(program: Path) -> None:
    done = run("addr", program, shell="<&-")
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_talk_does_not_go_to_stdout_where_stderr_is_closed(program: Path) -> None:
    done = run("build-id", program.with_name("none"), shell="2>&-")
    assert (done.returncode, done.stdout) == (3, b"")


@pytest.mark.parametrize("encoding", ["utf-8:strict", "ascii:strict"])
def test_names_that_are_no_utf_8_end_no_command(encoding: str, program: Path, tmp_path: Path) -> None:
    archive = tmp_path / "archive"
    assert run("lidia", "create", program, "-o", archive, encoding=encoding).returncode == 0
    commands: list[list[str | Path]] = [
        ["build-id", program],
        ["symbols", program],
        ["dwarf", program],
        ["dwarf", program, "--unit", "0"],
        ["lidia", "dump", archive],
    ]
    for words in commands:
        done = run(*words, encoding=encoding)
        assert (done.returncode, done.stderr) == (0, b"")
    assert run("build-id", program, encoding=encoding).stdout.endswith(rb"/p\xff\x1b[31m" + b"\n")


@pytest.mark.parametrize("words", [["symbols"], ["dwarf"], ["dwarf", "--unit", "0"], ["lidia", "dump"]])
def test_names_from_files_do_not_reach_the_terminal_s_controls(words: list[str], program: Path, tmp_path: Path) -> None:
    path = program
    if words[0] == "lidia":
        path = tmp_path / "archive"
        run("lidia", "create", program, "-o", path)
    out = run(*words, path).stdout
    assert b"\\x1b" in out
    assert b"\x1b" not in out


def test_too_little_memory_is_told_in_one_line(program: Path) -> None:
    code = (
        "import whence.cli.build_id as command, sys\n"
        "from whence.cli.main import main\n"
        "def run(options): raise MemoryError\n"
        "command.run = run\n"
        "sys.exit(main(['build-id', 'x']))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (3, "whence: not enough memory\n")


@pytest.mark.parametrize("words", [["addr", "10"], ["explain", "10"], ["lidia info"], ["lidia verify"], ["lidia dump"]])
@pytest.mark.parametrize("kind", ["pipe", "/dev/zero", "folder", "none"])
def test_a_file_that_is_not_regular_is_reported_and_not_waited_for(words: list[str], kind: str, tmp_path: Path) -> None:
    path = tmp_path / kind
    if kind == "pipe":
        os.mkfifo(path)
    elif kind == "folder":
        path.mkdir()
    command = [*WHENCE, *words[0].split(), str(path), *words[1:]]
    done = subprocess.run(command, capture_output=True, text=True, timeout=20)
    assert done.returncode == 3
    assert done.stderr.startswith("whence: ")
    assert str(path) in done.stderr
    assert len(done.stderr.splitlines()) == 1


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
def test_a_full_stdout_is_named_and_a_full_stderr_keeps_the_exit_code() -> None:
    words = [sys.executable, "-m", "whence"]
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*words, "help"], stdout=full, stderr=subprocess.PIPE, text=True)
        assert (done.returncode, done.stderr) == (3, "whence: stdout: No space left on device\n")
        done = subprocess.run([*words, "profile", "-", "-o", "-"], input="main 1\n", stdout=full,
                              stderr=subprocess.PIPE, text=True)  # fmt: skip
        assert (done.returncode, done.stderr) == (3, "whence: stdout: No space left on device\n")
        assert subprocess.run([*words, "nosuch"], stderr=full).returncode == 2


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs /dev/full")
@pytest.mark.parametrize(
    "words",
    [
        "trace info {trace}", "trace text {trace}", "trace events {trace}", "trace events {trace} --format jsonl",
        "trace filter {trace}", "columns {table} -o -", "columns {table} -o - --leaf --format csv",
        "columns {table} -o - --format parquet", "columns {table} -o - --format arrow",
    ],
)  # fmt: skip
def test_binary_output_that_can_not_be_written_names_stdout(words: str, tmp_path: Path) -> None:
    version = Version.GO1_26
    stop = Event(version, "ProcStop", [1]).encode()
    batch = Event(version, "EventBatch", [1, 1, 7, len(stop)]).encode() + stop
    (tmp_path / "trace").write_bytes(version.header + batch + Event(version, "EndOfGeneration", []).encode())
    (tmp_path / "table").write_text('{"build_id": "00", "address": 4096}\n')
    words = words.format(trace=tmp_path / "trace", table=tmp_path / "table")
    with open("/dev/full", "wb") as full:
        done = subprocess.run([*WHENCE, *words.split()], stdout=full, stderr=subprocess.PIPE, text=True)
    assert (done.returncode, done.stderr) == (3, "whence: stdout: No space left on device\n")
