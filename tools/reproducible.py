"""Build whence twice and compare the bytes.

    python -m tools.reproducible [--sdist]

The builds are in folders of other names and depths, with files of other times, another umask, time zone, language and
hash seed. Both the source distribution and the wheel (not with --sdist) must be equal. Exit code 1 and the first
difference if they are not.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
LEFT_OUT = shutil.ignore_patterns(
    "build",
    "dist",
    ".git",
    ".venv*",
    ".cache",
    ".*_cache",
    ".hypothesis",
    "__pycache__",
    "*.so",
    "*.egg-info",
    "_build",
)
DAY = 86400
# How the second build differs from the first: folder, age of the files in days, umask, environment.
BUILDS: tuple[tuple[str, int, int, dict[str, str]], ...] = (
    ("one", 0, 0o022, {"TZ": "UTC", "LC_ALL": "C", "PYTHONHASHSEED": "1"}),
    ("a/longer/path/two", 400, 0o077, {"TZ": "Asia/Tokyo", "LC_ALL": "C.UTF-8", "PYTHONHASHSEED": "2"}),
)


def copy(folder: Path, age: int, umask: int) -> None:
    """Copy the sources into a folder, with other times and permissions."""
    shutil.copytree(ROOT, folder, ignore=LEFT_OUT)
    for path in folder.rglob("*"):
        past = path.stat().st_mtime - age * DAY
        os.utime(path, (past, past))
        path.chmod(path.stat().st_mode & ~umask)


def build(folder: Path, umask: int, environment: dict[str, str], *, only_sdist: bool) -> dict[str, bytes]:
    """Build the sources in a folder and return the files by name."""
    out = folder / "out"
    words = [
        sys.executable,
        "-m",
        "build",
        "--no-isolation",
        "--outdir",
        str(out),
        *(["--sdist"] if only_sdist else []),
    ]
    clean = {name: value for name, value in os.environ.items() if name not in ("SOURCE_DATE_EPOCH", "WHENCE_PROGRESS")}
    done = subprocess.run(
        words, cwd=folder, env={**clean, **environment}, umask=umask, capture_output=True, text=True, check=False
    )
    if done.returncode:
        sys.exit(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr[-3000:]}")
    return {path.name: path.read_bytes() for path in sorted(out.iterdir())}


def members(path: Path) -> Iterator[tuple[str, bytes]]:
    """Yield name and content of each file in a wheel or a source distribution."""
    if path.suffix == ".whl":
        with zipfile.ZipFile(path) as archive:
            yield from ((f"{info.filename} {info.external_attr:#x} {info.date_time}", archive.read(info))
                        for info in archive.infolist())  # fmt: skip
    else:
        with tarfile.open(path) as tar:
            for member in tar:
                file = tar.extractfile(member)
                head = f"{member.name} {member.mode:o} {member.mtime} {member.uid} {member.uname}"
                yield head, file.read() if file else b""


def difference(first: bytes, second: bytes, name: str) -> str:
    """Return what differs between two builds of a file."""
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder, f"{number}-{name}") for number in (1, 2)]
        for path, content in zip(paths, (first, second)):
            path.write_bytes(content)
        left, right = ([*members(path)] for path in paths)
    for each, other in zip(left, right):
        if each != other:
            what = "" if each[0] == other[0] else f" (other build: {other[0]})"
            return f"{each[0]}{what}: {len(each[1])} and {len(other[1])} bytes"
    return "the compressed bytes" if len(left) == len(right) else f"{len(left)} and {len(right)} files"


def compare(*, only_sdist: bool) -> list[str]:
    """Build twice; return the differences. Print names and checksums."""
    with tempfile.TemporaryDirectory(prefix="reproducible") as folder:
        for name, age, umask, _ in BUILDS:  # before the first build, so that both are of the same sources
            copy(Path(folder, name), age, umask)
        first, second = (
            build(Path(folder, name), umask, environment, only_sdist=only_sdist)
            for name, _, umask, environment in BUILDS
        )
    for name, content in first.items():
        print(hashlib.sha256(content).hexdigest(), name)
    if first.keys() != second.keys():
        return [f"{sorted(first)} and {sorted(second)}"]
    return [
        f"{name}: {difference(first[name], second[name], name)}" for name in first if first[name] != second[name]
    ]  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description="Build whence twice and compare the bytes.")
    parser.add_argument("--sdist", action="store_true", help="only the source distribution, in seconds")
    problems = compare(only_sdist=parser.parse_args().sdist)
    print("\n".join(problems) or "equal")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
