"""How far whence agrees with other tools, and how fast it is beside them, as files.

    python -m tools.nightly FOLDER

writes agreement.xml and agreement.txt (the tests that compare with other tools over big files), speed.json and
speed.txt (the benchmarks, which run the peers in the same run), and summary.md. Each part runs even if the one before
fails; the exit code is 1 if any did.
"""

from __future__ import annotations

import argparse
import json
import shutil
import subprocess
import sys
import time
from pathlib import Path
from xml.etree import ElementTree

from whence._version import __version__

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "benchmarks" / "results.json"


def run(out: Path, *words: str) -> int:
    """Run a Python program with its output in a file; return its exit code."""
    with open(out, "w") as file:
        return subprocess.run(
            [sys.executable, *words], cwd=ROOT, stdout=file, stderr=subprocess.STDOUT, check=False
        ).returncode


def outcomes(path: Path) -> dict[str, int]:
    """Return the numbers of tests by outcome in a JUnit file; none if it was not written."""
    try:
        suites = list(ElementTree.parse(path).getroot().iter("testsuite"))
    except (OSError, ElementTree.ParseError):
        return {}
    counts = {
        name: sum(int(suite.get(name, 0)) for suite in suites) for name in ("tests", "failures", "errors", "skipped")
    }
    counts["passed"] = counts["tests"] - counts["failures"] - counts["errors"] - counts["skipped"]
    return counts


def summary(folder: Path, codes: dict[str, int], began: float) -> str:
    """Return the night in a few lines."""
    counts = outcomes(folder / "agreement.xml")
    agreement = ", ".join(f"{count} {name}" for name, count in counts.items()) or "did not run"
    try:
        jobs = len(json.loads((folder / "speed.json").read_text()))
    except (OSError, ValueError):
        jobs = 0
    lines = [
        f"# whence {__version__}, {time.strftime('%Y-%m-%d', time.gmtime(began))}", "",
        f"- agreement: {agreement} (exit code {codes['agreement']})",
        f"- speed: {jobs} jobs (exit code {codes['speed']})",
        f"- {(time.time() - began) / 60:.0f} minutes",
    ]  # fmt: skip
    return "\n".join(lines) + "\n"


def main() -> int:
    parser = argparse.ArgumentParser(description="Write agreement and speed beside other tools as files.")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--benchmarks", nargs="*", default=[], metavar="NAME", help="only these (default: all)")
    parser.add_argument("--tests", nargs="*", default=["-m", "oracle"], metavar="WORD", help="pytest's words")
    options = parser.parse_args()
    folder = options.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    began = time.time()
    words = ["-m", "pytest", "-rA", "-p", "no:cacheprovider", f"--junitxml={folder / 'agreement.xml'}"]
    codes = {"agreement": run(folder / "agreement.txt", *words, *options.tests)}
    codes["speed"] = run(folder / "speed.txt", "-m", "benchmarks", "--record", *options.benchmarks)
    shutil.copy(RESULTS, folder / "speed.json")
    text = summary(folder, codes, began)
    (folder / "summary.md").write_text(text)
    print(text, end="")
    return 1 if any(codes.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
