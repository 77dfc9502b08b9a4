"""`whence record` runs a command or watches a process, and writes a named profile and its flame graph."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from tests.helpers.live import running
from tests.helpers.programs import folder
from whence import profiles
from whence.cli.main import main

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="live processes need Linux")

BUSY = r"""
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
__attribute__((noinline)) unsigned spin(unsigned n) { for (volatile unsigned i = 0; i < n; i++) ; return n; }
int main(int argc, char **argv) {
    struct timespec now;
    puts("ready"), fflush(stdout);
    clock_gettime(CLOCK_MONOTONIC, &now);
    double end = now.tv_sec + now.tv_nsec / 1e9 + atof(argv[1]);
    do spin(100000), clock_gettime(CLOCK_MONOTONIC, &now); while (now.tv_sec + now.tv_nsec / 1e9 < end);
    return argc > 2 ? atoi(argv[2]) : 0;
}
"""
WHENCE = [sys.executable, "-m", "whence"]


def perf_works() -> bool:
    words = ["perf", "record", "-q", "-o", "-", "--", "true"]
    return shutil.which("perf") is not None and subprocess.run(words, capture_output=True).returncode == 0


BY = [
    "whence",
    pytest.param("perf", marks=pytest.mark.skipif(not perf_works(), reason="perf is not installed or not permitted")),
]


@pytest.fixture(scope="module")
def busy() -> Path:
    gcc = shutil.which("gcc")
    if gcc is None:
        pytest.skip("gcc is not on this machine")
    source, program = folder() / "busy.c", folder() / "busy"
    source.write_text(BUSY)
    subprocess.run([gcc, "-g", "-O1", "-fno-omit-frame-pointer", source, "-o", program], check=True)
    return program


def share_of(path: Path, function: str) -> float:
    """Return the share of samples whose innermost function is `function`."""
    stacks = [line.rpartition(" ") for line in profiles.read(path).to_bytes("folded").decode().splitlines()]
    total = sum(int(count) for _, _, count in stacks)
    return sum(int(count) for stack, _, count in stacks if stack.endswith(f";{function}")) / total


@pytest.mark.parametrize("by", BY)
def test_a_command_gives_a_named_profile_and_its_page(
    by: str, busy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(["record", "--by", by, "--", str(busy), "0.5", "3"]) == 0
    said = capfd.readouterr()
    assert f"recording {busy.name} with {'perf' if by == 'perf' else 'whence'}" in said.err
    assert f"{busy.name} exited with 3" in said.err
    assert "wrote record.pb.gz and its flame graph record.html" in said.err
    assert "spin" in said.out.split("\n")[3]  # after "ready" and the two lines of the head
    assert share_of(tmp_path / "record.pb.gz", "spin") > 0.5
    assert "spin" in (tmp_path / "record.html").read_text()


@pytest.mark.parametrize("by", BY)
def test_a_process_is_recorded_for_the_given_time_and_lives_on(
    by: str, busy: Path, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "cpu.html"
    with running([busy, "60"]) as (pid, _):
        assert main(["record", "--by", by, "--pid", str(pid), "--for", "1", "-o", str(out)]) == 0
        assert Path(f"/proc/{pid}").exists()
    assert share_of(tmp_path / "cpu.pb.gz", "spin") > 0.5
    assert "spin" in out.read_text()


@pytest.mark.parametrize("by", BY)
def test_a_command_is_ended_after_the_given_time(by: str, busy: Path, tmp_path: Path) -> None:
    start = time.monotonic()
    assert main(["record", "--by", by, "--for", "1", "-o", str(tmp_path / "x.pb"), "--", str(busy), "60"]) == 0
    assert time.monotonic() - start < 30
    assert share_of(tmp_path / "x.pb", "spin") > 0.5


@pytest.mark.parametrize("by", BY)
def test_ctrl_c_ends_the_recording_and_writes_it(by: str, busy: Path, tmp_path: Path) -> None:
    words = [*WHENCE, "record", "--by", by, "--", str(busy), "60"]
    with subprocess.Popen(words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as recording:
        assert recording.stdout is not None
        assert recording.stdout.readline() == "ready\n"
        time.sleep(0.5)
        recording.send_signal(signal.SIGINT)
        out, err = recording.communicate(timeout=60)
    assert recording.returncode == 0, err
    assert "spin" in out
    assert share_of(tmp_path / "record.pb.gz", "spin") > 0.5


@pytest.mark.parametrize(
    ("script", "reason"),
    [
        (None, "perf is not installed"),
        ("echo 'No permission' >&2; exit 255", "a test run of perf failed: No permission"),
    ],
)
def test_the_sampler_replaces_a_missing_or_forbidden_perf(
    script: str | None,
    reason: str,
    busy: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capfd: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    if script:
        (tmp_path / "perf").write_text(f"#!/bin/sh\n{script}\n")
        (tmp_path / "perf").chmod(0o755)
    out = str(tmp_path / "x.pb")
    assert main(["record", "-o", out, "--", str(busy), "0.3"]) == 0
    said = capfd.readouterr().err
    assert "with whence's sampler" in said
    assert reason in said
    assert main(["record", "--by", "perf", "-o", out, "--", str(busy), "0.1"]) == 3
    assert "leave out --by perf" in capfd.readouterr().err


def test_options_after_the_command_are_its_own(busy: Path, tmp_path: Path) -> None:
    out = str(tmp_path / "x.pb")
    script = tmp_path / "script"
    script.write_text(f'#!/bin/sh\necho "$@" > {tmp_path}/arguments; exec {busy} 0.3\n')
    script.chmod(0o755)
    for words in ([str(script), "--top", "-x"], ["--", str(script), "--top", "-x"]):
        assert main(["record", "--by", "whence", "-o", out, *words]) == 0
        assert (tmp_path / "arguments").read_text() == "--top -x\n"


def test_wrong_use_says_what_to_type(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shutil.copy("/bin/true", "nosuchprogram")
    for words, message in (
        ([], "give either -- COMMAND... or --pid PID"),
        (["--pid", "1", "--", "true"], "give either -- COMMAND... or --pid PID"),
        (["--", "nosuchprogram"], "no such command: did you mean ./nosuchprogram?"),
        (["-o", "x.xyz", "--", "true"], "unknown ending .xyz"),
    ):
        assert main(["record", *words]) == 2
        assert message in capfd.readouterr().err


def test_open_shows_the_page_in_the_browser(
    busy: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    opened: list[str] = []

    def browser(url: str) -> bool:
        opened.append(url)
        return len(opened) < 3

    monkeypatch.setattr("webbrowser.open", browser)
    page = tmp_path / "x.html"
    assert main(["record", "--open", "--by", "whence", "-o", str(page), "--", str(busy), "0.3"]) == 0
    assert opened == [page.as_uri()]
    assert main(["profile", str(tmp_path / "x.pb.gz"), "--open"]) == 0
    temporary = Path(opened[1].removeprefix("file://"))
    assert "spin" in temporary.read_text()
    temporary.unlink()
    capfd.readouterr()
    assert main(["profile", str(tmp_path / "x.pb.gz"), "--flamegraph", str(page), "--open"]) == 0
    assert f"no browser could be started: open {page.as_uri()}" in capfd.readouterr().err


def test_ctrl_c_ends_the_profile_of_a_process(busy: Path, tmp_path: Path) -> None:
    with running([busy, "60"]) as (pid, _):
        words = [*WHENCE, "pid", str(pid), "--every", "0.01", "-o", str(tmp_path / "x.pb")]
        with subprocess.Popen(words, stderr=subprocess.PIPE, text=True) as sampling:
            assert sampling.stderr is not None
            assert "Ctrl-C ends it" in sampling.stderr.readline()
            time.sleep(0.5)
            sampling.send_signal(signal.SIGINT)
            _, err = sampling.communicate(timeout=60)
    assert sampling.returncode == 0, err
    assert "samples in" in err
    assert os.path.getsize(tmp_path / "x.pb")


@pytest.mark.parametrize("out", ["missing/cpu.pb.gz", "folder", "missing/cpu.html"])
def test_an_output_that_cannot_be_written_is_an_error_before_the_command_runs(
    out: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("folder").mkdir()
    assert main(["record", "--by", "whence", "-o", out, "--", "touch", "ran"]) == 3
    fault = "Is a directory" if out == "folder" else "No such file or directory"
    assert capfd.readouterr().err.endswith(f": {fault}\n")
    assert not Path("ran").exists()


def test_a_command_that_cannot_be_run_has_a_reason(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "app.c").write_text("int main;\n")
    for command, fault in (
        (str(tmp_path), "a folder, not a command"),
        (str(tmp_path / "app.c"), "not executable (see chmod +x)"),
        (str(tmp_path / "app"), "no such command"),
    ):
        assert main(["record", "--", command]) == 2
        assert capfd.readouterr().err == f"whence: record: {command}: {fault}\n"


def test_a_missing_process_is_an_error_before_perf_is_tried(capfd: pytest.CaptureFixture[str]) -> None:
    assert main(["record", "--pid", "4194305"]) == 3
    assert capfd.readouterr().err == "whence: there is no process 4194305\n"
