"""Processes that take ELF files into a store: threads of one Python get in each other's way.

A Worker starts `CODE` when it is first asked (worker_process.py), and talks with it in JSON, a line for each question
and each answer, after a line with the store and the Terms:

    ["file", PATH, ORIGIN, BUILD_ID | null, WANTED, ALONE]      {"outcomes": [[...], ...], "due": BUILD_ID}
    ["received", [PATH, SIZE, SHA256, ORIGIN, MOVABLE], ALONE]  the same
    ["finish", BUILD_ID]                                        the same
                                                                {"failed": [ERRNO, TEXT, FILE]}: the store's OSError

The process ends when its input does, also because the one that asked was killed. One that dies of a file leaves a whole
store, as any writer does (leases.py); the file is refused, and the next question starts another process. A new process
is started rather than forked: a fork of a process with threads may hang.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from whence._base.records import values_of
from whence.locate.search import FileKind
from whence.store.outcomes import REFUSED, Added
from whence.store.taking import Taken

if TYPE_CHECKING:
    from whence.store.outcomes import Outcomes, Received
    from whence.store.taking import Terms

CODE = "import sys; sys.path[:] = sys.argv[1:]; from whence.store.worker_process import main; main()"


class Stopped(BaseException):
    """The work was given up meanwhile."""


class Worker:
    """Takes ELF files into the store in a folder, in a process of its own. For one thread at a time."""

    def __init__(self, root: str, *, jobs: int | None, compress: bool, terms: Terms) -> None:
        self._setting = [root, jobs, compress, *values_of(terms)]
        self._process: subprocess.Popen[bytes] | None = None
        self._stopped = False
        self._lock = threading.Lock()  # of what starts a process and what ends it

    def file(self, path: str, origin: str, build_id: str | None, wanted: str, alone: bool) -> Taken:
        return self._ask(["file", path, origin, build_id, wanted, alone], origin)

    def received(self, received: Received, alone: bool) -> Taken:
        path, *rest = values_of(received)
        return self._ask(["received", [str(path), *rest], alone], received.origin)

    def finish(self, build_id: str) -> Outcomes:
        return self._ask(["finish", build_id], "archive", build_id).outcomes

    def _ask(self, question: list[Any], origin: str, build_id: str = "") -> Taken:
        process = self._started()
        assert process.stdin is not None
        assert process.stdout is not None
        line = b""
        with suppress(BrokenPipeError):
            process.stdin.write(json.dumps(question).encode() + b"\n")
            process.stdin.flush()
            line = process.stdout.readline()
        if not line.endswith(b"\n"):
            return Taken([Added(origin, REFUSED, self._ended(process), build_id)])
        answer = json.loads(line)
        if "failed" in answer:
            raise OSError(*answer["failed"])
        return Taken([_outcome(*one) for one in answer["outcomes"]], answer["due"])

    def _started(self) -> subprocess.Popen[bytes]:
        with self._lock:
            if self._stopped:
                raise Stopped
            if self._process is None:
                command = [sys.executable, "-c", CODE, *sys.path]
                self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
                assert self._process.stdin is not None
                with suppress(BrokenPipeError):
                    self._process.stdin.write(json.dumps(self._setting).encode() + b"\n")
            return self._process

    def _ended(self, process: subprocess.Popen[bytes]) -> str:
        """Why a process ended by itself, in words. Raises Stopped when it was asked to end."""
        with self._lock:
            if self._stopped:
                raise Stopped
            self._process = None
        _close(process)
        code = process.wait()
        how = f"signal {-code}" if code < 0 else f"exit code {code}"
        return f"the process that read it ended with {how}"

    def stop(self) -> None:
        """Kill the process in the middle of its work; what it was asked raises Stopped."""
        with self._lock:
            self._stopped = True
            if self._process is not None:
                self._process.kill()

    def close(self) -> None:
        """Let the process end: soon, for nothing is asked any more."""
        with self._lock:
            process, self._process = self._process, None
        if process is None:
            return
        _close(process)
        process.wait()


def _outcome(origin: str, outcome: str, why: str, build_id: str, kind: str, size: int) -> Added:
    return Added(origin, outcome, why, build_id, FileKind(kind) if kind else "", size)


def _close(process: subprocess.Popen[bytes]) -> None:
    """Close the pipes to a process."""
    for pipe in (process.stdin, process.stdout):
        if pipe is not None:
            with suppress(BrokenPipeError):
                pipe.close()
