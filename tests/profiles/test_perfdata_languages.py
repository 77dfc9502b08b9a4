"""Recordings of programs in C++, Rust, Go, Python and JavaScript: every frame matches `perf script`."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.helpers import golang
from tests.helpers.perf_script import Event, Seen, compare, compare_inlined, events, recorded, script
from whence.profiles import Profile, read
from whence.profiles.naming import NO_PYTHON

CPP = """
#include <algorithm>
#include <vector>
struct Shape { virtual ~Shape() {} virtual double area(int n) const = 0; };
static inline double mix(double a, int i) { for (int k = 0; k < 20; k++) a = a * 1.0000001 + i; return a; }
template <class T> struct Square : Shape {
    T side;
    Square(T s) : side(s) {}
    double area(int n) const override {
        double a = 0;
        for (int i = 0; i < n; i++) a += mix(side, i);
        return a;
    }
};
namespace outer { namespace inner {
__attribute__((noinline)) double total(const std::vector<Shape *> &all, int n) {
    double sum = 0;
    std::for_each(all.begin(), all.end(), [&](Shape *one) { sum += one->area(n); });
    return sum;
}
} }
__attribute__((noinline)) int recurse(int depth, std::vector<Shape *> &all) {
    if (depth) return recurse(depth - 1, all) + 1;
    return (int)outer::inner::total(all, 100000) & 1;
}
int main() {
    std::vector<Shape *> all{new Square<double>(2), new Square<int>(3)};
    int out = 0;
    for (int i = 0; i < 30; i++) {
        out += recurse(8, all);
        std::vector<int> numbers(60000);
        for (auto &one : numbers) one = (one * 7919 + i + int(&one - &numbers[0]) * 31) % 60000;
        std::sort(numbers.begin(), numbers.end(), [](int a, int b) { return a % 1000 < b % 1000; });
        out += numbers[3];
    }
    return out == 1;
}
"""

RUST = """
#[inline(always)]
fn step(x: u64) -> u64 { x.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407) }
#[inline(never)]
fn spin(n: u64) -> u64 { (0..n).fold(1u64, |a, i| step(a ^ i)) }
trait Work { fn work(&self, n: u64) -> u64; }
struct Spinning;
struct Sorting(Vec<u64>);
impl Work for Spinning {
    #[inline(never)]
    fn work(&self, n: u64) -> u64 { spin(n) }
}
impl Work for Sorting {
    #[inline(never)]
    fn work(&self, n: u64) -> u64 {
        let mut all = self.0.clone();
        all.iter_mut().for_each(|x| *x = step(*x));
        all.sort_by_key(|x| x % 1000);
        all[0] + n
    }
}
fn main() {
    let kinds: Vec<Box<dyn Work>> = vec![Box::new(Spinning), Box::new(Sorting((0..40000).collect()))];
    let mut out = 0u64;
    for i in 0..40u64 {
        for one in &kinds { out ^= one.work(3_000_000 + i); }
    }
    println!("{}", out);
}
"""

LOADER = """
#include <dlfcn.h>
int main(void) {
    for (int i = 0; i < 60; i++) {
        void *library = dlopen(i % 2 ? "./first.so" : "./second.so", RTLD_NOW);
        void (*run)(int) = dlsym(library, i % 2 ? "run_first" : "run_second");
        run(2000000);
        dlclose(library);
    }
    return 0;
}
"""
LIBRARY = """
static volatile unsigned long sum;
int in_front_of_%(name)s(int x) { return x * 3 + %(more)s; }
__attribute__((noinline)) void deeper_%(name)s(int n) { for (int i = 0; i < n; i++) sum += i; }
void run_%(name)s(int n) { deeper_%(name)s(n); sum++; }
"""

DEEPEST = 127  # frames of a stack that perf unwinds
SOME = 4  # of what is compared: how much there is depends on how long the machine takes for a program
FRAME_POINTERS = ("-g", "-fno-omit-frame-pointer")


def built(folder: Path, *command: str) -> None:
    if shutil.which(command[0]) is None:
        pytest.skip(f"{command[0]} is not installed")
    subprocess.run(command, cwd=folder, check=True, capture_output=True)


@pytest.fixture(scope="module")
def cpp(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("cpp")
    (folder / "p.cpp").write_text(CPP)
    built(folder, "g++", "-O2", *FRAME_POINTERS, "-o", "p", "p.cpp")
    return folder / "p"


@pytest.fixture(scope="module")
def rust(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("rust")
    (folder / "p.rs").write_text(RUST)
    built(folder, "rustc", "-O", "-g", "-C", "force-frame-pointers=yes", "p.rs")
    return folder / "p"


@pytest.fixture(scope="module")
def go(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return golang.build("busy", tmp_path_factory.mktemp("go") / "p")


@pytest.fixture(scope="module")
def loader(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("loader")
    (folder / "p.c").write_text(LOADER)
    built(folder, "gcc", "-O1", *FRAME_POINTERS, "-o", "p", "p.c")
    for name, more in (("first", "1"), ("second", " + ".join(["x * x"] * 400))):  # at other places in each
        (folder / f"{name}.c").write_text(LIBRARY % {"name": name, "more": more})
        built(folder, "gcc", "-O1", *FRAME_POINTERS, "-shared", "-fPIC", "-o", f"{name}.so", f"{name}.c")
    return folder / "p"


def named(path: Path) -> tuple[Profile, set[str]]:
    profile = read(path)
    profile.symbolize()
    return profile, {frame.function for chain in profile.frames for frame in chain}


@pytest.mark.parametrize(
    ("program", "function"),
    [("cpp", "_Z7recurseiRSt6vectorIP5ShapeSaIS1_EE"), ("rust", "p::spin"), ("go", "main.spin")],
)
def test_frame_pointer_stacks_match_perf_script(
    tmp_path: Path, request: pytest.FixtureRequest, program: str, function: str
) -> None:
    path = recorded(tmp_path, "-e", "cpu-clock", "-g", program=request.getfixturevalue(program))
    profile = read(path)
    profile.symbolize(demangle=program == "rust")
    assert function in {frame.function for chain in profile.frames for frame in chain}
    if program == "rust":
        profile = read(path)
        profile.symbolize()
    assert compare(script(path), events(profile)) > SOME


@pytest.mark.parametrize(
    "options",
    [("-e", "cpu-clock", "-z"), ("-e", "cpu-clock,task-clock", "-a", "-k", "mono", "-z")],
    ids=["alone", "of-the-machine"],
)
def test_libraries_loaded_and_unloaded_match_perf_script(
    tmp_path: Path, loader: Path, options: tuple[str, ...]
) -> None:
    for each in loader.parent.iterdir():
        os.link(each, tmp_path / each.name)
    path = recorded(tmp_path, *options, "-g", program="./p", rate=499)
    profile, names = named(path)
    assert compare(script(path), events(profile), "p") > SOME
    assert {"deeper_first", "deeper_second"} <= names


@pytest.mark.parametrize("program", ["cpp", "rust"])
def test_inlined_calls_and_lines_of_unwound_stacks_match_perf_script(
    tmp_path: Path, request: pytest.FixtureRequest, program: str
) -> None:
    file = request.getfixturevalue(program)
    path = recorded(tmp_path, "-e", "cpu-clock:u", "--call-graph", "dwarf,8192", program=file, rate=199)
    profile, _ = named(path)
    theirs, ours = script(path, inlined=True), events(profile, unwound=True, inlined=True)
    assert compare_inlined(theirs, ours, file.parent) > SOME


def test_go_stacks_are_complete(tmp_path: Path, go: Path) -> None:
    path = recorded(tmp_path, "-e", "cpu-clock:u", "--call-graph", "dwarf,4096", program=go, rate=199)
    profile, _ = named(path)
    full = 0
    for mine, other in zip(events(profile, unwound=True), script(path), strict=True):
        assert mine.frames[0].address == other.frames[0].address
        full += mine.frames[-1].name == "runtime.goexit" and len(mine.frames) > 3
    assert full > SOME


def compare_injected(theirs: list[Event], ours: list[Event]) -> int:
    """Stacks with generated code against those of `perf inject -j`, which makes a file of each function. Where perf's
    unwinding fails it ends a stack with an address of all ones; it takes DEEPEST frames. Returns how many generated
    frames were compared."""
    compared = 0
    for mine, other in zip(ours, theirs, strict=True):
        assert mine._replace(frames=()) == other._replace(frames=(), event=other.event.partition(":")[0])
        frames = [each for each in other.frames if each.address != (1 << 64) - 1]
        assert len(mine.frames) >= len(frames)
        assert len(frames) in (len(other.frames) - 1, DEEPEST, len(mine.frames))
        for current, there in zip(mine.frames, frames, strict=False):
            compared += is_same_code(current, there)
    return compared


def is_same_code(here: Seen, there: Seen) -> bool:
    """Return True if a frame is of generated code. Raise AssertionError if it differs from perf's."""
    if "jitted-" not in there.file:
        assert here.address == there.address, (here, there)
        return False
    if here.file.endswith(".dump"):
        assert here.name == there.name, (here, there)
        return True
    # V8 lists its builtins, too, which are in node's own text
    assert here.name.startswith("Builtins_"), (here, there)
    return False


SCRIPT = """
import json
def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)
def outer(k):
    return sum(fib(16) for _ in range(k))
def main():
    for i in range(12):
        outer(10)
        json.dumps(list(range(10000)))
main()
"""


def python(version: tuple[int, int]) -> str:
    """Return an interpreter of at least a version, or skip the test."""
    result = [sys.executable] if sys.version_info >= version else []
    result += map(str, Path.home().glob(".pyenv/versions/3.*/bin/python3"))
    result += [path for minor in range(12, 20) if (path := shutil.which(f"python3.{minor}"))]
    for each in result:
        asked = subprocess.run([each, "-c", f"import sys; print(sys.version_info >= {version})"], capture_output=True)
        if asked.stdout == b"True\n":
            return each
    pytest.skip(f"no Python {version[0]}.{version[1]} is installed")


def forget(profile: Profile, names: Callable[[int], str]) -> None:
    """Remove the files that interpreters wrote into /tmp, by process."""
    for pid in {each.number for labels in profile.samples.labels for each in labels if each.key == "pid"}:
        Path(names(pid)).unlink(missing_ok=True)


def test_python_stacks_with_a_perf_map_match_perf_script(tmp_path: Path) -> None:
    (tmp_path / "w.py").write_text(SCRIPT)
    path = recorded(tmp_path, "-e", "cpu-clock", "-g", program=[python((3, 12)), "-X", "perf", "w.py"])
    profile, names = named(path)
    try:
        compare(script(path), events(profile))
    finally:
        forget(profile, "/tmp/perf-{}.map".format)
    assert any("PyEval" in name for name in names)


def test_recordings_of_python_say_that_its_functions_are_not_in_them(tmp_path: Path) -> None:
    (tmp_path / "w.py").write_text(SCRIPT)
    profile, names = named(
        recorded(tmp_path, "-e", "cpu-clock:u", "--call-graph", "dwarf", program=[sys.executable, "w.py"])
    )
    assert "_PyEval_EvalFrameDefault" in names
    assert profile.notes[-1] == NO_PYTHON


def test_stacks_through_generated_code_of_python_match_perf_inject(tmp_path: Path) -> None:
    (tmp_path / "w.py").write_text(SCRIPT)
    program = [python((3, 13)), "-X", "perf_jit", "w.py"]
    path = recorded(
        tmp_path, "-e", "cpu-clock:u", "-k", "mono", "--call-graph", "dwarf,32768", program=program, rate=199
    )
    profile, names = named(path)
    try:
        injected = tmp_path / "injected.data"
        subprocess.run(["perf", "inject", "-j", "-i", path, "-o", injected], check=True, capture_output=True)
        assert compare_injected(script(injected), events(profile, unwound=True)) > SOME
    finally:
        forget(profile, "/tmp/jit-{}.dump".format)
        for each in Path("/tmp").glob(f"jitted-{profile_pid(profile)}-*.so"):
            each.unlink()
    assert any(name.startswith("py::fib:") for name in names)
    assert NO_PYTHON not in profile.notes


def profile_pid(profile: Profile) -> int:
    return next(each.number for labels in profile.samples.labels for each in labels if each.key == "pid")


JAVASCRIPT = """
function fib(n) { return n < 2 ? n : fib(n - 1) + fib(n - 2); }
let sum = 0;
for (let i = 0; i < 30; i++) sum += fib(27) + JSON.stringify({i, sum}).length;
console.log(sum);
"""


@pytest.mark.parametrize("option", ["--perf-basic-prof", "--perf-prof"])
def test_functions_of_node_match_perf_script(tmp_path: Path, option: str) -> None:
    node = shutil.which("node")
    if node is None:
        pytest.skip("node is not installed")
    (tmp_path / "w.js").write_text(JAVASCRIPT)
    path = recorded(tmp_path, "-e", "cpu-clock:u", "-k", "mono", "-g", program=[node, option, "w.js"], rate=499)
    profile, names = named(path)
    if option == "--perf-basic-prof":
        compare(script(path), events(profile))
        forget(profile, "/tmp/perf-{}.map".format)
    else:
        injected = tmp_path / "injected.data"
        subprocess.run(["perf", "inject", "-j", "-i", path, "-o", injected], check=True, capture_output=True)
        compare_injected(script(injected), events(profile))
    assert any("fib" in name and "w.js" in name for name in names)
