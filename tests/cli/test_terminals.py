"""Nothing that a file, a process or a path says makes a terminal do something, and no name breaks a line."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from whence import lidia
from whence._base.streams import ESCAPES
from whence.cli import main
from whence.profiles import coverage

HOSTILE = "a\x1b]0;pwned\x07\r\nb\t\x7f\x85\x9b\u202ec\u2066\u2028\u200f"
RAW = re.compile(rb"[\0-\x08\x0b-\x1f\x7f]|\xc2[\x80-\x9f]|\xe2\x80[\x8e\x8f\xa8-\xae]|\xe2\x81[\xa6-\xa9]|\xd8\x9c")


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    builder = lidia.Builder()
    builder.add(lidia.Range(vaddr=0x1000, length=16, function=HOSTILE, file=f"/src/{HOSTILE}.c", line_table=((0, 3),)))
    builder.add(lidia.Range(vaddr=0x1000, length=8, function="f\udc9bg", file="x\udce9y", depth=1, call_file=HOSTILE))
    path = tmp_path / f"x{HOSTILE}.lidia"
    path.write_bytes(builder.to_bytes())
    return path


def said(*words: object, stdin: bytes = b"") -> tuple[list[bytes], list[bytes]]:
    """The lines that a command writes to stdout and to stderr."""
    command = [sys.executable, "-m", "whence.cli", *map(str, words)]
    done = subprocess.run(command, input=stdin, capture_output=True, timeout=60, check=False)
    for written in (done.stdout, done.stderr):
        assert not RAW.search(written), written
        assert ESCAPES.keys().isdisjoint(map(ord, written.decode("utf-8", "surrogateescape"))), written
    return done.stdout.splitlines(), done.stderr.splitlines()


@pytest.mark.parametrize(("style", "count"), [("llvm", 5), ("gnu", 5)])
def test_names_in_each_style_of_addr_are_a_line_each_with_their_control_characters_escaped(
    archive: Path, style: str, count: int
) -> None:
    out, _ = said("addr", archive, "--style", style, "0x1000")
    assert len(out) == count
    assert rb"a\x1b]0;pwned\x07\x0d\x0ab\x09\x7f\x85\x9b\u202ec\u2066\u2028\u200f" in out
    assert b"f\\x9bg" in out
    assert any(line.startswith(b"x\xe9y:") for line in out), "bytes that are not UTF-8 stay as they are"


def test_json_keeps_every_name_exactly(archive: Path) -> None:
    out, _ = said("addr", archive, "--style", "json", "0x1000")
    frames = json.loads(out[0])["frames"]
    assert [frame["function"] for frame in frames] == ["f\udc9bg", HOSTILE]
    assert frames[0]["file"] == "x\udce9y"


@pytest.mark.parametrize("style", ["llvm", "gnu", "json"])
def test_a_line_that_is_no_address_comes_back_without_control_characters(archive: Path, style: str) -> None:
    out, err = said("addr", archive, "--style", style, stdin=b"0x1000\nz\x1b[2J\xc2\x9b\r\n")
    assert out
    assert len(err) == 1


@pytest.mark.parametrize(
    "words",
    [
        ("lidia", "info"), ("lidia", "verify"), ("lidia", "dump"), ("lidia", "info", "--json"), ("build-id",),
        ("symbols",), ("dwarf",), ("core",), ("trace", "info"), ("trace", "verify"), ("profile",), ("addr",),
        ("explain", "0x1000"), ("lidia", "create"),
    ],
)  # fmt: skip
def test_paths_and_errors_have_no_control_characters(archive: Path, words: tuple[str, ...]) -> None:
    said(*words, archive)
    said(*words, archive.with_name(f"missing{HOSTILE}"))
    _, err = said(words[0], *words[1:], archive.parent)
    assert len(err) <= 4, "an error is a line, however many its path has"


@pytest.mark.skipif(not shutil.which("gcc"), reason="no gcc on this machine")
def test_a_library_in_a_folder_with_an_odd_name_is_listed_in_one_line(tmp_path: Path) -> None:
    folder = tmp_path / f"d{HOSTILE}"
    folder.mkdir()
    program = folder / "app"
    (tmp_path / "a.c").write_text('#include <unistd.h>\nint main(void) { return write(1, "x", 1) + pause(); }\n')
    subprocess.run(["gcc", "-g", "-o", program, tmp_path / "a.c"], check=True)
    with subprocess.Popen([program], stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        child.stdout.read(1)
        try:
            out, _ = said("maps", child.pid)
            assert sum(b"/app" in line for line in out) >= 1
            said("pid", child.pid)
            said("explain", child.pid, "0x1000")
        finally:
            child.kill()


def test_what_any_command_prints_is_guarded(capfd: pytest.CaptureFixture[str]) -> None:
    main(["--version"])
    print(HOSTILE)
    print(HOSTILE, file=sys.stderr)
    for text in capfd.readouterr():
        assert ESCAPES.keys().isdisjoint(map(ord, text))


def test_the_coverage_of_a_profile_has_a_line_for_each_binary_whatever_its_name() -> None:
    row = coverage.CoverageRow(f"/x/{HOSTILE}", "", 1, 1, 1, 1, Counter(), "", [])
    assert len(coverage.text([row]).splitlines()) == 3
    assert ESCAPES.keys().isdisjoint(map(ord, coverage.text([row])))
