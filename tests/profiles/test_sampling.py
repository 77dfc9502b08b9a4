"""Profiles of live processes: where they spend their time, in any format."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import whence
from tests.helpers.live import compiled, running
from tests.helpers.programs import UNTIL_ASLEEP
from whence import profiles
from whence._base.errors import WhenceError
from whence.cli.main import main

if not sys.platform.startswith("linux"):
    pytest.skip("stopping threads is Linux's", allow_module_level=True)

PROGRAM = (
    """#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static volatile unsigned long count;
__attribute__((noinline)) static void often(void) { for (int i = 0; i < 3000000; i++) count++; }
__attribute__((noinline)) static void seldom(void) { for (int i = 0; i < 1000000; i++) count++; }
static void *nap(void *x) { for (;;) pause(); return x; }
"""
    + UNTIL_ASLEEP
    + """
int main(int argc, char **argv) {
    pthread_t t;
    pthread_create(&t, 0, nap, 0);
    until_asleep(1);
    puts("ready");
    fflush(stdout);
    for (long left = atol(argv[1]); left; left--) { often(); seldom(); }
    return 0;
}
"""
)


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("sampled"), "-pthread", source=PROGRAM)


def total(profile: profiles.Profile, function: str, type: int = 1) -> int:
    """Return the sum of a value over all samples with a function."""
    return sum(
        profile.samples.values[type][index]
        for index in range(len(profile.samples))
        if function in profiles.Sample(profile, index).functions
    )


def have_their_share(profile: profiles.Profile) -> bool:
    """Whether a function that does three times as much as another one has about three times its time."""
    full = total(profile, "main")
    return 0.5 < total(profile, "often") / full < 0.95 and 0.05 < total(profile, "seldom") / full < 0.5


def test_functions_have_their_share_of_the_time(program: Path) -> None:
    """One of some profiles: where others have the processors, the program rests wherever it was left."""
    with running([program, "1000000"]) as (pid, _):
        for _ in range(20):
            profile = profiles.sample(pid, every=0.005, seconds=1.5)
            if have_their_share(profile):
                break
    assert have_their_share(profile)
    assert [each.type for each in profile.sample_types] == ["samples", "wall", "cpu"]
    assert 1.4e9 < profile.duration_ns < 60e9
    full = total(profile, "main")
    assert total(profile, "often") + total(profile, "seldom") >= 0.9 * full
    assert total(profile, "nap") == pytest.approx(full, rel=0.05)  # it sleeps, and is there
    assert total(profile, "nap", 2) < total(profile, "main", 2)
    assert full == pytest.approx(profile.duration_ns, rel=0.05)
    timeline = profile.samples.timeline
    assert timeline is not None
    assert len(timeline) == sum(profile.samples.values[0])
    assert list(timeline.time) == sorted(timeline.time)
    samples = [profiles.Sample(profile, index) for index in range(len(profile.samples))]
    assert {each.labels["pid"] for each in samples} == {pid}
    assert {each.labels["comm"] for each in samples} == {"program"}
    assert len({each.labels["tid"] for each in samples}) == 2


@pytest.mark.parametrize("name", ["p.pb.gz", "p.folded", "p.otlp", "p.speedscope.json", "p.firefox.json"])
def test_the_command_writes_any_format(program: Path, tmp_path: Path, name: str) -> None:
    with running([program, "1000000"]) as (pid, _):
        command = ["pid", str(pid), "--every", "0.02", "--for", "0.1", "-o", str(tmp_path / name)]
        assert main([*command, "--flamegraph", str(tmp_path / "page.html")]) == 0
    data = (tmp_path / name).read_bytes()
    assert data
    if name in ("p.pb.gz", "p.folded", "p.otlp"):
        read = profiles.read(tmp_path / name)
        assert total(read, "nap", 0) > 0
    assert b"__libc_pause" in (tmp_path / "page.html").read_bytes()


def test_samples_until_the_process_ends(program: Path) -> None:
    child = subprocess.Popen([program, "120"], stdout=subprocess.PIPE)
    assert child.stdout is not None
    with child.stdout:
        child.stdout.readline()
        profile = profiles.sample(child.pid, every=0.01)
        child.wait()
    assert total(profile, "main", 0) > 0
    assert 0 <= total(profile, "_start", 0) - total(profile, "main", 0) <= 2  # exit() has _start for its caller alone


def test_always_takes_the_first_sample(program: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = itertools.count()
    clock = SimpleNamespace(monotonic=lambda: next(seconds), time_ns=time.time_ns)
    with running([program, "1000000"]) as (pid, _):
        monkeypatch.setattr("whence.profiles.sampling.time", clock)
        profile = profiles.sample(pid, every=0.02, seconds=0.1)
    assert total(profile, "nap", 0) == 1


def test_sampling_accepts_the_options_of_profile(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running([program, "1000000"]) as (pid, _):
        assert main(["pid", str(pid), "-o", "x.pb.gz"]) == 2
        assert "need a profile: add --every or --for" in capsys.readouterr().err
        with pytest.raises(SystemExit, match="2"):
            main(["pid", str(pid), "--every", "0", "-o", "x.pb.gz"])
        assert "--every" in capsys.readouterr().err
        assert main(["pid", str(pid), "--for", "0.1", "--top", "3"]) == 0
        assert capsys.readouterr().out.startswith("wall: ")
    with pytest.raises(ValueError, match="every"):
        profiles.sample(pid, every=0)
    with pytest.raises(ProcessLookupError):
        profiles.sample(pid)


def test_an_error_with_a_remedy_if_no_thread_can_be_stopped() -> None:
    with pytest.raises(WhenceError, match="could be stopped: a process can't trace itself"):
        profiles.sample(whence.Process(os.getpid()), seconds=1)
