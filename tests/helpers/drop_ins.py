"""Drop-in programs as their callers start them: by their names, each under a time-out."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.helpers.programs import folder

SECONDS = 60  # a caller that still waits then would wait for ever
LAUNCHER = """#!{python}
import sys
from whence.cli import main
sys.exit(main())
"""


def tool(name: str) -> str:
    found = shutil.which(name)
    if found is None:
        pytest.skip(f"{name} is not on this machine")
    return found


@functools.cache
def link(name: str) -> Path:
    """`whence` under another name, alone in a folder of its own."""
    launcher = folder() / "whence-launcher"
    launcher.write_text(LAUNCHER.format(python=sys.executable))
    launcher.chmod(0o755)
    place = folder() / f"bin-{name}" / name
    place.parent.mkdir()
    place.symlink_to(launcher)
    return place


def ask(name: str, *words: str, stdin: str | bytes = "", env: dict[str, str] | None = None) -> str:
    return asked(str(link(name)), *words, stdin=stdin, env=env).stdout.decode()


def asked(
    *words: str, stdin: str | bytes = "", env: dict[str, str] | None = None
) -> subprocess.CompletedProcess[bytes]:
    questions = stdin.encode() if isinstance(stdin, str) else stdin
    return subprocess.run(
        words, input=questions, capture_output=True, timeout=SECONDS, env={**os.environ, **(env or {})}
    )
