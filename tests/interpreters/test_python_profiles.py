"""Profiles of live Python programs: merged stacks in every format, threads with the GIL, and child processes."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.helpers.live import running
from whence import profiles
from whence.cli.main import main
from whence.flamegraph.packages import package
from whence.procmap.process import descendants

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="live processes are read from /proc")

PROGRAM = """
import os, sys, threading, time

def busy(item):
    while True:
        sum(range(1000))

def sorting():
    sorted([1, 2], key=busy)

def waiting():
    threading.Event().wait()

child = os.fork() if "fork" in sys.argv else 1
threading.Thread(target=waiting, daemon=True).start()
threading.Thread(target=sorting, daemon=True).start()
if child:
    print("ready", flush=True)
time.sleep(1000)
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("sampled") / "busy_program.py"
    path.write_text(PROGRAM)
    return path


@pytest.fixture
def pid(program: Path) -> Iterator[int]:
    with running([sys.executable, program]) as (pid, _):
        yield pid


def stacks(profile: profiles.Profile) -> list[list[str]]:
    return [sample.functions for sample in profile.samples]


def python_frames(functions: list[str]) -> list[str]:
    names = "busy", "sorting", "waiting", "<module>"
    return [function for function in functions if function in names]


def test_every_sample_is_merged(pid: int) -> None:
    profile = profiles.sample(pid, every=0.01, seconds=0.2)
    assert profile.notes == []
    kinds = {tuple(python_frames(functions)) for functions in stacks(profile)}
    assert kinds == {("busy", "sorting"), ("waiting",), ("<module>",)}
    assert not any("_PyEval_EvalFrameDefault" in functions for functions in stacks(profile))
    sources = {frame.source for sample in profile.samples for frame in sample.frames if frame.function == "busy"}
    assert sources == {"python"}


def test_the_gil_and_idle_threads_select_samples(pid: int) -> None:
    kept = profiles.sample(pid, every=0.01, seconds=0.2, gil=True)
    assert {tuple(python_frames(functions)) for functions in stacks(kept)} == {("busy", "sorting")}
    running_ones = profiles.sample(pid, every=0.01, seconds=0.2, idle=False)
    assert {str(sample.labels["state"]) for sample in running_ones.samples} == {"R"}


def test_child_processes_are_sampled(program: Path) -> None:
    with running([sys.executable, program, "fork"]) as (pid, _):
        (child,) = descendants("/proc", pid)
        profile = profiles.sample(pid, every=0.01, seconds=0.5, children=True)
        os.kill(child, 9)
    result = {(sample.labels["pid"], *python_frames(sample.functions)) for sample in profile.samples}
    assert {(pid, "busy", "sorting"), (child, "busy", "sorting")} <= result


@pytest.mark.parametrize("name", ["cpu.pb.gz", "cpu.folded", "cpu.json", "cpu.html"])
def test_every_format_has_python_frames(pid: int, name: str, tmp_path: Path) -> None:
    out = tmp_path / name
    assert main(["pid", str(pid), "--every", "0.01", "--for", "0.1", "-o", str(out)]) == 0
    if name.endswith(".html"):
        page = out.read_text()
        assert '"busy"' in page
        assert "busy_program.py" in page
        return
    profile = profiles.read(out)
    frames = [frame for sample in profile.samples for frame in sample.frames if frame.function == "busy"]
    assert frames
    if name != "cpu.folded":
        assert {os.path.basename(frame.file) for frame in frames} == {"busy_program.py"}


def test_python_packages_have_colors_of_their_own() -> None:
    assert package("f", "/venv/lib/python3.13/site-packages/six.py") == "six"
    assert package("f", "/usr/lib/python3.13/json/decoder.py") == "python"


def test_options_of_profiles_need_a_profile(capsys: pytest.CaptureFixture[str]) -> None:
    for option in ("--gil", "--no-idle", "--children"):
        assert main(["pid", str(os.getpid()), option]) == 2
        assert "--every or --for" in capsys.readouterr().err
