"""The wheels of a release, each built on this Linux machine with ziglang's `zig cc` as cross compiler.

    python -m tools.wheels [-o FOLDER] [NAME...]      (NAME: a key of TARGETS or ELSEWHERE; all without one)

Each wheel is built from the source distribution, so that it holds what that holds. A musl wheel's kernels need
"libc.so" when zig links them: on a machine with glibc's development files that name is a linker script, which
auditwheel can't read. patchelf gives them the name that musl's loader has. Then every wheel is checked.

A free-threaded Python has no limited API before 3.15: 3.13t and 3.14t have wheels of their own, built by those. For
macOS and Windows every kernel is compiled and nothing more, for nothing here could run it.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import sys
import sysconfig
import tempfile
import zipfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

from tools import pythons
from tools.pythons import run

ROOT = Path(__file__).parent.parent
LIMIT_BYTES = 3_000_000
FREE_THREADED_LIMIT_BYTES = 3_500_000  # without the limited API, kernels have more code
NEVER = re.compile(r"\.(pxd|c|h|so\.py|pyc)$|/kernels/(?!__init__)\w+\.py$|(^|/)tests?/")
SBOM = ".dist-info/sboms/whence.cdx.json"
KEPT = re.compile(r"/cli/demo\.c$")  # the demo compiles it


class Target(NamedTuple):
    """A platform: zig's name of it, the tag of its wheel, and the libc that musl's loader answers to."""

    zig: str
    tag: str
    libc: str = ""
    free_threaded: str = ""  # the Python, which has no limited API


TARGETS = {
    "manylinux-x86_64": Target("x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64"),
    "manylinux-aarch64": Target("aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64"),
    "musllinux-x86_64": Target("x86_64-linux-musl", "musllinux_1_2_x86_64", "libc.musl-x86_64.so.1"),
    "musllinux-aarch64": Target("aarch64-linux-musl", "musllinux_1_2_aarch64", "libc.musl-aarch64.so.1"),
    "3.13t": Target("x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64", free_threaded="3.13t"),
    "3.14t": Target("x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64", free_threaded="3.14t"),
}

# Where kernels are compiled and no more: zig's name, and the kernels that are left out there, as setup.py has it.
ELSEWHERE = {
    "macos": ("aarch64-macos", ("unwind/kernels/ptrace.c",)),
    "windows": ("x86_64-windows-gnu", ("unwind/kernels/ptrace.c", "whence/kernels/mapped.c")),
}

# Calls into Python go through the table of addresses at once, and functions that no kernel calls are left out. The
# build-id tells profilers one build of the kernels from another. zig compiles with -O2 if asked for -O3.
COMPILE_OPTIONS = "-fno-plt -ffunction-sections -fdata-sections"
LINK_OPTIONS = "-s -Wl,--gc-sections -Wl,--hash-style=gnu -Wl,--build-id=sha1"


def source_distribution(folder: Path) -> Path:
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", folder, ROOT)
    (made,) = folder.glob("*.tar.gz")
    return made


def builder(name: str) -> Path:
    """Return a free-threaded Python with the packages that build a wheel."""
    folder = pythons.KEPT / f"{name}-builder"
    python = folder / "bin" / "python"
    if not python.exists():
        run(pythons.free_threaded(name), "-m", "venv", "--without-pip", folder)
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "setuptools>=80", "cython>=3.2", "wheel")
    return python


def translate(source: Path) -> None:
    """Translate the kernels to C once for all wheels. Any command of setup.py does so.

    In a free-threaded Python, Cython is interpreted and five times as slow.
    """
    run(sys.executable, "setup.py", "--quiet", "--version", cwd=source)


def compile_elsewhere(source: Path, name: str) -> int:
    """Compile every kernel's C, for another system; returns how many there were."""
    zig, left_out = ELSEWHERE[name]
    published = pythons.source("trixie", "python3.13")
    translate(source)
    with tempfile.TemporaryDirectory() as made:
        headers = Path(made)
        if name == "windows":
            shutil.copy(published / "PC" / "pyconfig.h.in", headers / "pyconfig.h")
        else:
            shutil.copy(Path(sysconfig.get_path("include"), "pyconfig.h"), headers)
        words = [sys.executable, "-m", "ziglang", "cc", "-target", zig, "-c", "-O1", "-w", "-fno-strict-aliasing"]
        words += ["-DPy_LIMITED_API=0x030b0000", f"-I{headers}", f"-I{published / 'Include'}"]
        words += ["-DMS_WIN64"] if name == "windows" else []
        words += ["-I", str(source)]
        kernels = [each for each in (source / "build" / "cython").rglob("*.c") if not str(each).endswith(left_out)]
        with ThreadPoolExecutor(len(os.sched_getaffinity(0))) as pool:
            jobs = [pool.submit(run, *words, each, "-o", headers / f"{index}.o") for index, each in enumerate(kernels)]
            for job in jobs:
                job.result()
    return len(kernels)


def build(source: Path, target: Target, out: Path) -> Path:
    """Build the wheel of a target from an unpacked source distribution, in `out`."""
    compiler = f"{sys.executable} -m ziglang cc -target {target.zig}"
    platform = re.sub(r"_(x86_64|aarch64)$", r"-\1", target.tag)
    with tempfile.TemporaryDirectory() as name:
        python = builder(target.free_threaded) if target.free_threaded else Path(sys.executable)
        translate(source)
        (Path(name) / "parallel.cfg").write_text(f"[build_ext]\nparallel = {len(os.sched_getaffinity(0))}\n")
        words: list[str | Path] = [sys.executable, "-m", "pip", "--python", python, "wheel", "--quiet"]
        words += ["--no-build-isolation", "--no-deps", "-w", name, source]
        run(
            *words,
            DIST_EXTRA_CONFIG=str(Path(name) / "parallel.cfg"),
            CC=compiler,
            LDSHARED=f"{compiler} -shared {LINK_OPTIONS}",
            CFLAGS=COMPILE_OPTIONS,
            _PYTHON_HOST_PLATFORM=platform,
        )
        (made,) = Path(name).glob("*.whl")
        if target.libc:
            run(sys.executable, "-m", "wheel", "unpack", "-d", name, made)
            made.unlink()
            (folder,) = (each for each in Path(name).iterdir() if each.is_dir())
            for kernel in folder.rglob("*.so"):
                run(pythons.PATCHELF, "--replace-needed", "libc.so", target.libc, kernel)
            run(sys.executable, "-m", "wheel", "pack", "-d", name, folder)
            (made,) = Path(name).glob("*.whl")
        return Path(shutil.copy(made, out))


def faults(wheel: Path, *places: Path) -> list[str]:
    """Return the problems of a wheel's size, contents and bytes."""
    result = []
    limit = LIMIT_BYTES if "abi3" in wheel.name else FREE_THREADED_LIMIT_BYTES
    if wheel.stat().st_size >= limit:
        result.append(f"{wheel.stat().st_size:,} bytes, at most {limit:,}")
    with zipfile.ZipFile(wheel) as archive:
        if not any(name.endswith(SBOM) for name in archive.namelist()):
            result.append(f"no file {SBOM}")
        for name in archive.namelist():
            if NEVER.search(name) and not KEPT.search(name):
                result.append(f"{name} is of no use in a wheel")
            content = archive.read(name)
            result += [
                f"{name} holds the path {location}" for location in (ROOT, *places) if str(location).encode() in content
            ]
    return result


def check(wheel: Path, built_in: Path) -> None:
    """Look through a wheel, by tools made for that, too; ends the program on a fault."""
    problems = faults(wheel, built_in)
    if problems:
        sys.exit("\n".join(f"{wheel.name}: {each}" for each in problems))
    python = sys.executable
    run(python, "-m", "twine", "check", "--strict", wheel)
    run(Path(python).with_name("check-wheel-contents"), "--ignore", "W002,W005,W009", wheel)
    if "abi3" in wheel.name:
        run(Path(python).with_name("abi3audit"), "--strict", wheel)
    shown = run(python, "-m", "auditwheel", "show", wheel)
    kind = wheel.stem.rsplit("-", 1)[1].partition("_")[0]
    if kind not in shown:
        sys.exit(f"{wheel.name}: auditwheel says\n{shown}")


def main() -> None:
    everything = [*TARGETS, *ELSEWHERE]
    parser = argparse.ArgumentParser(description="Build the wheels of a release.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ({', '.join(everything)}; default: all)")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "dist", metavar="FOLDER", help="where to (dist)")
    options = parser.parse_args()
    unknown = {*options.names} - {*everything}
    if unknown:
        parser.error(f"no target named {', '.join(sorted(unknown))}")
    options.output.mkdir(parents=True, exist_ok=True)
    for old in options.output.glob("whence-*"):
        old.unlink()
    packed = source_distribution(options.output)
    run(sys.executable, "-m", "twine", "check", "--strict", packed)
    print(f"{packed.stat().st_size:>10,}  {packed.name}", flush=True)
    with tempfile.TemporaryDirectory() as folder:
        run("tar", "-xf", packed, "-C", folder)
        (source,) = Path(folder).iterdir()
        chosen = options.names or everything
        for name in (each for each in TARGETS if each in chosen):
            wheel = build(source, TARGETS[name], options.output)
            check(wheel, source)
            print(f"{wheel.stat().st_size:>10,}  {wheel.name}", flush=True)
        for name in (each for each in ELSEWHERE if each in chosen):
            print(f"{compile_elsewhere(source, name):>10}  kernels compiled for {name}", flush=True)


if __name__ == "__main__":
    main()
