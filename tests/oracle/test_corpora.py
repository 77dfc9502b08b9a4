"""The big debug files of Debian: thousands of random addresses each, whole chains against three tools.

Packages are fetched with apt-get into .cache/ once; a corpus that cannot be had is skipped, and says why. Set
WHENCE_CORPORA to a directory of unpacked packages (a directory for each) to use those.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from tests.oracle import ours
from tests.oracle.compare import Symbols, compare_file, differing_files, differing_starts, sample
from tests.oracle.corpora import CORPORA, fetched, tool
from whence import lidia
from whence.objects.elf import ElfFile

pytestmark = pytest.mark.oracle

COUNT = 2000


@pytest.mark.parametrize("name", CORPORA)
def test_chains_of_a_big_debug_file_are_what_other_tools_say(name: str) -> None:
    package, pattern, least = CORPORA[name]
    result = sorted(fetched(package).glob(pattern), key=lambda path: path.stat().st_size)
    if not result:
        pytest.skip(f"{package} has no {pattern}")
    report = compare_file(str(result[-1]), COUNT)
    print(report)
    assert report.agreement >= least, str(report)
    with ElfFile.open(result[-1]) as elf:
        symbols = Symbols.of(elf)
    addresses = sample(symbols, (), COUNT)
    assert differing_starts(str(result[-1]), str(result[-1]), addresses) == []
    starts = [frame.start_line > 0 for frames in ours.frames(str(result[-1]), addresses) for frame in frames]
    assert sum(starts) > 0.85 * len(starts)


@pytest.mark.parametrize("name", CORPORA)
def test_the_go_package_reads_the_files_that_whence_gives(name: str, tmp_path: Path) -> None:
    package, pattern, _ = CORPORA[name]
    result = sorted(fetched(package).glob(pattern), key=lambda path: path.stat().st_size)
    if not result:
        pytest.skip(f"{package} has no {pattern}")
    lidia.create(result[-1], tmp_path / "archive")
    assert differing_files((tmp_path / "archive").read_bytes(), 30_000) == []


# what the Go package makes of a file: (package, file, build-id, size and SHA-256 of the archive)
BY_GO = {
    "libc": (
        "libc6-dbg", "usr/lib/debug/.build-id/93/ac61ec5a8eb1396f9fbd350e3169a558528a40.debug",
        "93ac61ec5a8eb1396f9fbd350e3169a558528a40", 378_832,
        "c232e64c4ac59604e90b97eac9274597d94e534d4803e1542a507329e2f2446f",
    ),
    "python3.11d": (
        "python3.11-dbg", "usr/bin/python3.11d", "5c771a4c12922957af14eed671bebe0179a75f44", 653_824,
        "82d7f0c605e05f624aff3c092a0f32f0b32f3cc330c41144a6ba0da41aa04f90",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", BY_GO)
def test_the_bytes_are_those_of_the_go_package(name: str, tmp_path: Path) -> None:
    package, file, build_id, size, digest = BY_GO[name]
    path = fetched(package) / file
    if not path.is_file():
        pytest.skip(f"{package} has no {file}: it is of another version")
    with ElfFile.open(path) as elf:
        if elf.build_id != build_id:
            pytest.skip(f"{file} has the build-id {elf.build_id}: it is of another version")
    lidia.create(path, tmp_path / "archive", compat="go")
    data = (tmp_path / "archive").read_bytes()
    assert (len(data), hashlib.sha256(data).hexdigest()) == (size, digest)


REWRITTEN = 5000
# Options of dwz: by default it would process only a part of ceph-mds.
UNLIMITED = ["-L", "none", "-l", "none"]
# Kernel modules are not here: dwz takes linked files alone.
FURTHER = {
    "python3.11d": ("python3.11-dbg", "usr/bin/python3.11d"),
    "libc, aarch64": ("libc6-dbg:arm64", "usr/lib/debug/.build-id/*/*.debug"),
}


def unpacked(path: Path, out: Path) -> None:
    """A copy of a debug file without packed sections, as dwz wants it."""
    for objcopy in ("objcopy", "llvm-objcopy", "llvm-objcopy-14"):  # binutils' knows this machine's files alone
        if shutil.which(objcopy):
            done = subprocess.run([objcopy, "--decompress-debug-sections", path, out], capture_output=True, text=True)
            if done.returncode == 0:
                return
    pytest.skip(f"no objcopy here unpacks the sections of {path.name}")


def rewritten(path: Path, folder: Path, common: bool) -> Path:
    """What dwz makes of `folder`/plain: alone, or with a common file that a twin shares."""
    out = folder / "rewritten"
    if not common:
        command = [*UNLIMITED, "-o", str(out), str(path)]
    else:
        shutil.copy(path, out)
        shutil.copy(path, folder / "twin")
        command = [*UNLIMITED, "-m", f"{folder}/common", "-M", f"{folder}/common", str(out), f"{folder}/twin"]
    done = subprocess.run(["dwz", *command], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return out


def compare_rewritten(plain: Path, folder: Path, common: bool, count: int = REWRITTEN) -> None:
    """Whole chains of addresses of `plain`, asked by the thousand, alone and by ten: the rewritten file's are equal."""
    other = rewritten(plain, folder, common)
    with ElfFile.open(plain) as elf:
        addresses = sample(Symbols.of(elf), (), count)
    expected = ours.frames(str(plain), addresses)
    differing = [
        f"{address:#x}: {each} was {frames}"
        for address, each, frames in zip(addresses, ours.frames(str(other), addresses), expected, strict=True)
        if each != frames
    ]
    print(f"{len(addresses) - len(differing)} of {len(addresses)} chains are those of the plain file")
    assert differing == []
    for few in (1, 10):
        for offset in range(0, 20 * few, few):
            assert ours.frames(str(other), addresses[offset : offset + few]) == expected[offset : offset + few]


@pytest.mark.parametrize("common", [False, True], ids=["alone", "with a common file"])
@pytest.mark.parametrize("name", [*CORPORA, *FURTHER])
def test_chains_of_a_file_that_dwz_rewrote_are_those_of_the_plain_one(name: str, common: bool, tmp_path: Path) -> None:
    tool("dwz")
    package, pattern = FURTHER[name] if name in FURTHER else CORPORA[name][:2]
    result = sorted(fetched(package).glob(pattern), key=lambda path: path.stat().st_size)
    if not result:
        pytest.skip(f"{package} has no {pattern}")
    plain = tmp_path / "plain"
    unpacked(result[-1], plain)
    compare_rewritten(plain, tmp_path, common)


PROGRAMS = {
    "rust": (
        "main.rs",
        """use std::collections::HashMap;
fn main() {
    let mut seen: HashMap<String, usize> = HashMap::new();
    for word in std::env::args() { *seen.entry(word).or_default() += 1; }
    println!("{seen:?}");
}
""",
        ["rustc", "-g", "-O", "main.rs", "-o", "program"],
    ),
    "go": (
        "main.go",
        """package main

import ("fmt"; "os"; "sort"; "strings")

func main() {
	words := append([]string(nil), os.Args...)
	sort.Slice(words, func(i, j int) bool { return words[i] < words[j] })
	fmt.Println(strings.ToUpper(strings.Join(words, " ")))
}
""",
        [str(Path(sys.executable).parent / "go"), "build", "-o", "program", "main.go"],
    ),
    "zig": (
        "main.c",
        """#include <stdio.h>
int main(void) { printf("Hello, World!\\n"); return 0; }
""",
        [sys.executable, "-m", "ziglang", "cc", "-o", "program", "-g", "-target", "x86_64-linux", "main.c"],
    ),
}


def built(language: str, folder: Path, **environment: str) -> Path:
    """The program of that language, with its debug info."""
    name, source, command = PROGRAMS[language]
    (folder / name).write_text(source)
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env={**os.environ, **environment})
    if done.returncode:
        pytest.skip(f"{command[0]} cannot build a program here: {done.stderr.strip()[-200:]}")
    return folder / "program"


@pytest.mark.parametrize("language", PROGRAMS)
def test_chains_of_a_program_with_its_runtime_are_what_other_tools_say(language: str, tmp_path: Path) -> None:
    report = compare_file(str(built(language, tmp_path)), COUNT)
    print(report)
    assert report.agreement >= 0.999, str(report)


@pytest.mark.parametrize("common", [False, True], ids=["alone", "with a common file"])
@pytest.mark.parametrize("language", PROGRAMS)
def test_chains_of_a_program_that_dwz_rewrote_are_those_of_the_plain_one(
    language: str, common: bool, tmp_path: Path
) -> None:
    tool("dwz")
    plain = tmp_path / "plain"
    unpacked(built(language, tmp_path, GOEXPERIMENT="nodwarf5"), plain)  # dwz does not know .debug_addr yet
    compare_rewritten(plain, tmp_path, common)
