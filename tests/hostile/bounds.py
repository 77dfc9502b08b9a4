"""Runs a function or a command in a process of its own and holds it to a bound.

`bounded(call, *arguments, seconds=, megabytes=)` takes a function of a module (pickled by name, as its arguments and
answer are) or a command as a list, whose first word may be "whence". Both bounds are of the whole process, the
interpreter's start (about 0.1 s and 20 MB) included. Time is processor time, so that a busy machine fails no test;
memory is the peak of resident bytes. RLIMITs stop a process that exceeds its bound by far.
"""

from __future__ import annotations

import math
import os
import pickle
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
MEGABYTE = 1 << 20
HERE = str(Path(__file__).with_name("child.py"))
TICKS = os.sysconf("SC_CLK_TCK")
BUSY = 30  # times as long as a command may work it may take by the clock, where others are at work
CAUGHT = 70  # the exit code of a function's process that raised


@dataclass(frozen=True)
class Outcome:
    """What a bounded run gave: a function's `answer`, or a command's exit `code` and `out`; `error` is the text of an
    exception (`TypeName: words`) or of stderr."""

    answer: Any
    code: int
    out: bytes
    error: str
    seconds: float
    megabytes: float


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    name: str
    stored: int
    seconds: float
    megabytes: float
    bound: tuple[float, float]


ROWS: list[Row] = []


def bounded(
    run: Callable[..., Any] | Sequence[str | Path],
    *arguments: Any,
    seconds: float,
    megabytes: float,
    name: str = "",
    stored: int | None = None,
    stdin: bytes = b"",
) -> Outcome:
    """Runs it, asserts that it took no more than `seconds` of processor time and `megabytes` of memory, and that no
    signal ended it. `name` and `stored` are for the table: by default the test's name, and the sizes of the files and
    bytes among the arguments."""
    if stored is None:
        stored = len(stdin) + sum(_stored(each) for each in (arguments if callable(run) else run))
    with tempfile.TemporaryDirectory(prefix="hostile") as folder:
        location = Path(folder)
        if callable(run):
            (location / "call").write_bytes(pickle.dumps((run, arguments)))
            command = [
                sys.executable,
                "-m",
                "tests.hostile.child",
                "call",
                str(location / "call"),
                str(location / "answer"),
            ]
        else:
            command = _command(run)
        limits = [str(math.ceil(seconds) + 1), str(int((2 * megabytes + 512) * MEGABYTE)), str(location / "usage")]
        with open(location / "out", "wb") as out, open(location / "err", "wb") as err:
            done = subprocess.run(
                # A small process between: what a process had resident before it ran another program counts as its own.
                [sys.executable, "-S", "-E", HERE, "limit", *limits, *command],
                input=stdin,
                stdout=out,
                stderr=err,
                env=_environment(),
                cwd=ROOT,
                timeout=60 + 20 * seconds,
                check=False,
            )
        error = (location / "err").read_text(errors="replace")
        code, took, peak = (float(number) for number in (location / "usage").read_text().split())
        answer = None
        if (location / "answer").exists():
            answer, error = pickle.loads((location / "answer").read_bytes())
        outcome = Outcome(answer, int(code), (location / "out").read_bytes(), error, took, peak / 1024)
    if name == "":
        name = os.environ.get("PYTEST_CURRENT_TEST", "?").rpartition("::")[2].removesuffix(" (call)")
    ROWS.append(Row(name, stored, outcome.seconds, outcome.megabytes, (seconds, megabytes)))
    assert done.returncode == 0, error
    limit = f"{outcome.seconds:.2f} s of {seconds}, {outcome.megabytes:.0f} MB of {megabytes}: {error[-2000:]}"
    assert outcome.seconds <= seconds, limit
    assert outcome.megabytes <= megabytes, limit
    assert outcome.code >= 0, f"ended by {signal.Signals(-outcome.code).name}: {limit}"
    assert not (outcome.code == 1 and "Traceback (most recent call last)" in error), error
    return outcome


def interrupted(command: Sequence[str | Path], *, after: float = 0.5, within: float = 1.0, **options: Any) -> Outcome:
    """Sends SIGINT to a command that has worked for `after` seconds of processor time, and asserts that it ends with
    130 after at most `within` more. By the clock it may take BUSY times as long: others may be at work."""
    with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
        process = subprocess.Popen(_command(command), stdout=out, stderr=err, env=_environment(), cwd=ROOT, **options)
        try:
            while (before := _processor(process.pid)) < after:
                assert process.poll() is None, f"it ended before it had worked for {after} s: make the input larger"
                time.sleep(0.01)
            sent = time.monotonic()
            process.send_signal(signal.SIGINT)  # which looks whether it has ended
            assert process.returncode is None, f"it ended when it had worked for {after} s: make the input larger"
            while os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is None:
                waited, worked = time.monotonic() - sent, _processor(process.pid) - before
                assert worked <= within, f"still at work {worked:.1f} s of processor time after Ctrl-C"
                assert waited <= BUSY * within, f"still there {waited:.1f} s after Ctrl-C"
                time.sleep(0.01)
            waited = time.monotonic() - sent
        finally:
            process.kill()
            code = process.wait()
        out.seek(0)
        err.seek(0)
        words = err.read().decode(errors="replace")
        assert code in (130, -signal.SIGINT), f"exit {code}: {words[-2000:]}"
        assert "Traceback" not in words, words
        return Outcome(None, code, out.read(), words, waited, 0)


def processor_time(command: Sequence[str | Path]) -> float:
    """Return the seconds of processor time that a command needs."""
    before = os.times()
    subprocess.run(_command(command), env=_environment(), cwd=ROOT, check=True, capture_output=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def _command(words: Sequence[str | Path]) -> list[str]:
    first, *rest = (os.fspath(word) for word in words)
    return [sys.executable, "-m", "whence", *rest] if first == "whence" else [first, *rest]


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT), "DEBUGINFOD_URLS": ""}


def _stored(argument: Any) -> int:
    """The bytes of a file or of bytes; 0 of anything else."""
    if isinstance(argument, bytes | bytearray | memoryview):
        return len(argument)
    if isinstance(argument, str | Path) and os.path.isfile(argument):
        return os.path.getsize(argument)
    return 0


def _processor(pid: int) -> float:
    """Processor time of a process so far, seconds."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS
