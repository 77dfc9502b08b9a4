"""The lines of the parsers that the seeds of the fuzz targets reach, Python's and those of kernels.

    python -m tools.fuzz_coverage [FOLDER ...]        FOLDER: inputs that were found, as TARGET/NAME (.cache/oss-fuzz)

A copy of the sources is built in .cache/covered with gcc's --coverage and with line numbers of the kernels' sources, so
that gcov counts lines of Python code. coverage.py counts the lines of other modules. Prints a row for each package, as
docs/bounds.md has them.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections import defaultdict
from contextlib import suppress
from importlib import import_module
from pathlib import Path

from tools import corpus

ROOT = Path(__file__).parent.parent
COPY = ROOT / ".cache" / "covered"
PARSERS = (
    "objects", "dwarf", "pdb", "gopclntab", "exchange", "lidia", "procmap", "dumps", "unwind", "interpreters", "types",
    "gotrace", "perfdata", "profiles/formats", "filter", "columns",
)  # fmt: skip
# Runs setup.py with line numbers of the sources in the C code.
BUILD = """
import runpy, sys
from Cython.Compiler.Options import default_options
default_options["emit_linenums"] = True
sys.argv = ["setup.py", "--quiet", "build_ext", "--inplace"]
runpy.run_path("setup.py", run_name="__main__")
"""
DATA = COPY / "python.json"


def run(*words: str | Path, **environment: str) -> str:
    done = subprocess.run(
        list(map(str, words)), cwd=COPY, env={**os.environ, **environment}, capture_output=True, text=True
    )
    if done.returncode:
        sys.exit(f"{words[0]}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-3000:]}")
    return done.stdout


def build() -> None:
    """Copy the sources; build the kernels, unless this was done since they changed."""
    newest = max(path.stat().st_mtime for path in [ROOT / "setup.py", *(ROOT / "src").rglob("kernels/*.p*")])
    done = COPY / "built"
    is_built = done.exists() and done.stat().st_mtime > newest
    if not is_built:
        shutil.rmtree(COPY, ignore_errors=True)
    for name in ("src", "tools", "fuzz", "tests", "setup.py", "pyproject.toml", "README.md", "LICENSE", "bin", "share"):
        source = ROOT / name
        if source.is_dir():
            unused = shutil.ignore_patterns("*.so", "__pycache__")
            shutil.copytree(source, COPY / name, ignore=unused, dirs_exist_ok=True)
        else:
            shutil.copy2(source, COPY / name)
    if not is_built:
        run(sys.executable, "-c", BUILD, WHENCE_CHECKED="1", CFLAGS="--coverage", LDFLAGS="--coverage")
        done.touch()


def feed(folders: list[str]) -> None:
    """Give every target its inputs. Runs in the copy, under coverage.py."""
    from whence._base.errors import WhenceError

    for name in corpus.names():
        module = import_module(f"fuzz.{name}")
        result = [path for folder in folders for path in sorted(Path(folder, name).glob("*")) if path.is_file()]
        for data in (*module.seeds(), *(path.read_bytes() for path in result)):
            with suppress(WhenceError):
                module.target(data)


def package_of(path: str) -> str:
    """Return the parser that a file belongs to, by its path in src, or "".

    >>> package_of("src/whence/dwarf/info.py"), package_of("whence/dwarf/kernels/leb.py"), package_of("whence/cli/x.py")
    ('dwarf', 'dwarf', '')
    """
    inner = path.removeprefix("src/").removeprefix("whence/")
    return next((name for name in PARSERS if inner.startswith(f"{name}/")), "")


def python_lines() -> dict[str, tuple[int, int]]:
    """Return the number of lines that were run, and of all, for each parser."""
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for module, entry in json.loads(DATA.read_text())["files"].items():
        summary, name = entry["summary"], package_of(module)
        if name and "/kernels/" not in module:
            counts[name][0] += summary["covered_lines"]
            counts[name][1] += summary["num_statements"]
    return {name: (covered, total) for name, (covered, total) in counts.items()}


def kernel_lines() -> dict[str, tuple[int, int]]:
    """Return the number of lines of kernels that were run, and of all, for each parser."""
    lines: dict[tuple[str, int], bool] = {}
    for path in sorted(COPY.rglob("*.gcda")):
        for text in run("gcov", "--json-format", "--stdout", path).splitlines():
            for file in json.loads(text)["files"]:
                if "/kernels/" in file["file"] and file["file"].endswith(".py"):
                    for line in file["lines"]:
                        key = file["file"], line["line_number"]
                        lines[key] = lines.get(key, False) or line["count"] > 0
    counts: dict[str, list[int]] = defaultdict(lambda: [0, 0])
    for (kernel, _), covered in lines.items():
        if name := package_of(kernel):
            counts[name][0] += covered
            counts[name][1] += 1
    return {name: (covered, total) for name, (covered, total) in counts.items()}


def share(counts: tuple[int, int]) -> str:
    """Return a number of lines and the share of them that was run.

    >>> share((3, 4)), share((0, 0))
    ('75 % of 4', '-')
    """
    covered, total = counts
    return f"{100 * covered / total:.0f} % of {total:,}" if total else "-"


def main(folders: list[str]) -> None:
    if os.environ.get("WHENCE_FEED"):
        feed(folders)
        return
    build()
    for path in COPY.rglob("*.gcda"):
        path.unlink()
    command = [sys.executable, "-m", "coverage"]
    environment = {"PYTHONPATH": f"{COPY / 'src'}{os.pathsep}{COPY}", "WHENCE_FEED": "1"}
    inputs = [str(Path(folder).resolve()) for folder in folders or [str(ROOT / ".cache" / "oss-fuzz")]]
    run(
        *command,
        "run",
        "--rcfile=/dev/null",
        "--source=src/whence",
        "-m",
        "tools.fuzz_coverage",
        *inputs,
        **environment,
    )
    run(*command, "json", "--rcfile=/dev/null", "-q", "-o", DATA)
    python, kernels = python_lines(), kernel_lines()
    print("| parser | lines of Python | lines of kernels |\n|---|---|---|")
    for name in PARSERS:
        print(f"| {name} | {share(python.get(name, (0, 0)))} | {share(kernels.get(name, (0, 0)))} |")
    sums = [tuple(map(sum, zip(*each.values()))) if each else (0, 0) for each in (python, kernels)]
    print(f"| all | {share((sums[0][0], sums[0][1]))} | {share((sums[1][0], sums[1][1]))} |")


if __name__ == "__main__":
    main(sys.argv[1:])
