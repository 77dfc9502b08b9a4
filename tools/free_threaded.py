"""Run the tests on a Python without the global lock, each test in several threads at once.

    python -m tools.free_threaded [--threads N] [3.13t | 3.14t] [TEST ...]

The interpreter is `python3.13t` of the PATH, or built from Debian's source (tools/pythons.py). The environment,
.venv-3.13t, has the packages of the tests that have wheels for it; the others are printed, and the tests that need them
are skipped with a reason (tests/helpers/free_threaded.py). The lock stays off.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tomllib
from pathlib import Path

from tools import pythons

ROOT = Path(__file__).parent.parent
FROM_SOURCE = ("pydemumble",)  # small enough to be built, and many tests need readable names
UV = Path(sys.executable).with_name("uv")


def requirements() -> list[str]:
    """Return what whence and its tests need, without what only documents and releases need."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())
    groups = project["dependency-groups"]
    every = [*project["project"]["dependencies"], *groups["test"], *groups["build"], *groups["threads"]]
    return list(dict.fromkeys(each for each in every if isinstance(each, str)))


def install(python: Path, *words: str) -> bool:
    """Install packages; return True if that worked."""
    command: list[str | Path] = [UV, "pip", "install", "--quiet", "--python", python, *words]
    environment = {"UV_SYSTEM_CERTS": "1", **os.environ}
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True).returncode == 0


def environment(name: str) -> Path:
    """Make the environment of a Python, build whence in it, and return its interpreter."""
    folder = ROOT / f".venv-{name}"
    python = folder / "bin" / "python"
    if not python.exists():
        pythons.run(pythons.free_threaded(name), "-m", "venv", "--without-pip", folder)
    missing = []
    for requirement in requirements():
        binary = () if requirement.startswith(FROM_SOURCE) else ("--only-binary", ":all:")
        if not install(python, *binary, requirement):
            missing.append(requirement.partition(">")[0].partition("=")[0])
    print(f"{name}: no wheels of {', '.join(missing) or 'nothing'}", flush=True)
    pythons.run(UV, "pip", "install", "--quiet", "--no-build-isolation", "--no-deps", "--python", python, "-e", ROOT)
    return python


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the tests on a Python without the global lock.")
    parser.add_argument("name", nargs="?", default="3.14t", choices=sorted(pythons.FREE_THREADED))
    parser.add_argument("tests", nargs="*", default=["tests"], metavar="TEST", help="files and folders (tests)")
    parser.add_argument("--threads", type=int, default=4, metavar="N", help="run each test in N threads at once (4)")
    options = parser.parse_args()
    python = environment(options.name)
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", "-p", "tests.helpers.free_threaded"]
    words += [f"--parallel-threads={options.threads}", *options.tests]
    return subprocess.run([python, *words], cwd=ROOT, env={**os.environ, "PYTHON_GIL": "0"}).returncode


if __name__ == "__main__":
    sys.exit(main())
