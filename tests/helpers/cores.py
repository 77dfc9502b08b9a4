"""Core files of programs that end by a signal, as the kernel writes them."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import pytest

CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")


def core_of(program: Path, *arguments: str) -> Path:
    """The core that a program left, in a folder of its own; skips the test where the kernel writes none there."""
    if CORE_PATTERN.read_text().strip() not in ("core", "core.%p"):
        pytest.skip("cores do not go into the folder of the process here")
    folder = program.parent / f"{program.name}-{'-'.join(arguments) or 'run'}"
    folder.mkdir()

    def allow() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    subprocess.run([program, *arguments], cwd=folder, preexec_fn=allow, timeout=60)
    cores = list(folder.glob("core*"))
    if not cores:
        pytest.skip("no core was left")
    return cores[0]
