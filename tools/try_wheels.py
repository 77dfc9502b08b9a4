"""A release's wheels, installed in clean environments and tested there.

    python -m tools.try_wheels NAME...      (NAME: a key of TRIES)

Each environment has the wheel, what the wheel depends on, pytest, hypothesis and mypy, and no more. There the tests of
QUICK run: those of the kernels and formats, which need no other package. Under qemu, where one start of Python takes
seconds, those of EMULATED run. The kernels for musl are loaded by musl's own loader, with every symbol they
need, because Python for musl is not available.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Callable, Sequence
from pathlib import Path

from tools import pythons
from tools.pythons import run

ROOT = Path(__file__).parent.parent
DIST = ROOT / "dist"
KERNELS = ("tests/test_kernel_columns.py", "tests/test_rows.py", "tests/ranges")
QUICK = (
    *(*KERNELS, "tests/filter", "tests/dwarf", "tests/lidia/test_roundtrip.py"),
    *("tests/lidia/test_api.py", "tests/procmap/test_resolver.py", "tests/test_records.py", "tests/test_errors.py"),
)
EMULATED = (*KERNELS, "tests/test_records.py")
THREADS = (
    "tests/test_threads.py",
    "tests/lidia/test_roundtrip.py",
    "tests/objects/elf/test_roundtrip.py",
    "tests/procmap/test_resolver.py",
)
TESTERS = ("pytest>=8", "hypothesis>=6.100")
TYPES = "mypy>=1.18"  # a program of a user's is checked against the wheel's types

# Run in each environment: every kernel of the installed package is imported, and is a compiled one.
EVERY_KERNEL = """
import importlib, pathlib, sys, whence
top = pathlib.Path(whence.__file__).parent
assert {where!r} in str(top), top
names = {names!r}
for name in names:
    assert importlib.import_module(name).__file__.endswith(".so")
lock = getattr(sys, "_is_gil_enabled", lambda: True)()
version = sys.version.split()[0] + ("" if lock else " without the global lock")
print(len(names), "kernels under Python", version)
"""


def kernels() -> list[str]:
    """Return the names of all kernels, from their sources."""
    sources = sorted((ROOT / "src").rglob("kernels/*.py"))
    return [
        ".".join(each.relative_to(ROOT / "src").with_suffix("").parts) for each in sources if each.stem != "__init__"
    ]


def wheel_of(tag: str) -> Path:
    result = sorted(DIST.glob(f"whence-*{tag}*.whl"))
    if not result:
        sys.exit(f"dist has no wheel with {tag} in its name: `make wheels` makes them")
    return result[-1]


def pip(python: Path, *words: str | Path) -> None:
    """Run this environment's pip for the Python of another environment, which needs no pip."""
    run(sys.executable, "-m", "pip", "--python", python, "install", "--quiet", "--disable-pip-version-check", *words)


def environment(python: Path, name: str) -> Path:
    folder = ROOT / ".cache" / "tried" / name
    shutil.rmtree(folder, ignore_errors=True)
    run(python, "-m", "venv", "--without-pip", folder)
    return folder / "bin" / "python"


def test(words: Sequence[str | Path], tests: Sequence[str], where: str, **settings: str) -> None:
    """Import every kernel, answer from the command line, run tests; what fails ends the program."""
    variables = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **settings}
    with tempfile.TemporaryDirectory() as folder:
        script = Path(folder, "every_kernel.py")
        script.write_text(EVERY_KERNEL.format(where=where, names=kernels()))
        for command in ([script], ["-m", "whence.cli", "--version"]):
            subprocess.run([*words, *command], check=True, cwd=folder, env=variables)
    done = subprocess.run([*words, "-m", "pytest", "-q", "-p", "no:cacheprovider", *tests], cwd=ROOT, env=variables)
    if done.returncode:
        sys.exit(done.returncode)


def ordinary(python: Path, name: str, tests: Sequence[str] = QUICK) -> None:
    made = environment(python, name)
    pip(made, wheel_of("abi3-manylinux_2_17_x86_64"), *TESTERS, TYPES)
    test([made], tests, name)


def try_free_threaded(name: str) -> None:
    """Test whence without `isal` and `pydemumble`, which have no free-threaded wheels."""
    made = environment(pythons.free_threaded(name), name)
    tag = "cp" + name.replace(".", "")
    pip(made, "--no-deps", wheel_of(f"{tag}-manylinux_2_17_x86_64"))
    pip(made, "--only-binary=:all:", "urllib3", "backports.zstd; python_version < '3.14'", *TESTERS)
    test([made], THREADS, name, PYTHON_GIL="0")


def try_foreign() -> None:
    folder = ROOT / ".cache" / "tried" / "aarch64"
    shutil.rmtree(folder, ignore_errors=True)
    platforms = [f"--platform=manylinux_2_{glibc}_aarch64" for glibc in (17, 28)] + ["--platform=manylinux2014_aarch64"]
    run(
        *(sys.executable, "-m", "pip", "install", "--quiet", "--disable-pip-version-check", "--target", folder),
        *("--only-binary=:all:", "--python-version=3.11", "--implementation=cp", *platforms),
        *(wheel_of("abi3-manylinux_2_17_aarch64"), *TESTERS),
    )
    test(pythons.foreign(), EMULATED, "aarch64", PYTHONPATH=str(folder))


LOADER = """
#include <dlfcn.h>
#include <stdio.h>
int main(int count, char **names) {
    if (!dlopen(names[1], RTLD_NOW | RTLD_LOCAL)) {
        fprintf(stderr, "%s\\n", dlerror());
        return 1;
    }
    puts("loaded by musl");
    return 0;
}
"""


def try_musl() -> None:
    """Load the kernels by musl's loader, all names bound at once; a stub defines Python's names."""
    compiler = shutil.which("musl-gcc") or sys.exit("musl-gcc is missing (Debian: apt-get install musl-tools)")
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with zipfile.ZipFile(wheel_of("abi3-musllinux_1_2_x86_64")) as archive:
            archive.extractall(folder)
        (kernels,) = folder.rglob("*.so")
        wanted = run("readelf", "--dyn-syms", "--wide", kernels)
        python = sorted({*re.findall(r" UND (_?Py\w+)", wanted)})
        (folder / "python.c").write_text("".join(f"char {symbol}[8];\n" for symbol in python))
        (folder / "loader.c").write_text(LOADER)
        run(compiler, "-shared", "-fPIC", "-o", folder / "libpython.so", folder / "python.c")
        run(
            *(compiler, "-o", folder / "loader", folder / "loader.c"),
            *("-Wl,--no-as-needed", folder / "libpython.so", f"-Wl,-rpath,{folder}"),
        )
        # zig calls musl's libc by the name that Alpine has; the loader is the libc
        libc = re.findall(r"interpreter: (.*)\]", run("readelf", "--program-headers", "--wide", folder / "loader"))
        for needed in {*re.findall(r"NEEDED.*\[(libc\.musl[^]]*)\]", run("readelf", "-d", "--wide", kernels))}:
            (folder / needed).symlink_to(libc[0])
        print(kernels.name, run(folder / "loader", kernels, LD_LIBRARY_PATH=str(folder)), end="")


TRIES: dict[str, Callable[[], None]] = {
    "3.11": lambda: ordinary(pythons.installed("3.11"), "3.11"),
    "3.12": lambda: ordinary(pythons.installed("3.12"), "3.12"),
    "3.13": lambda: ordinary(pythons.installed("3.13"), "3.13"),
    "3.14": lambda: ordinary(pythons.newest(), "3.14"),
    "3.13t": lambda: try_free_threaded("3.13t"),
    "3.14t": lambda: try_free_threaded("3.14t"),
    "aarch64": try_foreign,
    "musl": try_musl,
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Try the wheels of dist/ in clean environments.")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"where ({', '.join(TRIES)}; default: everywhere)")
    options = parser.parse_args()
    unknown = {*options.names} - {*TRIES}
    if unknown:
        parser.error(f"no environment named {', '.join(sorted(unknown))}")
    for name in options.names or TRIES:
        print(f"{name}:", flush=True)
        TRIES[name]()


if __name__ == "__main__":
    main()
