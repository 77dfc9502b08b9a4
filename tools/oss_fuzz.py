"""Build and run the targets of fuzz/oss-fuzz here, as OSS-Fuzz does in its image.

    python -m tools.oss_fuzz [--seconds N] [TARGET ...]
    python -m tools.oss_fuzz --script

Each target gets its seed corpus and its dictionary and runs under atheris for N seconds (5). A finding ends the program
with exit code 1 and leaves its input in .cache/oss-fuzz/TARGET; libFuzzer checks the dictionaries. `--script` runs
build.sh on a clone, with the variables and programs of OSS-Fuzz's image (minutes), and starts a target that it built.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import venv
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


# In place of the image's program, which packs each target with PyInstaller: a script that starts the target.
COMPILE_PYTHON_FUZZER = """#!/bin/bash -eu
name=$(basename -s .py "$1")
[[ "$*" == *"--hidden-import fuzz."* ]]
cp "$1" "$OUT/$name.pkg.py"
printf '#!/bin/sh\\nPYTHONPATH=%s exec %s "$0.pkg.py" "$@"\\n' "$SRC/whence" "$(command -v python3)" > "$OUT/$name"
chmod +x "$OUT/$name"
"""


def run_script() -> str:
    """Run build.sh as in OSS-Fuzz's image; return a line about it. Raises RuntimeError if it fails."""
    with tempfile.TemporaryDirectory() as folder:
        base = Path(folder)
        source, out, work, programs = (base / name for name in ("src", "out", "work", "programs"))
        for each in (source, out, work, programs):
            each.mkdir()
        subprocess.run(["git", "clone", "-q", ROOT, source / "whence"], check=True)
        venv.create(base / "python", with_pip=True)
        python = base / "python" / "bin"
        subprocess.run([python / "python3", "-m", "pip", "install", "-q", "atheris>=3"], check=True)
        compiler = programs / "compile_python_fuzzer"
        compiler.write_text(COMPILE_PYTHON_FUZZER)
        compiler.chmod(0o755)
        clang = next((each for each in ("clang", "clang-19", "clang-18") if shutil.which(each)), "cc")
        environment = {
            **os.environ, "PATH": f"{programs}:{python}:{os.environ['PATH']}", "CC": os.environ.get("CC", clang),
            "CFLAGS": "-O1 -fno-omit-frame-pointer -gline-tables-only", "SRC": str(source), "OUT": str(out),
            "WORK": str(work),
        }  # fmt: skip
        done = subprocess.run(
            ["bash", "-eu", str(FOLDER / "build.sh")], env=environment, capture_output=True, text=True
        )
        if done.returncode:
            raise RuntimeError(f"build.sh: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-2000:]}")
        for name in corpus.names():
            made = [f"fuzz_{name}", f"fuzz_{name}_seed_corpus.zip", f"fuzz_{name}.options"]
            made += [f"fuzz_{name}.dict"] if corpus.dictionary(name) else []
            missing = [each for each in made if not (out / each).exists()]
            if missing:
                raise RuntimeError(f"build.sh: made no {', '.join(missing)}")
        tried = subprocess.run([out / "fuzz_elf", "-runs=100"], capture_output=True, text=True, cwd=work)
        if tried.returncode or not RUNS.search(tried.stderr):
            raise RuntimeError(tried.stderr[-3000:])
        return f"build.sh: {len(corpus.names())} targets; fuzz_elf ran"


def main() -> int:
    parser = argparse.ArgumentParser(description="Run the targets of fuzz/oss-fuzz here.")
    parser.add_argument("targets", nargs="*", metavar="TARGET")
    parser.add_argument("--script", action="store_true", help="run build.sh as OSS-Fuzz's image does")
    parser.add_argument("--seconds", type=int, default=5, help="for each target (5)")
    options = parser.parse_args()
    unknown = {*options.targets} - {*corpus.names()}
    if unknown:
        parser.error(f"no target named {', '.join(sorted(unknown))}")
    if options.script:
        try:
            print(run_script())
        except RuntimeError as error:
            print(error, file=sys.stderr)
            return 1
        return 0
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
