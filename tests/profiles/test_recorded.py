"""Profiles recorded by perf from programs in C++, Rust and C: every address matches addr2line."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from whence._base.model import Frame
from whence.locator.locator import Locator
from whence.objects.elf import ElfFile
from whence.profiles.binaries import Binaries
from whence.profiles.formats import folded, perf, pprof
from whence.profiles.naming import name
from whence.profiles.symbol_lists import SymbolLists
from whence.samples.addresses import vaddrs
from whence.samples.model import Mapping, ProfileData

CPP = """
#include <cstdio>
namespace shop { template <class T> struct till {
    static inline __attribute__((always_inline)) T mix(T x) {
        for (int i = 0; i < 50; i++) x = x * 1664525u + 1013904223u;
        return x;
    }
    __attribute__((noinline)) T count(T x) const { return mix(x) ^ 5; }
}; }
int main() {
    unsigned s = 1; shop::till<unsigned> t;
    for (long i = 0; i < 4000000; i++) s += t.count(s);
    std::printf("%u\\n", s);
}
"""
RUST = """
#[inline(always)]
fn mix(mut x: u32) -> u32 { for _ in 0..50 { x = unsafe { std::ptr::read_volatile(&x.wrapping_mul(3)) }; } x }
#[inline(never)]
fn count(x: u32) -> u32 { mix(x) ^ 5 }
fn main() {
    let mut s = 1u32;
    for _ in 0..4000000 { s = s.wrapping_add(count(s)); }
    println!("{}", s);
}
"""
C = """
#include <stdio.h>
static inline __attribute__((always_inline)) unsigned mix(unsigned x) {
    for (int i = 0; i < 50; i++) x = x * 1664525u + 1013904223u;
    return x;
}
__attribute__((noinline)) unsigned count(unsigned x) { return mix(x) ^ 5; }
int main(void) {
    unsigned s = 1;
    for (long i = 0; i < 4000000; i++) s += count(s);
    printf("%u\\n", s);
}
"""
GO = """
package main

import "fmt"

func mix(x uint32) uint32 { return x*1664525 + 1013904223 }

//go:noinline
func count(x uint32) uint32 { for i := 0; i < 50; i++ { x = mix(x) }; return x ^ 5 }

func main() {
	s := uint32(1)
	for i := 0; i < 4000000; i++ { s += count(s) }
	fmt.Println(s)
}
"""
GO_TOOL = str(Path(sys.executable).with_name("go"))
BUILDS = {
    "C": ("main.c", C, ["gcc", "-O2", "-g", "-fno-omit-frame-pointer", "main.c", "-o", "app"], "count"),
    "C, not moved": (
        "main.c",
        C,
        ["gcc", "-O2", "-g", "-no-pie", "-fno-pie", "-fno-omit-frame-pointer", "main.c", "-o", "app"],
        "count",
    ),
    "Go": ("main.go", GO, [GO_TOOL, "build", "-o", "app", "main.go"], "main.count"),
    "C++": ("main.cpp", CPP, ["g++", "-O2", "-g", "-fno-omit-frame-pointer", "main.cpp", "-o", "app"], "shop::till"),
    "Rust": ("main.rs", RUST, ["rustc", "-O", "-g", "-Cforce-frame-pointers=yes", "main.rs", "-o", "app"], "count"),
}


def recorded(folder: Path, language: str) -> str:
    """Return the output of perf script for a run of the program, with mapping events."""
    file, source, build, _ = BUILDS[language]
    for tool in ("perf", build[0], "addr2line"):
        if not shutil.which(tool):
            pytest.skip(f"no {tool} on this machine")
    (folder / file).write_text(source)
    subprocess.run(build, cwd=folder, check=True)
    record = ["perf", "record", "-q", "-e", "cpu-clock:u", "-F", "499", "-g", "-o", "perf.data", "./app"]
    done = subprocess.run(record, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"perf may not record here: {done.stderr.strip()[:80]}")
    script = ["perf", "script", "-i", "perf.data", "--show-mmap-events"]
    return subprocess.run(script, cwd=folder, check=True, capture_output=True, text=True).stdout


def witness(path: Path, wanted: list[int]) -> dict[int, list[tuple[str, str]]]:
    """Return the chains of addr2line: (function, file:line) for each vaddr."""
    command = ["addr2line", "-afiC", "-e", str(path), *map(hex, wanted)]
    lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
    out: dict[int, list[tuple[str, str]]] = {}
    offset = 0
    while offset < len(lines):
        if re.fullmatch("0x[0-9a-f]{8,16}", lines[offset]):
            chain = out[int(lines[offset], 16)] = []
            offset += 1
        else:
            chain.append((lines[offset], re.sub(r" \(discriminator \d+\)", "", lines[offset + 1])))
            offset += 2
    return out


def go_witness(path: Path, wanted: list[int]) -> dict[int, list[tuple[str, str]]]:
    """What go tool addr2line says: the function everything was inlined into, and the innermost line."""
    command, lines = [GO_TOOL, "tool", "addr2line", str(path)], "".join(f"{each:#x}\n" for each in wanted)
    said = subprocess.run(command, input=lines, check=True, capture_output=True, text=True).stdout.splitlines()
    places = [
        "??:?" if location == ":-1" else location for location in said[1::2]
    ]  # code that its line table does not cover
    return {each: [pair] for each, pair in zip(wanted, zip(said[::2], places, strict=True), strict=True)}


def place_of(frame: Frame) -> str:
    return f"{Path(frame.file).name or '??'}:{frame.line or '?'}"


@pytest.mark.parametrize("language", BUILDS)
def test_a_recorded_program_is_named_as_addr2line_names_it(tmp_path: Path, language: str) -> None:
    profile = perf.read(recorded(tmp_path, language))
    app = tmp_path / "app"
    with Binaries(Locator(dirs=[])) as binaries:
        name(profile, binaries, overwrite=True, demangle=True)
    index = next(number for number, each in enumerate(profile.mappings) if each.path == str(app))
    # a frame below a signal handler is at its function's start: the byte before is not code, and perf's name stays
    members = [number for number, each in enumerate(profile.mapping) if each == index and number in profile.changed]
    assert members
    with ElfFile.open(app) as elf:
        where = vaddrs(elf.segments, profile.mappings[index], profile.address[:])
    chains = (go_witness if language == "Go" else witness)(app, [where[number] for number in members])
    for number in members:
        ours = [(frame.function, place_of(frame)) for frame in profile.frames[number]]
        if language == "Go":
            ours = [(profile.frames[number][-1].function, place_of(profile.frames[number][0]))]
        theirs = [(text, Path(location).name) for text, location in chains[where[number]] if text != "??"]
        assert [location for _, location in ours] == [location for _, location in theirs], hex(where[number])
        if language in ("C++", "Go"):
            assert [text for text, _ in ours] == [text for text, _ in theirs], hex(where[number])
    hot = folded.write(profile)
    assert BUILDS[language][3] in hot
    assert re.search(r"count[^;\n]*;[^;\n]*mix", hot), hot[:2000]
    again = pprof.read(pprof.write(profile))
    assert [[frame[:4] for frame in each] for each in again.frames] == [
        [frame[:4] for frame in each] for each in profile.frames
    ]


def script_of(folder: Path, *record: str) -> str:
    """Return the output of perf script for a run recorded with some options, with mapping events."""
    if not shutil.which("perf"):
        pytest.skip("no perf on this machine")
    command = ["perf", "record", "-q", "-F", "499", "-g", "-o", "perf.data", *record]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"perf may not record here: {done.stderr.strip()[:80]}")
    script = ["perf", "script", "-i", "perf.data", "--show-mmap-events"]
    return subprocess.run(script, cwd=folder, check=True, capture_output=True, text=True).stdout


def nameless(text: str, file: str) -> str:
    """Return the text without names for the frames of some files."""
    return re.sub(rf"^(\t *[0-9a-f]+) .* (\({file}\))$", r"\1 [unknown] \2", text, flags=re.MULTILINE)


def names_in(profile: ProfileData, path: str) -> list[str]:
    """The function of each location in files whose path has this in it, "" for none."""
    members = [index for index in range(len(profile.address)) if path in (profile.mapping_of(index) or Mapping()).path]
    return [profile.frames[index][-1].function if profile.frames[index] else "" for index in members]


SCRIPT = """
function inner(n) { let s = 0; for (let i = 0; i < n; i++) s = (s * 31 + i) | 0; return s }
function outer(k) { let t = 0; for (let i = 0; i < k; i++) t ^= inner(20000); return t }
console.log(outer(20000));
"""


@pytest.mark.parametrize("how", ["perf map", "jitdump"])
def test_generated_code_of_node_gets_the_names_perf_gives_it(tmp_path: Path, how: str) -> None:
    if not shutil.which("node"):
        pytest.skip("no node on this machine")
    (tmp_path / "hot.js").write_text(SCRIPT)
    if how == "jitdump":
        script_of(tmp_path, "-k", "mono", "-e", "cpu-clock:u", "node", "--perf-prof", "hot.js")
        subprocess.run(["perf", "inject", "--jit", "-i", "perf.data", "-o", "jit.data"], cwd=tmp_path, check=True)
        command = ["perf", "script", "-i", "jit.data", "--show-mmap-events"]
        text = subprocess.run(command, cwd=tmp_path, check=True, capture_output=True, text=True).stdout
        file, lists = ".*jitted-.*", SymbolLists(local=False)
    else:
        text = script_of(tmp_path, "-e", "cpu-clock:u", "node", "--perf-basic-prof", "hot.js")
        (told,) = set(re.findall(r"\((/tmp/perf-\d+\.map)\)", text))
        shutil.move(told, tmp_path / "moved.map")
        file, lists = "/tmp/perf-.*", SymbolLists([tmp_path / "moved.map"])
    expected, profile = perf.read(text), perf.read(nameless(text, file))
    with Binaries(symbol_lists=lists) as binaries:
        name(profile, binaries)
    part = "jitted-" if how == "jitdump" else "/tmp/perf-"
    assert any("inner" in each for each in names_in(profile, part))
    assert set(names_in(profile, part)) == set(names_in(expected, part))


def test_the_running_kernels_frames_get_the_names_perf_gives_them(tmp_path: Path) -> None:
    text = script_of(tmp_path, "-e", "cpu-clock", "find", "/usr/lib", "-name", "none")
    if not re.search(r"[0-9a-f]+ \w+\+0x[0-9a-f]+ \(\[kernel", text):
        pytest.skip("perf may not see the kernel here")
    expected, profile = perf.read(text), perf.read(nameless(text, r"\[kernel.*"))
    with Binaries() as binaries:
        reports = name(profile, binaries)
    ours, theirs = names_in(profile, "[kernel"), names_in(expected, "[kernel")
    assert "" not in ours
    assert {source for each in reports for source in each.sources} >= {"kallsyms"}
    same = len(set(ours) & set(theirs))  # of several names at one address each tool takes another
    assert same > 0.9 * len(set(theirs))
