"""A stranger's file is parsed in a process of its own: what that may not do, and what becomes of a crash."""

from __future__ import annotations

import platform
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.serving import TestClient
from tests.helpers.stores import Files
from whence.server import parsing
from whence.server.app import make_app
from whence.server.bodies import Refusal
from whence.server.settings import RequestLimits, ServerSettings

CONFINED = """
import os, socket, sys
from whence.server.parsing import confine
confine(1 << 30, 5)
try:
    {what}
except (OSError, MemoryError) as error:
    print(type(error).__name__)
else:
    print("done")
"""


def confined(what: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", CONFINED.format(what=what)], capture_output=True, text=True, timeout=60, check=False
    )
    return done.stdout.strip() or str(done.returncode)


@pytest.mark.skipif(platform.machine() not in parsing.LISTS, reason="the kernel's calls of this machine are not known")
@pytest.mark.parametrize("what", ["socket.socket()", 'os.execv("/bin/true", ["true"])'])
def test_sockets_and_programs_are_refused(what: str) -> None:
    assert confined(what) == "PermissionError"


def test_memory_is_limited_and_reading_goes_on() -> None:
    assert confined("bytearray(2 << 30)") == "MemoryError"
    assert confined("open(sys.executable, 'rb').read(100)") == "done"


def test_a_file_that_takes_too_long_or_crashes_the_process_is_422(
    files: Files, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsing.must_parse(str(files.whole), RequestLimits())
    with pytest.raises(Refusal) as late:
        parsing.must_parse(str(files.whole), RequestLimits(parse_seconds=0.01))
    assert late.value.status == 422
    crash = tmp_path / "python"
    crash.write_text("#!/bin/sh\nkill -SEGV $$\n")
    crash.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(crash))
    with TestClient(make_app(ServerSettings(store=str(tmp_path / "store")))) as client:
        answer = client.put(f"/buildid/{files.build_id}/debuginfo", content=files.debug.read_bytes())
        assert answer.status_code == 422
        assert "signal 11" in answer.json()["error"]
        assert client.get("/healthz").status_code == 200
