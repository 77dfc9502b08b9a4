"""Small programs of tests/data/matrix, built by the compilers of this machine: gcc, and clang as zig ships it.

A recipe says what differs; `build` makes it in a directory. `plain` is the same code with its debug info where every
tool finds it, to ask other tools about when a variant is one they do not read.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
from dataclasses import dataclass, replace
from pathlib import Path

SOURCES = Path(__file__).parent.parent / "data" / "matrix"


class MissingTool(Exception):
    """A tool the recipe needs is not on this machine, or cannot do what is asked."""


@dataclass(frozen=True)
class Recipe:
    compiler: str = "gcc"  # or a target of zig's clang
    version: int = 5
    level: str = "-O2"
    variant: str = ""  # zlib, zstd, split, dwp, dwz, dwz-common, static

    def __str__(self) -> str:
        return " ".join(part for part in (self.compiler, f"dwarf{self.version}", self.level, self.variant) if part)

    @property
    def plain(self) -> Recipe:
        return self if self.variant == "static" else replace(self, variant="")


def run(*command: str | Path, cwd: Path) -> None:
    if shutil.which(str(command[0])) is None:
        raise MissingTool(f"{command[0]} is not installed")
    done = subprocess.run([*map(str, command)], cwd=cwd, capture_output=True, text=True)
    if done.returncode:
        raise MissingTool(f"{' '.join(map(str, command))}: {done.stderr.strip()[-400:]}")


def build(recipe: Recipe, directory: Path, said: Path | None = None) -> Path:
    """The program of a recipe, in a directory of its own; its debug info says it was built in `said`."""
    directory.mkdir(parents=True, exist_ok=True)
    flags = [f"-gdwarf-{recipe.version}", *recipe.level.split(), f"-fdebug-prefix-map={directory}={said or directory}"]
    if recipe.variant in ("split", "dwp"):
        flags.append("-gsplit-dwarf")
    program = directory / "program"
    if recipe.compiler == "gcc":
        gcc(recipe, flags, directory)
    else:
        zig(recipe.compiler, flags, directory)
    if recipe.variant in ("zlib", "zstd"):
        run("objcopy", f"--compress-debug-sections={recipe.variant}", program, cwd=directory)
    elif recipe.variant == "dwp":
        tool = "dwp" if recipe.version < 5 else "llvm-dwp"  # binutils' packs version 4, LLVM's also 5
        run(tool, "-e", "program", "-o", "program.dwp", cwd=directory)
        for each in directory.glob("*.dwo"):
            each.unlink()
    elif recipe.variant == "dwz":
        run("dwz", "program", cwd=directory)
    elif recipe.variant == "dwz-common":
        shutil.copy(program, directory / "twin")
        run("dwz", "-m", "common.debug", "program", "twin", cwd=directory)
    return program


def gcc(recipe: Recipe, flags: list[str], directory: Path) -> None:
    """Compile and link with gcc: a position-independent program, or with `static` one at a fixed address, alone."""
    location = ["-no-pie", "-fno-pie", "-static", "-nostdlib", "-DFREESTANDING"]
    if recipe.variant != "static":
        location = ["-pie", "-fPIE", "-nodefaultlibs"]
    for name in ("plain.c", "shapes.cc", "spin.S"):
        run("gcc", "-c", *flags, *location, "-fno-exceptions", "-fno-rtti", SOURCES / name, cwd=directory)
    unresolved = "-Wl,--unresolved-symbols=ignore-all"  # __cxa_pure_virtual, never called
    libraries = [] if recipe.variant == "static" else ["-lc"]
    objects = ["plain.o", "shapes.o", "spin.o"]
    run("gcc", *flags, *location, unresolved, *objects, *libraries, "-o", "program", cwd=directory)


def zig(target: str, flags: list[str], directory: Path) -> None:
    """Compile with zig's clang for a target, and link without libraries."""
    zig = [sys.executable, "-m", "ziglang"]
    lto = "-flto" in flags
    for name in ("plain.c", "shapes.cc", "spin.S"):
        command = "c++" if name.endswith(".cc") else "cc"
        kept = [flag for flag in flags if not (lto and name == "spin.S" and flag == "-flto")]
        run(*zig, command, "-c", "-target", target, *kept, "-DFREESTANDING", "-fno-sanitize=undefined",
            "-fno-exceptions", "-fno-rtti", "-fno-stack-protector", SOURCES / name, cwd=directory)  # fmt: skip
    if lto:
        run(*zig, "cc", "-target", target, "-flto", "-nostdlib", "plain.o", "shapes.o", "spin.o", "-o", "program",
            cwd=directory)  # fmt: skip
    else:
        run(*zig, "ld.lld", "-e", "_start", "--unresolved-symbols=ignore-all", "plain.o", "shapes.o", "spin.o",
            "-o", "program", cwd=directory)  # fmt: skip
