"""Interpreters for the tests of Python frames (`make pythons-frames`), beside those of pyenv and of the PATH.

    python -m tools.frame_pythons    make them in .cache/pythons; print their paths, one per line

Debian's interpreters, release and debug builds, static and stripped, each with the C library of its suite, run in a
root of their own: a script enters it in a mount namespace, where only /tmp, /proc and /dev are those of this machine.
CPython 3.13 without the global lock is built from source. What cannot be had is said on stderr and left out.
"""

from __future__ import annotations

import os
import shlex
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tools import pythons

DEBIAN = {"bullseye": ("3.9",), "bookworm": ("3.11",), "sid": ("3.13", "3.14", "3.15")}
MOUNTS = ("/proc", "/dev", tempfile.gettempdir())
SCRIPT = """\
#!/bin/sh
exec unshare {options} sh -c {inner} python "$@"
"""


def debian(suite: str) -> Iterator[Path]:
    """Yield scripts that run the interpreters of a suite."""
    packages = [f"python{version}{kind}" for version in DEBIAN[suite] for kind in ("", "-dbg")]
    root = pythons.unpacked(suite, "amd64", *packages, name="frames")
    for name in ("bin", "lib", "lib64"):
        if not (root / name).exists():
            (root / name).symlink_to(f"usr/{name}")
    for mount in MOUNTS:
        (root / mount[1:]).mkdir(parents=True, exist_ok=True)
    for version in DEBIAN[suite]:
        for suffix in ("", "d"):
            yield script(root, suite, f"{version}{suffix}")


def script(root: Path, suite: str, version: str) -> Path:
    """Write a script that runs an interpreter in its root."""
    mounts = [f"mount --rbind {mount} {shlex.quote(str(root))}{mount}" for mount in MOUNTS]
    inner = " && ".join([*mounts, f'exec chroot {shlex.quote(str(root))} /usr/bin/python{version} "$@"'])
    options = "--mount" if os.geteuid() == 0 else "--mount --map-root-user"
    path = root.parent / f"{suite}-python{version}"
    path.write_text(SCRIPT.format(options=options, inner=shlex.quote(inner)))
    path.chmod(0o755)
    return path


def interpreters() -> Iterator[Path]:
    """Yield everything that can be had."""
    for suite in DEBIAN:
        try:
            yield from debian(suite)
        except SystemExit as error:
            print(f"Debian {suite} is left out: {error}", file=sys.stderr)
    try:
        yield pythons.free_threaded("3.13t")
    except SystemExit as error:
        print(f"CPython 3.13t is left out: {error}", file=sys.stderr)


if __name__ == "__main__":
    for interpreter in interpreters():
        print(interpreter)
