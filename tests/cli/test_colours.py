"""Frames and the coverage are coloured on a terminal, and where FORCE_COLOR asks for it; NO_COLOR wins."""

import re
from pathlib import Path

import pytest

from tests.helpers.profiles import program_profile
from tests.helpers.programs import compiled
from whence._base import streams
from whence._base.model import Frame
from whence._base.reasons import Reason
from whence.cli.answers import coloured_frame, show
from whence.cli.main import main
from whence.profiles.formats import pprof
from whence.symbolize import Symbolized

ESCAPE = re.compile(r"\x1b\[[0-9]*m|\x1b\]8;;[^\x1b]*\x1b\\")
VARIABLES = ("NO_COLOR", "FORCE_COLOR", "VTE_VERSION", "KITTY_WINDOW_ID", "WT_SESSION", "KONSOLE_VERSION")


@pytest.fixture(autouse=True)
def clean(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (*VARIABLES, "TERM_PROGRAM"):
        monkeypatch.delenv(name, raising=False)


ANSWERS = [
    Symbolized(0x1000, (Frame("main", "/src/main.c", 3), Frame("caller\x1b[8m", "a.c", 4, True))),
    Symbolized(0x10, reason=Reason.UNMAPPED, detail="\x1b[2J"),
]


def shown(capsys: pytest.CaptureFixture[str], as_json: bool = False) -> str:
    streams.prepare()
    show(ANSWERS, as_json)
    return capsys.readouterr().out


def test_without_a_terminal_nothing_is_coloured(capsys: pytest.CaptureFixture[str]) -> None:
    assert "\x1b" not in shown(capsys)


def test_colours_add_nothing_but_colours(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    plain = shown(capsys)
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = shown(capsys)
    assert "\x1b[1mmain\x1b[0m" in coloured
    assert "\x1b[33m?? unmapped\x1b[0m" in coloured
    assert ESCAPE.sub("", coloured) == plain


def test_what_a_name_holds_reaches_no_terminal_as_a_colour(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    coloured = shown(capsys)
    assert "\x1b[8m" not in coloured
    assert "\x1b[2J" not in coloured
    assert r"caller\x1b[8m" in coloured


def test_no_color_wins_over_force_color(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("NO_COLOR", "1")
    assert "\x1b" not in shown(capsys)


def test_json_is_never_coloured(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b" not in shown(capsys, as_json=True)


def test_the_coverage_shows_what_is_missing_in_yellow(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    program = compiled()
    (tmp_path / "cpu.pb").write_bytes(pprof.write(program_profile(program)))
    words = ["profile", str(tmp_path / "cpu.pb"), "--coverage", "--binary", str(program), "--no-cache"]
    main(words)
    plain = capsys.readouterr().out
    monkeypatch.setenv("FORCE_COLOR", "1")
    main(words)
    coloured = capsys.readouterr().out
    assert re.search(r"\x1b\[3[23]m\d+\.\d %\x1b\[0m of the frames in samples have names", coloured)
    assert ESCAPE.sub("", coloured) == plain


def test_files_are_links_where_the_terminal_takes_them(monkeypatch: pytest.MonkeyPatch) -> None:
    frame = Frame(function="main", file="/src/a b.c", line=3)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert "\x1b]8" not in coloured_frame(frame)
    monkeypatch.setenv("VTE_VERSION", "7000")
    assert re.search(r"\x1b\]8;;file://[^/]*/src/a%20b\.c\x1b\\", coloured_frame(frame))
    assert ESCAPE.sub("", coloured_frame(frame)) == "main at /src/a b.c:3"
    assert "\x1b]8" not in coloured_frame(Frame(function="main", file="a.c", line=3))
