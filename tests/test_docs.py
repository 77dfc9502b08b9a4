"""What documents say of commands, options, limits and code is what the code has; their blocks of Python run."""

from __future__ import annotations

import os
import re
import threading
from functools import cache
from importlib import import_module
from pathlib import Path
from types import FrameType

import pytest

import whence
from tests.helpers.profiles import program_profile
from tests.helpers.programs import compiled
from whence.cli.main import COMMANDS, main, parser_of
from whence.flamegraph.data import LONGEST, TEXT
from whence.flamegraph.entries import ENTRIES, THREADS
from whence.flamegraph.entries import STEPS as TIME_STEPS
from whence.flamegraph.tree import CELLS, DEPTH, NODES, STEPS, STEPS_EACH, TYPES
from whence.gotrace import Event, Version
from whence.profiles.formats import pprof

ROOT = Path(__file__).parent.parent
DOCUMENTS = sorted([ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")])
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]*[a-z]")
CALL = re.compile(r"`whence ([^`]*)`|^(?:    |\$ )whence (\S.*)$", re.MULTILINE)
NAME = re.compile(r"[a-z]+")


def documented(path: Path) -> list[list[str]]:
    """Return the words after `whence` of each call in a document."""
    return [(each or other).split("    ")[0].split() for each, other in CALL.findall(path.read_text())]


@cache
def parsers(command: str) -> dict[str, set[str]]:
    """The options of a command, and of each of its subcommands, by name; the command's own are under ""."""
    parser = parser_of(command, False, import_module(f"whence.cli.{COMMANDS[command][0]}"))
    result = {"": {*OPTION.findall(parser.format_help())}}
    for each in parser.subparsers():
        result[each.prog.split()[-1]] = {*OPTION.findall(each.format_help())}
    return result


@pytest.mark.parametrize("path", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_calls_of_whence_in_documents_name_commands_and_options_there_are(path: Path) -> None:
    for words in documented(path):
        if not words or words[0].startswith("-") or words[0] in ("help", "COMMAND", "FILE", "PID"):
            continue
        if re.search(r"[./]", words[0]):  # a file
            continue
        call = f"{path.name}: whence {' '.join(words)}"
        assert words[0] in COMMANDS, call
        expected = parsers(words[0])
        below = words[1] if len(words) > 1 and len(expected) > 1 and NAME.fullmatch(words[1]) else ""
        assert below in expected, call
        options = expected[below] if below else set().union(*expected.values())
        assert {option for word in words for option in OPTION.findall(word)} <= options, call


def test_the_limits_of_a_flame_graph_in_the_docs_are_those_of_the_code() -> None:
    table = (ROOT / "docs" / "profiles.md").read_text().partition("| | at most |")[2].partition("\n\n")[0]
    rows = dict(line.strip("| ").split(" | ", 1) for line in table.splitlines()[2:])
    assert f"{NODES:,}, " in rows["frames"]
    assert f"{TIME_STEPS[0]:,} steps; {TIME_STEPS[1]}, {TIME_STEPS[2]} or none" in rows["times"]
    assert f"{ENTRIES:,} combinations" in rows["times"]
    assert f"{THREADS:,}, else processes" in rows["threads"]
    assert f" {CELLS:,} divided" in rows["frames"]
    assert rows["depth"].startswith(f"{DEPTH:,} frames; ")
    assert f" {STEPS // 10**6} million steps and {STEPS_EACH} for each" in rows["depth"]
    assert rows["sample types"] == f"{TYPES}"
    texts = f"{TEXT // 10**6} million characters in all, {LONGEST:,} each"
    assert rows["names, files and reasons"].startswith(texts)


def blocks(path: Path) -> list[str]:
    """Return the indented blocks of Python that import from whence and are not doctests."""
    result = re.findall(r"(?:^    .*\n|^\n(?=    ))+", path.read_text(), re.MULTILINE)
    ours = [each for each in result if re.search("^    (from|import) whence", each, re.MULTILINE)]
    return [re.sub("^    ", "", each, flags=re.MULTILINE) for each in ours]


def test_the_python_blocks_of_the_tour_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    program = compiled()
    (tmp_path / "app.debug").write_bytes(program.read_bytes())
    (tmp_path / "cpu.pb.gz").write_bytes(pprof.write(program_profile(program)))
    (tmp_path / "old.pb.gz").write_bytes(pprof.write(program_profile(program)))
    version = Version.GO1_26
    stop = Event(version, "ProcStop", [1]).encode()
    batch = Event(version, "EventBatch", [1, 1, 7, len(stop)]).encode() + stop
    (tmp_path / "trace.out").write_bytes(version.header + batch + Event(version, "EndOfGeneration", []).encode())
    monkeypatch.chdir(tmp_path)
    result = blocks(ROOT / "docs" / "python.md")
    assert len(result) == 2
    for block in result:
        exec(block, {"whence": whence})
    said = capsys.readouterr().out
    assert "of the frames in samples have names" in said
    assert {"named.pb.gz", "handle.html"} <= {*os.listdir(tmp_path)}


def test_the_packages_of_the_walk_in_the_architecture_are_those_that_a_lookup_enters(
    capfd: pytest.CaptureFixture[str],
) -> None:
    text = (ROOT / "ARCHITECTURE.md").read_text()
    steps = text.partition("## An address: `whence addr ELF ADDRESS`\n")[2].partition("\n## ")[0]
    named = {*re.findall(r"`([a-z][\w.]+)`", steps)}
    assert len(named) > 8
    entered = set()

    def note(frame: FrameType, event: str, _: object) -> None:
        if event == "call":
            entered.add(str(frame.f_globals.get("__name__")))

    program = compiled("-g", "-O1")
    with whence.open(program) as binary:
        (result,) = binary.find("sum")
    vaddrs = [hex(result.vaddr)] * 20  # more than a few: rows that hold none of them are dropped
    threading.setprofile(note)
    try:
        thread = threading.Thread(target=main, args=(["addr", str(program), *vaddrs],))
        thread.start()
        thread.join()
    finally:
        threading.setprofile(None)
    assert "sum\n" in capfd.readouterr().out
    conditional = {"gopclntab", "locator"}  # for programs of Go; for files without debug info
    missing = [
        name for name in named - conditional if not any(f"{each}.".startswith(f"whence.{name}.") for each in entered)
    ]
    assert missing == []
