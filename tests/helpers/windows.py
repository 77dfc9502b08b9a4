"""Programs for Windows that zig's clang and linker make, with PDB files."""

from __future__ import annotations

import subprocess
import sys
from functools import cache
from pathlib import Path

import pytest

from tests.helpers.programs import folder

SOURCE = Path(__file__).parent.parent / "data" / "windows" / "program.cpp"


@cache
def program(machine: str, flags: str) -> Path:
    """Return the path of a program, with its PDB file next to it."""
    pytest.importorskip("ziglang")
    made = folder() / f"pdb-{machine}{flags.replace(' ', '')}"
    made.mkdir(exist_ok=True)
    zig = [sys.executable, "-m", "ziglang"]
    common = ["-g", "-ffreestanding", "-fno-exceptions", "-fno-rtti", "-fno-sanitize=all", "-fno-stack-protector"]
    target = ["-target", f"{machine}-windows-msvc"]
    compiled = [*zig, "c++", *target, *common, *flags.split(), "-c", str(SOURCE), "-o", "program.obj"]
    subprocess.run(compiled, cwd=made, check=True, capture_output=True)
    options = ["/nodefaultlib", "/entry:start", "/subsystem:console", "/debug", "/out:program.exe"]
    subprocess.run([*zig, "lld-link", *options, "program.obj"], cwd=made, check=True, capture_output=True)
    return made / "program.exe"
