"""What macOS and Windows lack is needed by nothing but live processes."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers import lesser_system
from tests.helpers.profiles import program_profile
from tests.helpers.programs import compiled
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
