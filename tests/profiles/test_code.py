"""Lines and instructions of a profile's functions, beside `go tool pprof` and `perf annotate`."""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import whence
from tests.helpers.golang import environment, goroot
from whence import profiles
from whence._base.model import Frame
from whence.cli import main
from whence.listing import Listing
from whence.profiles import Mapping, Profile, SampleType
from whence.samples.model import NO_MAPPING

PERF = Path(__file__).parent.parent / "data" / "perf"
PROGRAM = """package main

import (
	"fmt"
	"os"
	"runtime/pprof"
)

func mix(x uint32) uint32 {
	x ^= x >> 13
	return x * 2654435761
}

//go:noinline
func work(n uint32) (total uint32) {
	for i := uint32(0); i < n; i++ {
		total += mix(i)
		if total%7 == 3 {
			total /= 3
		}
	}
	return total
}

func again(depth, n uint32) uint32 {
	if depth == 0 {
		return work(n)
	}
	return again(depth-1, n) + work(n/4)
}

func main() {
	f, _ := os.Create(os.Args[1])
	pprof.StartCPUProfile(f)
	var s uint32
	for i := 0; i < 4000; i++ {
		s += again(3, 50000)
	}
	pprof.StopCPUProfile()
	f.Close()
	fmt.Println(s)
}
"""
ROUTINE = re.compile(r"ROUTINE =+ (\S+) in (\S+)\n *(\S+) +(\S+) \(flat, cum\).*\n((?: *\S+ +\S+ +\d+:.*\n)*)")
LINE = re.compile(r"^ *(\S+) +(\S+) +(\d+):", re.MULTILINE)
INSTRUCTION = re.compile(r"^ *(\S+) +(\S+) +([0-9a-f]+): ", re.MULTILINE)


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a Go program and its CPU profile."""
    folder = tmp_path_factory.mktemp("go")
    (folder / "main.go").write_text(PROGRAM)
    tool, env = goroot() / "bin" / "go", environment(goroot())
    subprocess.run([tool, "build", "-o", "prog", "main.go"], cwd=folder, env=env, check=True, capture_output=True)
    subprocess.run([folder / "prog", folder / "cpu.pb.gz"], check=True, capture_output=True)
    return folder


def pprof(folder: Path, *words: str) -> str:
    command = [str(goroot() / "bin" / "go"), "tool", "pprof", "-unit=ns", *words, "prog", "cpu.pb.gz"]
    done = subprocess.run(command, cwd=folder, env=environment(goroot()), capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"go tool pprof cannot be run: {done.stderr[-200:]}")
    return done.stdout


def nanoseconds(text: str) -> int:
    return 0 if text == "." else int(text.removesuffix("ns") or 0)


def test_lines_cost_what_pprof_list_says(go: Path) -> None:
    profile = profiles.read(go / "cpu.pb.gz")
    result = {listing.function: listing for listing in profile.listing(r"^main\.")}
    routines = ROUTINE.findall(pprof(go, "-list", r"^main\."))
    assert {name for name, *_ in routines} == result.keys() >= {"main.work", "main.mix", "main.again", "main.main"}
    for name, file, flat, cum, text in routines:
        listing = result[name]
        assert (listing.file, listing.self_cost) == (file, nanoseconds(flat))
        assert listing.cost == nanoseconds(cum) or name == "main.again"  # pprof adds up the lines of recursive calls
        theirs = {int(line): (nanoseconds(own), nanoseconds(total)) for own, total, line in LINE.findall(text)}
        mine = {line.line: (line.self, line.total) for line in listing.lines if not line.depth}
        assert mine == {line: values for line, values in theirs.items() if any(values)}, name
        assert sum(line.self for line in listing.lines if line.function == name) == listing.self_cost


def test_instructions_cost_what_pprof_disasm_says(go: Path) -> None:
    pytest.importorskip("capstone")
    profile = profiles.read(go / "cpu.pb.gz")
    profile.symbolize()
    (listing,) = profile.annotate(r"^main\.work$")
    theirs = {
        int(vaddr, 16): nanoseconds(own) for own, _, vaddr in INSTRUCTION.findall(pprof(go, "-disasm", r"main\.work"))
    }
    mine = {each.vaddr: each.self for each in listing.instructions}
    assert mine == theirs | dict.fromkeys(mine.keys() - theirs.keys(), 0)  # pprof leaves out the last one
    assert sum(theirs.values()) == listing.cost


def test_instructions_cost_what_perf_annotate_says(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    pytest.importorskip("capstone")
    profile = profiles.read(PERF / "plain.data")
    profile.symbolize(PERF / "spin")
    (listing,) = profile.annotate("leaf", PERF / "spin", syntax="att")
    assert listing.cost == listing.total == sum(each.self for each in listing.instructions)
    shares = {f"{each.vaddr:x}": 100 * each.self / listing.cost for each in listing.instructions}
    assert {share for share in shares.values() if share} == {25.0, 75.0}
    perf = shutil.which("perf")
    if perf is None:
        pytest.skip("perf is not installed")
    (tmp_path / "opt" / "spin").mkdir(parents=True)
    shutil.copy(PERF / "spin", tmp_path / "opt" / "spin" / "spin")
    command = [perf, "annotate", "--stdio", "-i", str(PERF / "plain.data"), "--symfs", str(tmp_path), "-s", "leaf"]
    text = subprocess.run(command, capture_output=True, text=True).stdout
    theirs = {vaddr: float(share) for share, vaddr in re.findall(r"^ +([\d.]+) : +([0-9a-f]+): ", text, re.MULTILINE)}
    if not theirs:
        pytest.skip("this perf cannot annotate")
    assert shares == theirs


HOT = """#include <algorithm>
#include <cstdio>
#include <vector>

static inline unsigned mix(unsigned x) {
    x ^= x >> 13;
    return x * 2654435761u;
}

extern "C" __attribute__((noinline)) unsigned work(std::vector<unsigned> &v, unsigned n) {
    unsigned total = 0;
    for (unsigned i = 0; i < n; i++) {
        total += mix(i) + v[i % v.size()];
        if (total % 7 == 3) total /= 3;
    }
    std::sort(v.begin(), v.end());
    return total;
}

int main() {
    std::vector<unsigned> v(500);
    unsigned sum = 0;
    for (int k = 0; k < 300; k++) {
        for (auto &x : v) x = mix(x + k);
        sum += work(v, 10000);
    }
    std::printf("%u\\n", sum);
}
"""


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder with a C++ program, its recording by perf, and the named pprof profile of that."""
    folder = tmp_path_factory.mktemp("recorded")
    if shutil.which("perf") is None or shutil.which("g++") is None:
        pytest.skip("perf or g++ is not installed")
    (folder / "hot.cc").write_text(HOT)
    subprocess.run(["g++", "-g", "-O2", "-fno-omit-frame-pointer", "-o", "prog", "hot.cc"], cwd=folder, check=True)
    command = [
        "perf",
        "record",
        "-q",
        "-e",
        "cpu-clock",
        "-F",
        "2000",
        "--call-graph",
        "fp",
        "-o",
        "hot.data",
        "./prog",
    ]
    made = subprocess.run(command, cwd=folder, capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"perf cannot record here: {made.stderr[-200:]}")
    with contextlib.chdir(folder):
        assert main(["profile", "hot.data", "--no-cache", "-o", "cpu.pb.gz"]) == 0
    return folder


def test_instructions_of_a_recording_cost_what_perf_annotate_says(recorded: Path) -> None:
    pytest.importorskip("capstone")
    profile = profiles.read(recorded / "hot.data")
    profile.symbolize()
    (listing,) = profile.annotate("^work$", syntax="att")
    command = ["perf", "annotate", "--stdio", "-i", "hot.data", "-s", "work"]
    text = subprocess.run(command, cwd=recorded, capture_output=True, text=True).stdout
    theirs = {
        int(offset, 16): share for share, offset in re.findall(r"^ +([\d.]+) : +([0-9a-f]+): ", text, re.MULTILINE)
    }
    if not theirs:
        pytest.skip("this perf cannot annotate")
    mine = {each.vaddr: f"{100 * each.self / listing.cost:.2f}" for each in listing.instructions}
    assert {offset: share for offset, share in mine.items() if share != "0.00"} == {
        offset: share for offset, share in theirs.items() if share != "0.00"
    }
    assert sum(each.self for each in listing.instructions) == listing.cost == listing.self_cost


def test_lines_of_a_cpp_profile_cost_what_pprof_list_says(recorded: Path) -> None:
    profile = profiles.read(recorded / "cpu.pb.gz")
    pattern = "^(work|main|mix)"
    result = {listing.function: listing for listing in profile.listing(pattern)}
    routines = ROUTINE.findall(pprof(recorded, "-list", pattern, "-sample_index=cpu-clock"))
    assert {name for name, *_ in routines} == result.keys() >= {"work", "main"}
    for name, _, flat, cum, text in routines:
        listing = result[name]
        assert (listing.self_cost, listing.cost) == (nanoseconds(flat), nanoseconds(cum))
        theirs = {int(line): (nanoseconds(own), nanoseconds(total)) for own, total, line in LINE.findall(text)}
        mine = {line.line: (line.self, line.total) for line in listing.lines if not line.depth}
        assert mine == {line: values for line, values in theirs.items() if any(values)}, name
    recording = profiles.read(recorded / "hot.data")
    recording.symbolize()
    pytest.importorskip("capstone")
    (full,) = recording.annotate("^work$")
    lines = result["work"].lines
    assert sum(line.self for line in lines) == full.cost  # with the inlined calls, nothing is lost
    assert any(line.self for line in lines if line.depth)


def test_functions_of_a_named_profile_are_found_for_their_instructions(recorded: Path) -> None:
    pytest.importorskip("capstone")
    out = recorded / "named.firefox.json"
    page = recorded / "named.html"
    with contextlib.chdir(recorded):
        given = ["profile", "cpu.pb.gz", "--no-cache"]
        assert main([*given, "-o", str(out), "--flamegraph", str(page), "--embed-code"]) == 0
    symbols = json.loads(out.read_text())["shared"]
    names = [symbols["stringArray"][name] for name in symbols["nativeSymbols"]["name"]]
    assert "work" in names
    assert "<work+" in page.read_text()


def forged() -> Profile:
    """Return a profile of `main`, which calls `f` from line 5; `f` has `g` inlined in line 12, and calls itself."""
    profile = Profile(sample_types=[SampleType("cpu", "nanoseconds"), SampleType("samples", "count")])
    profile.mappings.append(Mapping(0x1000, 0x3000, 0, "/bin/app"))
    inner = (Frame("g", "g.h", 3, True, start_line=2), Frame("f", "f.c", 12, start_line=10))
    places = [inner, (Frame("f", "f.c", 14, start_line=10),), (Frame("main", "main.c", 5),), inner[1:]]
    for address, frames in enumerate(places, 0x1100):
        profile.location(0, address, frames)
    profile.location(NO_MAPPING, 7)
    for stack, cost in (([0, 2], 100), ([3, 2], 20), ([0, 1, 2], 3), ([1, 1, 2], 4000), ([4, 2], 50_000), ([2], 0)):
        profile.samples.add(stack, [cost, 1])
    return profile


def lines_of(listing: Listing) -> list[tuple[int, str, int, int, int]]:
    return [(line.depth, line.function, line.line, line.self, line.total) for line in listing.lines]


def test_inlined_lines_are_below_their_call_and_recursion_counts_once() -> None:
    result = forged().listing("^(f|g|main)$")
    assert [(each.function, each.self_cost, each.cost, each.total) for each in result] == [
        ("main", 0, 54_123, 54_123), ("f", 4020, 4123, 54_123), ("g", 103, 103, 54_123),
    ]  # fmt: skip
    assert lines_of(result[1]) == [(0, "f", 12, 20, 123), (1, "g", 3, 103, 103), (0, "f", 14, 4000, 4003)]
    assert lines_of(result[2]) == [(0, "g", 3, 103, 103)]
    assert lines_of(result[0]) == [(0, "main", 5, 0, 54_123)]
    assert "cpu 4.02 us self, 4.12 us total, 7.62% of 54.12 us" in str(result[1])


def test_costs_are_of_the_default_sample_type() -> None:
    profile = forged()
    profile.default_type = 1
    assert [(each.function, each.cost) for each in profile.listing("^[fg]$")] == [("f", 4), ("g", 2)]


def test_an_invalid_pattern_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(ValueError, match=r"invalid regular expression '\(': missing \)"):
        forged().listing("(")
    assert main(["profile", str(PERF / "plain.data"), "--list", "("]) == 2
    assert "invalid regular expression" in capsys.readouterr().err


def test_functions_without_an_executable_say_why(tmp_path: Path) -> None:
    pytest.importorskip("capstone")
    (listing,) = forged().annotate("^f$")
    assert not listing.instructions
    assert listing.cost == 4123
    assert listing.notes[0].startswith("no instructions: no file for /bin/app: ")


def test_the_command_prints_lines_and_instructions(capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("capstone")
    given = [
        "profile",
        str(PERF / "plain.data"),
        "--binary",
        str(PERF / "spin"),
        "--no-cache",
        "--source-dir",
        str(PERF),
    ]
    assert main([*given, "--list", "^leaf$"]) == 0
    lines = capsys.readouterr().out
    assert "leaf at " in lines
    assert re.search(r"^ +30\.00 ms +30\.00 ms spin\.c:5 \| ", lines, re.MULTILINE)
    assert main([*given, "--annotate", "^leaf$"]) == 0
    recorded = capsys.readouterr().out
    assert re.search(r"^ +30\.00 ms +40019d  add edx, 1$", recorded, re.MULTILINE)
    assert main([*given, "--annotate", "^leaf$", "--skid", "1", "--raw-bytes"]) == 0
    moved = capsys.readouterr().out
    assert re.search(r"^ +30\.00 ms +400196  48 89 05 .* mov qword ptr", moved, re.MULTILINE)
    assert main([*given, "--list", "^nothing$"]) == 1
    assert "no function with samples matches '^nothing$'" in capsys.readouterr().err


@pytest.mark.parametrize("option", ["--list", "--annotate"])
def test_listings_of_a_profile_are_printed_as_json(option: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("capstone")
    words = [str(PERF / "plain.data"), "--binary", str(PERF / "spin"), "--no-cache", option, "^leaf$", "--json"]
    assert main(["profile", *words]) == 0
    (listing,) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (listing["function"], listing["type"], listing["unit"]) == ("leaf", "cpu-clock", "nanoseconds")
    assert listing["self"] == listing["total"] == 40_000_000
    rows = listing["instructions"] if option == "--annotate" else listing["lines"]
    assert sum(row["self"] for row in rows) == listing["self"]


@pytest.mark.parametrize(
    "words",
    [
        ["-o", "out.pb.gz"], ["--format", "pprof"], ["--top", "3"], ["--flamegraph", "a.html"], ["--coverage"],
        ["--fail-under", "0"], ["--base", "old.pb.gz"], ["--times"],
    ],
    ids=lambda words: words[0],
)  # fmt: skip
def test_other_outputs_are_refused_with_a_listing(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(PERF / "plain.data"), "--annotate", "leaf", *words]) == 2
    given = words[0].replace("-o", "--output") if words[0] == "-o" else words[0]
    assert f"--annotate prints lines or instructions and cannot be used with {given}" in capsys.readouterr().err


def test_skid_without_instructions_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    for words in ([], ["--list", "leaf"]):
        assert main(["profile", str(PERF / "plain.data"), "--skid", "1", *words]) == 2
        assert "--skid moves the costs of instructions: give --annotate REGEX" in capsys.readouterr().err


def test_sources_of_a_profile_are_checked_by_the_debug_info(tmp_path: Path) -> None:
    source = tmp_path / "a.c"
    source.write_text("int main(void) { return 3; }\n")
    program = tmp_path / "a"
    zig = [sys.executable, "-m", "ziglang", "cc", "-g", "-gdwarf-5", "-O1"]
    made = subprocess.run([*zig, str(source), "-o", str(program)], capture_output=True, text=True)
    if made.returncode:
        pytest.skip(f"zig cannot build: {made.stderr[-200:]}")
    with whence.open(program) as binary:
        (part,) = binary.find("main")
    profile = Profile(sample_types=[SampleType("cpu", "nanoseconds")])
    profile.mappings.append(Mapping(0, 0, 0, str(program)))
    profile.samples.add([profile.location(0, part.vaddr)], [5])
    profile.symbolize(str(program))
    (listing,) = profile.listing("^main$", str(program))
    assert [result.verified for result in listing.sources.values()] == [True]
    source.write_text("int main(void) { return 4; }\n")
    (listing,) = profile.listing("^main$", str(program))
    assert not listing.sources
    assert "MD5 differs" in listing.notes[0]
