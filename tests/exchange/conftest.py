"""Commands run in this process."""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple, Protocol

import pytest

from whence.cli.main import main


class Done(NamedTuple):
    returncode: int
    stdout: str
    stderr: str


class Runner(Protocol):
    def __call__(self, *words: str | Path) -> Done: ...


@pytest.fixture
def run(capfd: pytest.CaptureFixture[str]) -> Runner:
    """Run a command."""

    def run(*words: str | Path) -> Done:
        code = main([str(word) for word in words])
        return Done(code, *capfd.readouterr())

    return run
