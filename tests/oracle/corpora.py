"""The debug packages that answers are compared on, fetched or unpacked already (WHENCE_CORPORA)."""

from __future__ import annotations

import os
import shutil
import subprocess
from pathlib import Path

import pytest

CACHE = Path(__file__).parent.parent.parent / ".cache" / "corpora"


# name: (package, files inside it (the largest that matches is taken), share of addresses that must agree)
CORPORA = {
    "libc": ("libc6-dbg", "usr/lib/debug/.build-id/*/*.debug", 0.999),
    "libpython": ("python3.11-dbg", "usr/lib/debug/.build-id/dc/*.debug", 0.999),
    "libstdc++": ("libstdc++6-12-dbg", "usr/lib/x86_64-linux-gnu/debug/libstdc++.so.6.*[0-9]", 0.999),
    "ceph-mds": ("ceph-mds-dbg", "usr/lib/debug/.build-id/*/*.debug", 0.999),
    "vmlinux": ("linux-image-cloud-amd64-dbg", "usr/lib/debug/boot/vmlinux-*", 0.999),
}


def fetched(package: str) -> Path:
    """The directory a package is unpacked in."""
    given = os.environ.get("WHENCE_CORPORA")
    if given and (Path(given) / package).is_dir():
        return Path(given) / package
    target = CACHE / package
    if not target.is_dir():
        for tool in ("apt-get", "dpkg"):
            if shutil.which(tool) is None:
                pytest.skip(f"{tool} is not installed")
        location = CACHE / f"{package}.part"
        location.mkdir(parents=True, exist_ok=True)
        done = subprocess.run(["apt-get", "download", real_name(package)], cwd=location, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"apt-get download {package}: {done.stderr.strip()[-200:]}")
        for archive in location.glob("*.deb"):
            subprocess.run(["dpkg", "-x", archive, location], check=True)
            archive.unlink()
        location.rename(target)
    return target


def real_name(package: str) -> str:
    """Return the package, or the dependency that a package without files refers to (the current kernel)."""
    done = subprocess.run(["apt-cache", "depends", "--important", package], capture_output=True, text=True)
    depends = [line.split()[-1] for line in done.stdout.splitlines() if "Depends:" in line]
    return next((name for name in depends if name.startswith("linux-image-") and name.endswith("-dbg")), package)


def tool(*names: str) -> str:
    """The first of these tools that is on this machine."""
    result = next((name for name in names if shutil.which(name)), None)
    if result is None:
        pytest.skip(f"{names[0]} is not installed")
    return result
