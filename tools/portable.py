"""Run the tests that need neither Linux nor its tools.

    python tools/portable.py WHEELS        install this system's wheel from a folder into an environment, and test it
    python tools/portable.py --build       build the wheel first
    python tools/portable.py --here        test this environment without what only Linux has: tests/helpers/elsewhere.py

tests/portable.txt lists the test files. CI runs them on macOS, Windows and Alpine; this program needs only Python, so
that it runs where nothing is installed.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LISTED = ROOT / "tests" / "portable.txt"
TESTERS = ("pytest>=8", "hypothesis>=6.100")


def listed() -> list[str]:
    """Return the test files, without comments."""
    return [line for line in LISTED.read_text().splitlines() if line and not line.startswith("#")]


def run(*words: str | Path, **environment: str) -> int:
    return subprocess.run(list(map(str, words)), cwd=ROOT, env={**os.environ, **environment}, check=False).returncode


def checked(*words: str | Path) -> None:
    status = run(*words)
    if status:
        sys.exit(f"{' '.join(map(str, words))}: exit {status}")


def install(folder: Path, wheels: Path) -> Path:
    """Make an environment with the wheel of this system; return its Python."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts/python.exe" if sys.platform == "win32" else "bin/python")
    pip: list[str | Path] = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    source: list[str | Path] = ["--no-index", "--find-links", wheels, "--no-deps", "--pre", "whence"]
    checked(*pip, *source)
    ask = "import importlib.metadata as m; print(*(r for r in m.requires('whence') if 'extra ==' not in r), sep='\\n')"
    needed = subprocess.run([python, "-c", ask], capture_output=True, text=True, check=True).stdout.splitlines()
    checked(*pip, "--only-binary=:all:", *needed, *TESTERS)
    return python


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the tests that need neither Linux nor its tools.")
    parser.add_argument("wheels", nargs="?", type=Path, help="a folder with a wheel of this system")
    parser.add_argument("--build", action="store_true", help="build the wheel")
    parser.add_argument("--here", action="store_true", help="in this environment, without what only Linux has")
    options = parser.parse_args()
    if sum(map(bool, (options.wheels, options.build, options.here))) != 1:
        parser.error("give a folder, --build or --here")
    words = ["-m", "pytest", "-q", "-p", "no:cacheprovider", *listed()]
    if options.here:
        return run(sys.executable, *words, "-p", "tests.helpers.elsewhere")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        wheels = (options.wheels or folder / "dist").resolve()
        if options.build:
            checked(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", wheels, ROOT)
        python = install(folder / "environment", wheels)
        # Files of tests are written nowhere else: the clone may be read-only.
        places = {"HYPOTHESIS_STORAGE_DIRECTORY": str(folder / "hypothesis"), "PYTHONDONTWRITEBYTECODE": "1"}
        return run(python, *words, **places)


if __name__ == "__main__":
    sys.exit(main())
