"""What exactly would name the rest of a file: the package, the file and the server of this machine's kind of Linux."""

from __future__ import annotations

import functools
import os
from collections.abc import Iterator
from pathlib import Path

from whence.locate.identity import key
from whence.profiles.reasons import Missing
from whence.reasons import Reason

SERVERS = {
    "debian": "https://debuginfod.debian.net",
    "ubuntu": "https://debuginfod.ubuntu.com",
    "fedora": "https://debuginfod.fedoraproject.org",
    "centos": "https://debuginfod.centos.org",
    "arch": "https://debuginfod.archlinux.org",
    "opensuse": "https://debuginfod.opensuse.org",
    "alpine": "https://debuginfod.elfutils.org",
}
ANY_SERVER = "https://debuginfod.elfutils.org"
OWN_PACKAGES = {"libc6": "libc6-dbg"}  # Debian keeps these in its main archive; others are PACKAGE-dbgsym
HELPED = (Reason.NO_DEBUG_FILE, Reason.NO_FILE, Reason.BUILD_ID_MISMATCH)


def remedy(missing: Missing, path: str, build_id: str, root: str = "/") -> str:
    """What to do about a file whose addresses have no names; "" in `build_id` where there is none."""
    if missing.advice or missing.reason not in HELPED:
        return missing.remedy
    ways = [missing.remedy]
    build_id = key(build_id)  # others name no file
    if missing.reason is Reason.NO_DEBUG_FILE:
        package = debug_package(path, root)
        ways = [f"install {package}" if package else "install the debug package"]
        ways.append(f"put {debug_path(build_id)} there" if build_id else "give a directory with --debug-dir")
    if build_id:
        ways.append(f"ask a server: --debuginfod {server(root)}")
    return "; or ".join(ways)


def debug_path(build_id: str) -> str:
    """Where debuggers look for the debug file of a build-id."""
    return f"/usr/lib/debug/.build-id/{build_id[:2]}/{build_id[2:]}.debug"


@functools.lru_cache(256)
def debug_package(path: str, root: str = "/") -> str:
    """The package with the debug file of an installed file, as Debian and its kin name it; "" where dpkg knows none."""
    lists = Path(root, "var/lib/dpkg/info")
    wanted = [f"\n{one}\n".encode() for one in {path, path.removeprefix("/usr")}]
    for name, data in _lists(lists) if path.startswith("/") else ():
        if any(one in data for one in wanted):
            package = name.removesuffix(".list").partition(":")[0]
            return OWN_PACKAGES.get(package, f"{package}-dbgsym")
    return ""


def _lists(folder: Path) -> Iterator[tuple[str, bytes]]:
    try:
        names = os.listdir(folder)
    except OSError:
        return
    for name in names:
        if name.endswith(".list"):
            try:
                yield name, (folder / name).read_bytes()
            except OSError:
                continue


@functools.lru_cache(4)
def server(root: str = "/") -> str:
    """The debuginfod server of this kind of Linux (os-release(5)); the one that asks all of them otherwise."""
    try:
        lines = Path(root, "etc/os-release").read_text("utf-8", "replace").splitlines()
    except OSError:
        return ANY_SERVER
    told = dict(line.split("=", 1) for line in lines if "=" in line)
    kinds = f"{told.get('ID', '')} {told.get('ID_LIKE', '')}".replace('"', "").split()
    return next((SERVERS[one] for one in kinds if one in SERVERS), ANY_SERVER)
