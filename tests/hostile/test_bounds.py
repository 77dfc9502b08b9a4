"""The bound itself: what breaks it fails."""

import time
from pathlib import Path

import pytest

from tests.hostile import bounded, interrupted

ROW = 1 << 20


def _work(seconds: float) -> int:
    start = time.process_time()
    while time.process_time() - start < seconds:
        pass
    return 7


def _hold(megabytes: int) -> int:
    return len(b"\1" * (megabytes * ROW))


def _refuse(words: str) -> None:
    raise ValueError(words)


def test_an_answer_or_the_errors_words_come_back() -> None:
    assert bounded(_work, 0.0, seconds=2, megabytes=60).answer == 7
    assert bounded(_refuse, "no", seconds=2, megabytes=60).error == "ValueError: no"


def test_a_call_that_takes_longer_fails() -> None:
    with pytest.raises(AssertionError, match=r"s of 0\.4"):
        bounded(_work, 0.8, seconds=0.4, megabytes=60)


def test_a_call_that_holds_more_fails() -> None:
    with pytest.raises(AssertionError, match="MB of 60"):
        bounded(_hold, 100, seconds=2, megabytes=60)
    assert "MemoryError" in bounded(_hold, 1000, seconds=2, megabytes=60).error


def test_a_command_gives_its_code_and_output(tmp_path: Path) -> None:
    (tmp_path / "empty").write_bytes(b"")
    outcome = bounded(["whence", "build-id", tmp_path / "empty"], seconds=2, megabytes=60)
    assert outcome.code == 3
    assert "empty" in outcome.error


def test_a_command_that_continues_after_ctrl_c_fails() -> None:
    stubborn = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\nwhile True: pass"
    with pytest.raises(AssertionError, match="after Ctrl-C"):
        interrupted(["python3", "-c", stubborn], after=0.1, within=0.3)
