"""What macOS and Windows lack is needed by nothing but live processes."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import lesser_system
from tests.helpers.profiles import program_profile
from tests.helpers.programs import compiled
from tools import nightly, portable
from whence import Process
from whence._base.errors import Unsupported
from whence.gotrace import Event, Version
from whence.profiles.formats import pprof

ROOT = Path(__file__).parent.parent


def trace_of_one_event() -> bytes:
    version = Version.GO1_26
    stop = Event(version, "ProcStop", [1]).encode()
    batch = Event(version, "EventBatch", [1, 1, 7, len(stop)]).encode() + stop
    return version.header + batch + Event(version, "EndOfGeneration", []).encode()


def test_files_archives_profiles_traces_and_stores_need_nothing_that_only_linux_has(tmp_path: Path) -> None:
    program = compiled()
    (tmp_path / "cpu.pb").write_bytes(pprof.write(program_profile(program)))
    (tmp_path / "trace").write_bytes(trace_of_one_event())
    script = lesser_system.__file__
    words = [sys.executable, script, program, tmp_path / "cpu.pb", tmp_path / "trace", tmp_path]
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    assert "live processes are read from /proc, which only Linux has" in done.stdout


def test_a_live_process_on_another_system_is_refused_in_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "platform", "darwin")
    with pytest.raises(Unsupported, match="only Linux has: use a snapshot or a core file"):
        Process(1)


PROBES = """
import os, subprocess, sys
import pytest

def test_platform() -> None:
    assert sys.platform == "darwin"
    assert not hasattr(os, "pread")

@pytest.mark.parametrize("path", ["/proc/self/maps", "/usr/lib/os-release", "/sys/kernel"])
def test_files(path: str) -> None:
    with pytest.raises(OSError, match="only Linux has this file"):
        open(path)

def test_programs() -> None:
    with pytest.raises(OSError, match="may not have this program"):
        subprocess.run(["/bin/true"])

def test_modules() -> None:
    with pytest.raises(ImportError):
        import resource

def test_whence() -> None:
    import whence
    with pytest.raises(whence.WhenceError, match="which only Linux has"):
        whence.Process(1)
"""


def test_portable_tests_run_without_what_only_linux_has(tmp_path: Path) -> None:
    """`make portable` runs all of them; here are one of them, and probes of what the plugin hides."""
    (tmp_path / "test_probes.py").write_text(PROBES)
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.helpers.elsewhere"]
    words += [str(tmp_path / "test_probes.py"), portable.listed()[0]]
    done = subprocess.run([sys.executable, *words], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stdout[-3000:]
    assert "failed" not in done.stdout


def test_a_night_is_summed_up(tmp_path: Path) -> None:
    (tmp_path / "agreement.xml").write_text(
        '<testsuites><testsuite tests="7" failures="1" errors="0" skipped="2"/></testsuites>'
    )
    (tmp_path / "speed.json").write_text('{"name addresses": {}}')
    text = nightly.summary(tmp_path, {"agreement": 1, "speed": 0}, 0.0)
    assert "- agreement: 7 tests, 1 failures, 0 errors, 2 skipped, 4 passed (exit code 1)\n- speed: 1 jobs" in text
    (tmp_path / "agreement.xml").unlink()
    assert "agreement: did not run" in nightly.summary(tmp_path, {"agreement": 2, "speed": 0}, 0.0)
