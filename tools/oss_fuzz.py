"""Build and run the targets of fuzz/oss-fuzz here, as OSS-Fuzz does in its image.

    python -m tools.oss_fuzz [--seconds N] [TARGET ...]

Each target gets its seed corpus and its dictionary and runs under atheris for N seconds (5). A finding ends the program
with exit code 1 and leaves its input in .cache/oss-fuzz/TARGET. The script build.sh is checked by `bash -n`, the
dictionaries by libFuzzer.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from tools import corpus

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "fuzz" / "oss-fuzz"
KEPT = ROOT / ".cache" / "oss-fuzz"
RUNS = re.compile(r"Done (\d+) runs")
COVERED = re.compile(r"cov: (\d+)")


def run(name: str, seeds: Path, seconds: int) -> str:
    """Run a target; return a line about it. Raises RuntimeError with libFuzzer's words for a finding."""
    kept = KEPT / name
    kept.mkdir(parents=True, exist_ok=True)
    words = [sys.executable, str(FOLDER / "fuzz_target.py"), str(kept), str(seeds), f"-max_total_time={seconds}"]
    words += [f"-artifact_prefix={kept}/", "-rss_limit_mb=2560", "-timeout=60", "-max_len=1048576"]
    path = corpus.dictionary(name)
    words += [f"-dict={path}"] if path else []
    environment = {**os.environ, "WHENCE_FUZZ_TARGET": name, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(words, env=environment, capture_output=True, text=True, cwd=ROOT)
    if done.returncode or not RUNS.search(done.stderr):
        said = [line for line in done.stderr.splitlines() if not line.startswith("INFO: ")]
        raise RuntimeError("\n".join(said)[-3000:])
    covered = COVERED.findall(done.stderr)
    return f"{name:16} {int(RUNS.findall(done.stderr)[-1]):>8,} runs, {int(covered[-1]) if covered else 0:>6,} edges"


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the targets of fuzz/oss-fuzz here.")
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--seconds", type=int, default=5, help="for each target (5)")
    options = parser.parse_args()
    unknown = {*options.targets} - {*corpus.names()}
    if unknown:
        parser.error(f"no target named {', '.join(sorted(unknown))}")
    subprocess.run(["bash", "-n", str(FOLDER / "build.sh")], check=True)
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        counts = corpus.write(Path(folder))
        for name in options.targets or corpus.names():
            try:
                print(f"{run(name, Path(folder, name), options.seconds)}, {counts[name]} seeds", flush=True)
            except RuntimeError as error:
                failed += 1
                print(f"{name}: {error}", file=sys.stderr, flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
