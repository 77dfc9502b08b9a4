"""whence maps, whence pid, and snapshots, as a person or a script runs them."""

from __future__ import annotations

import json
import os
import sys
from argparse import Namespace
from pathlib import Path

import pytest

from tests.helpers.live import compiled, python, running, until
from whence.cli import addr
from whence.cli.main import main
from whence.cli.snapshot import answer_snapshot
from whence.procmap import read_build_id

NOBODY = str(1 << 22)


def objects(text: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in text.splitlines()]


def test_maps_lists_executable_mappings_with_build_ids(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = compiled(tmp_path)
    with running([path]) as (pid, words):
        assert main(["maps", str(pid)]) == 0
        lines = [line for line in capsys.readouterr().out.splitlines() if line.endswith(str(path))]
        assert len(lines) == 1
        assert f" file      {read_build_id(path) or '-'}" in lines[0]
        assert main(["maps", str(pid), "--json"]) == 0
        executable = objects(capsys.readouterr().out)
        assert main(["maps", str(pid), "--json", "--all"]) == 0
        every = objects(capsys.readouterr().out)
        assert [m for m in every if "x" in str(m["permissions"])] == executable
        assert len(every) > len(executable)
        (own,) = [m for m in executable if m["path"] == str(path)]
        assert int(str(own["start"]), 16) <= int(words[0], 16) < int(str(own["limit"]), 16)


def test_pid_names_addresses_and_says_why_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running([compiled(tmp_path)]) as (pid, words):
        assert main(["pid", str(pid), words[0]]) == 0
        said = capsys.readouterr()
        assert "    marker at " in said.out
        assert said.out.splitlines()[1].endswith("program.c:3")
        assert said.err == ""
        assert main(["pid", str(pid), words[0].removeprefix("0x"), "10", "--json"]) == 1
        said = capsys.readouterr()
        first, second = objects(said.out)
        assert first["path"] == str(tmp_path / "program")
        assert second == {"address": "0x10", "frames": [], "reason": "unmapped"}
        assert said.err.startswith("whence: 1 x unmapped: ")
        assert main(["pid", str(pid), "zz"]) == 2


def test_pid_without_addresses_shows_every_thread(capsys: pytest.CaptureFixture[str]) -> None:
    code = "import threading, time; threading.Thread(target=time.sleep, args=(60,), daemon=True).start()"
    with running(python(code + "; print('ready')")) as (pid, _):
        main(["pid", str(pid)])
        assert capsys.readouterr().out.count("thread ") == 2
        main(["pid", str(pid), "--json"])
        result = objects(capsys.readouterr().out)
        assert result[0]["tid"] == pid
        assert all("frames" in thread for thread in result)


@pytest.mark.parametrize("words", [["maps", NOBODY], ["pid", NOBODY], ["pid", NOBODY, "--save-snapshot", "-"]])
def test_a_missing_process_is_said_in_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 3
    assert capsys.readouterr().err == f"whence: there is no process {NOBODY}\n"


def test_where_proc_is_not_mounted_that_is_why_there_is_no_process(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("whence.procmap.reader.PROC_SELF", str(tmp_path / "self"))
    assert main(["maps", NOBODY]) == 3
    why = ": /proc is not mounted"
    assert capsys.readouterr().err == f"whence: there is no process {NOBODY}{why}\n"


def test_a_snapshot_answers_when_the_process_is_gone(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path, file = compiled(tmp_path), tmp_path / "snapshot.json"
    with running([path]) as (pid, words):
        assert main(["pid", str(pid), "--save-snapshot", str(file)]) == 0
    options = Namespace(**{**addr.PLAIN, "snapshot": str(file), "words": words, "style": "json"})
    assert answer_snapshot(options) == 0
    assert [a["frames"][0]["function"] for a in objects(capsys.readouterr().out)] == ["marker", "other"]  # type: ignore[index]
    moved = path.rename(tmp_path / "moved")
    assert answer_snapshot(options) == 1
    assert {a["reason"] for a in objects(capsys.readouterr().out)} == {"no-file"}
    assert main(["addr", "--snapshot", str(file), str(moved), words[0]]) == 0
    assert capsys.readouterr().out.splitlines()[1].startswith("    marker at ")
    options.words = [str(moved), *words]
    assert answer_snapshot(options) == 0
    assert "marker" in capsys.readouterr().out


def test_what_ended_or_is_the_kernel_s_is_said_not_to_run(capsys: pytest.CaptureFixture[str]) -> None:
    zombie = os.fork()
    if not zombie:
        os._exit(0)
    os.waitid(os.P_PID, zombie, os.WEXITED | os.WNOWAIT)
    try:
        assert main(["pid", str(zombie)]) == 1
        assert capsys.readouterr().out.splitlines()[1:] == ["  ?? ended"]
        assert main(["pid", str(zombie), "--json"]) == 1
        (thread,) = objects(capsys.readouterr().out)
        assert (thread["frames"], thread["reason"]) == ([], "ended")
        assert main(["maps", str(zombie)]) == 1
        assert "it has ended, or is a kernel thread" in capsys.readouterr().err
    finally:
        os.waitpid(zombie, 0)
    try:
        kernel = Path("/proc/2/comm").read_text() == "kthreadd\n"
    except OSError:
        kernel = False
    if kernel and os.geteuid() == 0:
        assert main(["pid", "2"]) == 1
        assert capsys.readouterr().out.splitlines()[1:] == ["  ?? kernel-thread"]


def test_a_thread_on_a_processor_is_said_to_run(capsys: pytest.CaptureFixture[str]) -> None:
    with running([sys.executable, "-c", "print('ready', flush=True)\nwhile True: pass"]) as (pid, _):

        def is_said() -> bool:
            """It may wait for a page of its own a while."""
            result = main(["pid", str(pid)])
            said = capsys.readouterr()
            return "?? running" in said.out and "--stop" in said.err and result == 1

        assert until(is_said)


@pytest.mark.parametrize("words", [["maps"], ["pid"], ["pid", "--save-snapshot", "-"]])
def test_a_process_of_another_user_is_reported_with_a_remedy(
    words: list[str], capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(process: str) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("whence.procmap.maps.read", refused)
    monkeypatch.setattr("whence.procmap.reader.MapsQuery", refused)
    for user, remedy in ((1000, "run as the process's user or as root"), (0, "add CAP_SYS_PTRACE, which root lacks")):
        monkeypatch.setattr("os.geteuid", lambda user=user: user)
        assert main([words[0], str(os.getpid()), *words[1:]]) == 3
        said = capsys.readouterr().err
        assert said.count("\n") == 1
        assert f"may not be read ({remedy}" in said
