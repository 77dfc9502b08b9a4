"""The wheels of a release, each built on this Linux machine with ziglang's `zig cc` as cross compiler.

    python -m tools.wheels [-o FOLDER] [NAME...]      (NAME: a key of TARGETS; all without one)

Each wheel is built from the source distribution, so that it holds what that holds. A musl wheel's kernels need
"libc.so" when zig links them: on a machine with glibc's development files that name is a linker script, which
auditwheel can't read. patchelf gives them the name that musl's loader has. Then every wheel is checked.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parent.parent
LIMIT_BYTES = 2_500_000  # 1.5 million is the aim; 2.2 million today, two thirds of it kernels
NEVER = re.compile(r"\.(pxd|c|h|so\.py|pyc)$|/kernels/(?!__init__)\w+\.py$|(^|/)tests?/")
KEPT = re.compile(r"/cli/demo\.c$")  # the demo compiles it


class Target(NamedTuple):
    """A platform: zig's name of it, the tag of its wheel, and the libc that musl's loader answers to."""

    zig: str
    tag: str
    libc: str = ""


TARGETS = {
    "manylinux-x86_64": Target("x86_64-linux-gnu.2.17", "manylinux_2_17_x86_64"),
    "manylinux-aarch64": Target("aarch64-linux-gnu.2.17", "manylinux_2_17_aarch64"),
    "musllinux-x86_64": Target("x86_64-linux-musl", "musllinux_1_2_x86_64", "libc.musl-x86_64.so.1"),
    "musllinux-aarch64": Target("aarch64-linux-musl", "musllinux_1_2_aarch64", "libc.musl-aarch64.so.1"),
}


def run(*words: str | Path, **environment: str) -> str:
    """A command's stdout. Ends the program with what the command said where it fails."""
    done = subprocess.run(list(map(str, words)), capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode:
        sys.exit(f"{' '.join(map(str, words))}: exit {done.returncode}\n{done.stdout[-2000:]}{done.stderr[-4000:]}")
    return done.stdout


def source_distribution(folder: Path) -> Path:
    run(sys.executable, "-m", "build", "--sdist", "--no-isolation", "--outdir", folder, ROOT)
    (made,) = folder.glob("*.tar.gz")
    return made


def build(source: Path, target: Target, out: Path) -> Path:
    """The wheel of a target, from an unpacked source distribution, in `out`."""
    compiler = f"{sys.executable} -m ziglang cc -target {target.zig}"
    platform = re.sub(r"_(x86_64|aarch64)$", r"-\1", target.tag)
    with tempfile.TemporaryDirectory() as name:
        run(
            *(sys.executable, "-m", "pip", "wheel", "--quiet", "--no-build-isolation", "--no-deps", "-w", name, source),
            CC=compiler,
            LDSHARED=f"{compiler} -shared -s",
            CFLAGS="",
            _PYTHON_HOST_PLATFORM=platform,
        )
        (made,) = Path(name).glob("*.whl")
        if target.libc:
            run(sys.executable, "-m", "wheel", "unpack", "-d", name, made)
            made.unlink()
            (folder,) = (one for one in Path(name).iterdir() if one.is_dir())
            for kernel in folder.rglob("*.so"):
                run("patchelf", "--replace-needed", "libc.so", target.libc, kernel)
            run(sys.executable, "-m", "wheel", "pack", "-d", name, folder)
            (made,) = Path(name).glob("*.whl")
        return Path(made.replace(out / made.name))


def faults(wheel: Path, *places: Path) -> list[str]:
    """What is wrong with a wheel's size, contents and bytes; [] when nothing is."""
    found = []
    if wheel.stat().st_size >= LIMIT_BYTES:
        found.append(f"{wheel.stat().st_size:,} bytes, at most {LIMIT_BYTES:,}")
    with zipfile.ZipFile(wheel) as archive:
        for name in archive.namelist():
            if NEVER.search(name) and not KEPT.search(name):
                found.append(f"{name} is of no use in a wheel")
            content = archive.read(name)
            found += [f"{name} holds the path {place}" for place in (ROOT, *places) if str(place).encode() in content]
    return found


def check(wheel: Path, built_in: Path) -> None:
    """Look through a wheel, by tools made for that, too; ends the program on a fault."""
    problems = faults(wheel, built_in)
    if problems:
        sys.exit("\n".join(f"{wheel.name}: {one}" for one in problems))
    python = sys.executable
    run(python, "-m", "twine", "check", "--strict", wheel)
    run(Path(python).with_name("check-wheel-contents"), "--ignore", "W002,W005,W009", wheel)
    run(Path(python).with_name("abi3audit"), "--strict", wheel)
    shown = run(python, "-m", "auditwheel", "show", wheel)
    kind = wheel.stem.rsplit("-", 1)[1].partition("_")[0]
    if kind not in shown:
        sys.exit(f"{wheel.name}: auditwheel says\n{shown}")


def main() -> None:
    parser = argparse.ArgumentParser(description="Build the wheels of a release.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"which ({', '.join(TARGETS)}; default: all)")
    parser.add_argument("-o", "--output", type=Path, default=ROOT / "dist", metavar="FOLDER", help="where to (dist)")
    options = parser.parse_args()
    unknown = {*options.names} - {*TARGETS}
    if unknown:
        parser.error(f"no target named {', '.join(sorted(unknown))}")
    options.output.mkdir(parents=True, exist_ok=True)
    for old in options.output.glob("whence-*"):
        old.unlink()
    packed = source_distribution(options.output)
    run(sys.executable, "-m", "twine", "check", "--strict", packed)
    print(f"{packed.stat().st_size:>10,}  {packed.name}", flush=True)
    with tempfile.TemporaryDirectory() as name:
        run("tar", "-xf", packed, "-C", name)
        (source,) = Path(name).iterdir()
        for chosen in options.names or TARGETS:
            wheel = build(source, TARGETS[chosen], options.output)
            check(wheel, source)
            print(f"{wheel.stat().st_size:>10,}  {wheel.name}", flush=True)


if __name__ == "__main__":
    main()
