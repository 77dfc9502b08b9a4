"""Help, suggestions and progress on a terminal, which gets text only."""

import io
import os
import pty
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Self

import pytest

from tests.forge import pprof as forge
from tests.helpers.live import until
from whence import gotrace
from whence._version import __version__
from whence.cli import demo, progress
from whence.cli.main import COMMANDS, main
from whence.cli.progress import Progress

WHENCE = [sys.executable, "-m", "whence.cli"]
TEXT = b"""Trace Go1.22
EventBatch gen=1 m=5 time=100 size=0
ProcStatus dt=1 p=0 pstatus=1
GoStatus dt=1 g=1 m=5 gstatus=2
EventBatch gen=1 m=18446744073709551615 time=100 size=0
Frequency freq=15625000
"""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    wire, fixed = io.BytesIO(), io.BytesIO()
    gotrace.text_to_wire(TEXT, wire)
    gotrace.fix_sizes(wire.getvalue(), fixed)
    path = tmp_path / "a.trace"
    path.write_bytes(fixed.getvalue())
    return path


@pytest.fixture
def profile(tmp_path: Path) -> Path:
    path = tmp_path / "cpu.pb"
    path.write_bytes(forge.small())
    return path


def exit_code(words: list[str]) -> object:
    try:
        return main(words)
    except SystemExit as stop:
        return stop.code


def at_a_terminal(arguments: list[str], stream: str = "stdout") -> tuple[int, bytes, bytes]:
    """Return the exit code of a command with one stream on a terminal, and the bytes of that stream and the other."""
    master, slave = pty.openpty()
    out, err = (slave if stream == name else subprocess.PIPE for name in ("stdout", "stderr"))
    with subprocess.Popen([*WHENCE, *arguments], stdin=subprocess.DEVNULL, stdout=out, stderr=err) as process:
        os.close(slave)
        shown = b""
        try:
            while piece := os.read(master, 1 << 16):
                shown += piece
        except OSError:  # the other end is closed
            pass
        other = process.stdout or process.stderr
        assert other is not None
        rest = other.read()
    os.close(master)
    return process.returncode, shown, rest


def test_help_prints_the_commands_and_help_of_a_command_its_options(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["help"]) == 0
    every = capsys.readouterr().out
    assert all(f"  {command} " in every for command in COMMANDS)
    for words in (["addr"], ["trace", "info"], ["lidia", "create"]):
        with pytest.raises(SystemExit, match="0"):
            main(["help", *words])
        said = capsys.readouterr().out
        assert said.startswith(f"usage: whence {' '.join(words)}")
        with pytest.raises(SystemExit, match="0"):
            main([*words, "--help"])
        assert capsys.readouterr().out == said
    assert main(["help", "adr"]) == 2


COMMANDS_OF_FILES = [
    "addr {}", "lidia create {} -o o.lidia", "lidia info {}", "symbols {}", "build-id {}", "dwarf {}", "core {}",
    "trace info {}", "profile {} --top 3", "columns {} -o o.csv", "store add kept {}", "explain {} 1",
    "filter --binary {}",
]  # fmt: skip


@pytest.mark.parametrize("command", COMMANDS_OF_FILES)
def test_an_empty_file_and_a_device_are_told_in_the_same_words_by_every_command(
    command: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.bin").touch()
    for path, fault in (("empty.bin", "the file is empty"), (os.devnull, "a device, not a regular file")):
        assert exit_code(command.format(path).split()) == 3
        told = "".join(capsys.readouterr())
        assert f"{path}: {fault}" in told


def test_a_table_without_the_columns_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    pytest.importorskip("pyarrow")
    monkeypatch.chdir(tmp_path)
    Path("app.cpp").write_text("int main(){}\n")
    Path("app").write_bytes(b"\x7fELF" + bytes(60))
    assert exit_code(["columns", "app.cpp", "-o", "o.csv"]) == 2
    assert capsys.readouterr().err.startswith("whence: app.cpp: no column build_id of build-ids")
    assert exit_code(["columns", "app", "-o", "o.csv"]) == 3
    assert capsys.readouterr().err == "whence: app: an ELF file, not a table\n"
    assert not Path("o.csv").exists()


def test_addresses_that_may_be_left_out_are_not_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["core"]) == exit_code(["pid"]) == 2
    assert "ADDRESS\n" not in capsys.readouterr().err


@pytest.mark.parametrize("word", ["-V", "--version"])
def test_the_version_is_printed(word: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([word]) == 0
    assert capsys.readouterr().out == f"whence {__version__}\n"


@pytest.mark.parametrize(
    ("words", "guess"),
    [
        (["adr"], "addr"),
        (["profil", "x"], "profile"),
        (["--versoin"], "--version"),
        (["addr", "/bin/true", "--stlye", "gnu"], "--style"),
        (["addr", "--style", "llmv"], "llvm"),
        (["trace", "inf", "x"], "info"),
        (["trace", "events", "x", "--fromat", "csv"], "--format"),
        (["trace", "events", "x", "--format", "parket"], "parquet"),
        (["lidia", "create", "x", "--no-dwraf"], "--no-dwarf"),
    ],
)
def test_a_word_that_is_nearly_right_is_answered_with_what_was_meant(
    words: list[str], guess: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert exit_code(words) == 2
    assert f"; did you mean {guess}?" in capsys.readouterr().err


def test_an_unknown_subcommand_is_answered_with_those_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    assert exit_code(["lidia", "print", "x"]) == 2
    said = (
        "whence lidia: no subcommand is named 'print'; there are create, info, verify, dump (see whence help lidia)\n"
    )
    assert capsys.readouterr().err == said


def test_ctrl_c_while_a_class_is_being_made_is_ctrl_c(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Before Python 3.12, an error of a descriptor's __set_name__ is the cause of a RuntimeError."""

    def make(options: object) -> int:
        try:
            raise KeyboardInterrupt
        except KeyboardInterrupt as error:
            raise RuntimeError("Error calling __set_name__ on 'cached_property' instance 'units'") from error

    monkeypatch.setattr("whence.cli.build_id.run", make)
    assert main(["build-id", "app"]) == 130
    assert capsys.readouterr().err == "whence: interrupted\n"


def test_a_word_like_nothing_known_is_not_guessed_at(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["zzz"]) == 2
    assert "did you mean" not in capsys.readouterr().err


@pytest.mark.parametrize(
    "words",
    [
        ["trace", "wire"], ["trace", "filter"], ["trace", "anonymize"], ["trace", "salvage"], ["trace", "pprof"],
        ["trace", "events", "--format", "parquet"],
        ["trace", "wire", "-o", "/dev/stdout"],
    ],
)  # fmt: skip
def test_binary_output_is_never_written_to_a_terminal(words: list[str], trace: Path) -> None:
    status, shown, said = at_a_terminal([*words[:2], str(trace), *words[2:]])
    assert (status, shown) == (2, b"")
    assert b"is binary: give -o OUT, or pipe the output" in said


def test_a_pprof_profile_and_an_archive_never_go_to_a_terminal(profile: Path) -> None:
    for words in (["profile", str(profile)], ["profile", str(profile), "-o", "-", "--format", "otlp"]):
        status, shown, said = at_a_terminal(words)
        assert (status, shown) == (2, b"")
        assert b"is binary" in said
    status, shown, said = at_a_terminal(["lidia", "create", sys.executable, "-o", "/dev/stdout"])
    assert (status, shown) == (2, b"")
    status, shown, _ = at_a_terminal(["profile", str(profile), "--format", "folded"])
    assert status == 0
    assert shown


def test_text_of_a_trace_is_written_to_a_terminal(trace: Path) -> None:
    status, shown, _ = at_a_terminal(["trace", "text", str(trace)])
    assert status == 0
    assert shown.startswith(b"Trace Go1.22")


def test_names_in_a_profile_go_to_a_terminal_escaped_and_into_a_pipe_as_they_are(tmp_path: Path) -> None:
    stacks = "ma\x1b[31min\x9b;f\u202e\xe9 3\n".encode() + b"raw\x9b\xc3 4\n"
    path = tmp_path / "hostile.folded"
    path.write_bytes(stacks)
    code, shown, _ = at_a_terminal(["profile", str(path), "--no-cache"])
    assert code == 0
    assert shown == "ma\\x1b[31min\\x9b;f\\u202e\xe9 3\r\nraw\\x9b".encode() + b"\xc3 4\r\n"
    piped = subprocess.run([*WHENCE, "profile", str(path), "--no-cache"], capture_output=True, check=True)
    assert piped.stdout == stacks


@pytest.mark.parametrize("name", ["x.svg", "x.unknown", "x.png"])
def test_an_output_with_an_unknown_ending_is_wrong_use_that_lists_the_known_ones(
    name: str, profile: Path, trace: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / name
    assert main(["profile", str(profile), "-o", str(out)]) == 2
    said = capsys.readouterr().err
    assert all(ending in said for ending in (f"{out}: ", ".pb.gz", ".folded", ".speedscope.json", ".otlp", "--format"))
    assert main(["trace", "events", str(trace), "-o", str(out)]) == 2
    assert all(ending in capsys.readouterr().err for ending in (".csv",))
    assert main(["trace", "pprof", str(trace), "-o", str(out)]) == 2
    assert not out.exists()
    assert main(["profile", str(profile), "-o", str(out), "--format", "folded", "--no-cache"]) == 0
    assert out.exists()


def test_the_ending_chooses_the_form_of_a_table_of_events(trace: Path, tmp_path: Path) -> None:
    for name, starts in (("a.csv", b"generation,"), ("a.jsonl", b'{"generation"'), ("noending", b"generation,")):
        assert main(["trace", "events", str(trace), "-o", str(tmp_path / name)]) == 0
        assert (tmp_path / name).read_bytes().startswith(starts)


def test_parquet_in_a_pipe_is_the_same_as_in_a_file(trace: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet", reason="needs pyarrow")
    out = tmp_path / "a.parquet"
    command = f"{shutil.which('cat')} > {tmp_path / 'piped'}"
    with subprocess.Popen(["sh", "-c", command], stdin=subprocess.PIPE) as cat:
        done = subprocess.run(
            [*WHENCE, "trace", "events", trace, "--format", "parquet"], stdout=cat.stdin, stderr=subprocess.PIPE
        )
    assert (done.returncode, done.stderr) == (0, b"")
    assert main(["trace", "events", str(trace), "-o", str(out)]) == 0
    assert parquet.read_table(out) == parquet.read_table(tmp_path / "piped")
    assert len(parquet.read_table(out)) == 2


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_long_work_shows_one_line_that_is_erased_and_short_work_shows_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 600.0)
    with Progress("short work"):
        pass
    assert terminal.getvalue() == ""
    monkeypatch.setattr(progress, "PATIENCE_SECONDS", 0.0)
    monkeypatch.setattr(progress, "INTERVAL_SECONDS", 0.001)
    with Progress("naming \x1b[2J" + 200 * "x") as shown:
        shown.share = lambda: (1, 4)
        assert until(lambda: terminal.getvalue().count("25 %") >= 2)
    lines = terminal.getvalue().split(progress.CLEAR)
    assert "naming \\x1b[2Jxxx" in terminal.getvalue()
    assert re.fullmatch(r"naming .*x   25 %  0:\d\d", lines[-2])
    assert all(len(line) < 80 for line in lines)
    assert lines[-1] == ""
    with Progress("quiet", quiet=True), Progress("shown"):
        assert until(lambda: "shown" in terminal.getvalue())
    assert "quiet" not in terminal.getvalue()


@pytest.mark.parametrize("words", [["events"], ["text"], ["wire"], ["filter"], ["info"], ["verify"]])
def test_long_work_on_traces_shows_itself_on_stderr(
    words: list[str], trace: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    class Noted(Progress):
        def __enter__(self) -> Self:
            begun.append(self.what)
            return super().__enter__()

    monkeypatch.setattr("whence.cli.trace_files.Progress", Noted)
    out = [] if words[0] in ("info", "verify") else ["-o", str(tmp_path / "out")]
    main(["trace", *words, str(trace), *out])
    assert begun == [f"trace {words[0]}: {trace}"]


@pytest.mark.skipif(not any(map(shutil.which, ("cc", "gcc", "clang"))), reason="needs a C compiler")
def test_the_demo_names_a_process_of_its_own_and_leaves_a_named_profile_and_its_flame_graph(tmp_path: Path) -> None:
    folder = tmp_path / "demo"
    done = subprocess.run(
        [sys.executable, "-m", demo.__name__, "demo"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stderr == ""
    assert max(map(len, done.stdout.splitlines())) <= demo.COLUMNS
    assert "What to try next:" in done.stdout
    for function in ("count_primes", "place_queen", "partition"):
        assert function in done.stdout
        assert function in (folder / "flamegraph.html").read_text()
    named = subprocess.run(
        [*WHENCE, "profile", folder / "named.pb.gz", "--format", "folded", "-o", "-"], capture_output=True, text=True
    ).stdout
    assert "main;count_primes;is_prime" in named
    raw = subprocess.run(
        [*WHENCE, "profile", folder / "raw.pb.gz", "--coverage", "--no-cache"], capture_output=True, text=True
    )
    assert raw.returncode == 0
    tried = done.stdout.partition("What to try next:\n")[2].splitlines()
    assert len(tried) == 6
    lookup = re.split(r"\s{2,}", tried[0].strip())[0].split()[1:]
    assert subprocess.run([*WHENCE, *lookup], cwd=tmp_path, capture_output=True).returncode == 0


SUBCOMMANDS = {
    "store": ("add", "ls", "show", "rm", "export", "verify", "gc", "wanted"),
    "trace": ("info", "text", "wire", "verify", "filter"),
    "lidia": ("create", "info", "verify"),
}


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_an_argument_of_any_length_is_shortened_in_messages(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    letters = "a" * 120_000
    repeated = 0
    for sub in ([], *([each] for each in SUBCOMMANDS.get(name, ()))):
        output = "out.lidia" if name == "convert" else "out.csv"
        for before in ([], [sys.executable], ["-o", output], [str(os.getpid()), "--stack"]):
            for word in (letters, f"--{letters}", f"--threads={letters}", f"{letters}/{letters}"):
                if (name == "serve" and not word.startswith("-")) or (name == "record" and before == [sys.executable]):
                    continue  # it would serve, or run the program
                monkeypatch.setattr("sys.stdin", io.StringIO(""))
                exit_code([*([name] if name else []), *sub, *before, word])
                lines = capfd.readouterr().err.splitlines()
                assert max(map(len, lines), default=0) < 1200, (sub, before, word[:20])
                repeated += any("aaa...aaa" in line for line in lines)
    assert repeated
