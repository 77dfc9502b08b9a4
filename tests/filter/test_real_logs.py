"""Real logs of programs that crash, leak or race, in each style, with other line endings, colors and binary lines."""

from __future__ import annotations

import functools
import json
import os
import re
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.helpers.drop_ins import tool
from tests.helpers.golang import environment, goroot
from tests.helpers.programs import folder
from whence.filter import LogFilter, Places, Style
from whence.locator.locator import Locator
from whence.objects.elf import ElfFile
from whence.objects.elf.kernels import constants

FAULTS = r"""
#include <stdlib.h>
static inline __attribute__((always_inline)) int inner(char *p) { return p[1]; }
__attribute__((noinline)) int use(char *p) {
    return inner(p) + 1;
}
int main(int c, char **v) {
    char *p = malloc(4 + c);
    free(p);
    return use(p) ^ c;
}
"""
OVERFLOW = r"""
__attribute__((noinline)) int shift(int by) {
    return (1 << by) + 1;
}
int main(int c, char **v) {
    return shift(c + 40) + 1;
}
"""
RACE = r"""
#include <pthread.h>
int shared;
static void *bump(void *unused) {
    shared++;
    return 0;
}
int main(void) {
    pthread_t one, two;
    pthread_create(&one, 0, bump, 0);
    pthread_create(&two, 0, bump, 0);
    pthread_join(one, 0);
    return pthread_join(two, 0);
}
"""
LEAK = r"""
#include <stdlib.h>
#include <string.h>
void *kept;
__attribute__((noinline)) void *take(int n) {
    void *p = malloc(n);
    memset(p, 1, n);
    return p;
}
__attribute__((noinline)) void spill(int n) {
    kept = take(n);
    kept = take(n * 2);
}
int main(void) {
    for (int i = 0; i < 2000; i++)
        spill(4000 + i);
    kept = 0;
    return 0;
}
"""
BACKTRACE = r"""
#include <execinfo.h>
#include <stdio.h>
__attribute__((noinline)) int here(void) {
    void *at[9];
    int n = backtrace(at, 9);
    backtrace_symbols_fd(at, n, 1);
    char **texts = backtrace_symbols(at, n);
    for (int i = 0; i < n; i++)
        puts(texts[i]);
    return n;
}
int main(void) {
    return here() < 0;
}
"""
CRASH = r"""
#include <stdlib.h>
__attribute__((noinline)) int poke(volatile int *p) {
    *p = 1;
    return *p + 1;
}
int main(int c, char **v) {
    return poke((int *)(long)(c - 1)) + 2;
}
"""
GLOG = r"""
#include <glog/logging.h>
__attribute__((noinline)) int poke(volatile int *p) {
    *p = 1;
    return *p + 1;
}
int main(int c, char **v) {
    google::InitGoogleLogging(v[0]);
    google::InstallFailureSignalHandler();
    return poke((int *)(long)(c - 1)) + 2;
}
"""
ABSEIL = r"""
#include "absl/debugging/failure_signal_handler.h"
__attribute__((noinline)) int poke(volatile int *p) {
    *p = 1;
    return *p + 1;
}
int main(int c, char **v) {
    absl::InstallFailureSignalHandler({});
    return poke((int *)(long)(c - 1)) + 2;
}
"""
BOOST = r"""
#include <boost/stacktrace.hpp>
#include <iostream>
__attribute__((noinline)) void here() {
    std::cout << boost::stacktrace::stacktrace();
}
int main() {
    here();
    return 0;
}
"""
RUST = """
#[inline(never)]
fn pick(at: usize) -> u32 {
    let values = vec![1u32, 2];
    values[at + 7]
}
fn main() {
    println!("{}", pick(std::env::args().count()));
}
"""
GO = """package main

//go:noinline
func inner(p *int) int {
	return *p + 1
}

//go:noinline
func outer(p *int) int {
	return inner(p) * 2
}

func main() {
	println(outer(nil))
}
"""
ABSEIL_LIBRARIES = (
    "failure_signal_handler",
    "symbolize",
    "examine_stack",
    "stacktrace",
    "base",
    "raw_logging_internal",
)
PRELOADS = {"jemalloc": "libjemalloc.so.2", "tcmalloc": "libtcmalloc.so.4"}


class Log(NamedTuple):
    """A log, the files to give, and the frames that must be in it: function and line of the program's source."""

    text: bytes
    frames: tuple[tuple[str, int], ...]
    given: tuple[Path, ...] = ()


def printed(*words: object, **environment: str) -> bytes:
    """Return what a program prints, on stdout and stderr."""
    run = subprocess.run(
        [str(word) for word in words], capture_output=True, env={"PATH": os.environ["PATH"], **environment}, timeout=60
    )
    return run.stdout + run.stderr


@functools.cache
def built(source: str, *words: str) -> Path:
    """Build a program; skip the test if that fails."""
    name = f"real-{len(built.__dict__)}-{abs(hash((source, words)))}"
    suffix = ".cpp" if "++" in words[0] else ".rs" if words[0] == "rustc" else ".c"
    path = folder() / f"{name}{suffix}"
    path.write_text(source)
    out = folder() / name
    flags = ("-O", "-g") if suffix == ".rs" else ("-g", "-O1", "-fno-omit-frame-pointer")
    options = [word for word in words[1:] if not word.startswith("-l")]
    libraries = [word for word in words[1:] if word.startswith("-l")]
    run = subprocess.run(
        [tool(words[0]), *flags, *options, str(path), "-o", str(out), *libraries], capture_output=True, check=False
    )
    if run.returncode:
        pytest.skip(f"{' '.join(words)}: {run.stderr.decode()[-200:]}")
    return out


def stripped(path: Path) -> Path:
    out = path.with_name(path.name + "-stripped")
    subprocess.run([tool("strip"), path, "-o", out], check=True)
    return out


def sanitized(compiler: str, sanitizer: str, source: str = "", frames: tuple[tuple[str, int], ...] = ()) -> Log:
    source, frames = (
        (source, frames)
        if source
        else {
            "address": (FAULTS, (("inner", 3), ("use", 5), ("main", 10), ("main", 9))),
            "undefined": (OVERFLOW, (("shift", 3), ("main", 6))),
            "thread": (RACE, (("bump", 5), ("main", 10), ("main", 11))),
            "leak": (LEAK, (("take", 6), ("spill", 12), ("main", 16))),
        }[sanitizer]
    )
    program = built(source, compiler, f"-fsanitize={sanitizer}")
    options = {"symbolize": "0", "print_stacktrace": "1"}
    words = ":".join(f"{key}={value}" for key, value in options.items())
    before = (tool("setarch"), "-R") if sanitizer == "thread" else ()
    text = printed(*before, program, **{f"{name}_OPTIONS": words for name in ("ASAN", "UBSAN", "TSAN", "LSAN")})
    if b"#0 " not in text:
        pytest.skip(f"no report: {text[-200:].decode(errors='replace')}")
    return Log(text, frames)


def backtraced(*flags: str) -> Log:
    program = built(BACKTRACE, *(flags if flags and "clang" in flags[0] else ("gcc", *flags)))
    return Log(printed(program), (("here", 6), ("main", 14)), (program,) if "-static" in flags else ())


def heap(library: str) -> Log:
    preload = next(Path("/usr/lib").glob(f"*/{PRELOADS[library]}"), None)
    if preload is None:
        pytest.skip(f"no {PRELOADS[library]}")
    location = folder() / library
    location.mkdir(exist_ok=True)
    prefix = f"{location}/heap"
    printed(
        built(LEAK, "gcc"),
        LD_PRELOAD=str(preload),
        MALLOC_CONF=f"prof:true,prof_final:true,lg_prof_sample:12,prof_leak:true,prof_prefix:{prefix}",
        HEAPPROFILE=prefix,
    )
    written = sorted(location.glob("heap*"))
    if not written:
        pytest.skip(f"{library} wrote no heap profile")
    return Log(written[-1].read_bytes(), (("take", 6), ("spill", 12), ("main", 16)))


def leak_check() -> Log:
    preload = next(Path("/usr/lib").glob(f"*/{PRELOADS['tcmalloc']}"), None)
    if preload is None:
        pytest.skip(f"no {PRELOADS['tcmalloc']}")
    program = built(LEAK, "gcc", "-no-pie")
    text = printed(program, LD_PRELOAD=str(preload), HEAPCHECK="normal", PPROF_PATH="/")
    if b"\t@ " not in text:
        pytest.skip(f"no leak was found: {text[-200:].decode()}")
    return Log(text, (("take", 6), ("spill", 12), ("main", 16)), (program,))


def stack_of(source: str, *words: str) -> Log:
    """Return the log of a program that prints a part of its own frames; it is not position-independent."""
    program = built(source, *words)
    return Log(printed(stripped(program)), (("poke", 4),), (program,))


def boost() -> Log:
    program = built(BOOST, "g++", "-no-pie", "-ldl")
    shown = stripped(program)
    return Log(printed(shown).replace(bytes(shown), bytes(program)), (("here", 5), ("main", 8)))


def rust() -> Log:
    program = built(RUST, "rustc", "-Crelocation-model=static")
    return Log(printed(stripped(program), RUST_BACKTRACE="full"), (("pick", 5), ("main", 8)), (program,))


def go() -> Log:
    location = folder() / "real-go"
    location.mkdir(exist_ok=True)
    (location / "app.go").write_text(GO)
    root = goroot()
    command = [str(root / "bin" / "go"), "build", "-trimpath", "-o", "app", "app.go"]
    run = subprocess.run(
        command, cwd=location, env=environment(root, GO111MODULE="off", GOFLAGS=""), capture_output=True
    )
    if run.returncode:
        pytest.skip(f"go build: {run.stderr.decode()[-200:]}")
    text = printed(location / "app", GOTRACEBACK="all")
    return Log(
        re.sub(rb"(\tapp\.go|\t\./app\.go|\t_/\S*app\.go):\d+", rb"\1:0", text),
        (("outer", 10), ("main", 14)),
        (location / "app",),
    )


def valgrind(flag: str) -> Log:
    program = built(FAULTS, "gcc", flag)
    shown = stripped(program)
    text = printed(tool("valgrind"), shown).replace(bytes(shown), bytes(program))
    return Log(text, (("main", 9), ("main", 10)))


def gdb() -> Log:
    program = built(CRASH, "gcc", "-no-pie")
    text = printed(tool("gdb"), "-nx", "-q", "-batch", "-ex", "run", "-ex", "bt", stripped(program))
    if b" in ?? ()" not in text:
        pytest.skip(f"gdb could not run it: {text[-200:].decode()}")
    return Log(text, (("poke", 4), ("main", 8)), (program,))


LOGS: dict[str, Callable[[], Log]] = {
    **{
        f"{sanitizer} of {compiler}": functools.partial(sanitized, compiler, sanitizer)
        for compiler, sanitizers in (
            ("gcc", "address thread leak"),
            ("clang-14", "address undefined"),
            ("clang-19", "thread"),
        )
        for sanitizer in sanitizers.split()
    },
    "fault under thread of gcc": functools.partial(sanitized, "gcc", "thread", CRASH, (("poke", 4), ("main", 8))),
    "backtrace_symbols": backtraced,
    "backtrace_symbols, exported": functools.partial(backtraced, "-rdynamic"),
    "backtrace_symbols, not PIE": functools.partial(backtraced, "-no-pie"),
    "backtrace_symbols, static": functools.partial(backtraced, "-static"),
    "backtrace_symbols, lld": functools.partial(backtraced, "clang-14", "-fuse-ld=lld"),
    "jemalloc": functools.partial(heap, "jemalloc"),
    "gperftools": functools.partial(heap, "tcmalloc"),
    "gperftools, leaks": leak_check,
    "glog": functools.partial(stack_of, GLOG, "g++", "-no-pie", "-lglog"),
    "abseil": functools.partial(stack_of, ABSEIL, "g++", "-no-pie", *(f"-labsl_{name}" for name in ABSEIL_LIBRARIES)),
    "Boost.Stacktrace": boost,
    "Rust": rust,
    "Go": go,
    "valgrind": functools.partial(valgrind, "-no-pie"),
    "valgrind, PIE": functools.partial(valgrind, "-pie"),
    "gdb": gdb,
}


@functools.cache
def log(name: str) -> Log:
    return LOGS[name]()


def filtered(text: bytes, given: tuple[Path, ...], style: Style = Style.SAME) -> bytes:
    with Places(Locator(files=given, columns=style is not Style.SAME)) as places:
        engine = LogFilter(places, style=style)
        return engine.feed(text) + engine.finish()


def has(text: bytes, function: str, line: int, style: Style) -> bool:
    if style is Style.JSON:
        return bool(
            re.search(rb'"function": "(?:\w+(?:::|\.))*%s[("][^}]*"line": %d[,}]' % (function.encode(), line), text)
        )
    location = rb"[^\s()]*:%d\b" % line
    name = rb"\b%s\b[^\n]*" % function.encode()
    return bool(re.search(name + rb"[ (]" + location + rb"|" + location + rb" in " + name, text))


@pytest.mark.parametrize("style", list(Style))
@pytest.mark.parametrize("name", LOGS)
def test_a_real_log_is_named_and_a_second_pass_changes_nothing(name: str, style: Style) -> None:
    text, frames, given = log(name)
    if name == "Go" and style is not Style.SAME:
        frames = ()  # a trimmed path is completed in its line
    named = filtered(text, given, style)
    missing = [frame for frame in frames if name != "Go" and not has(named, *frame, style)]
    assert not missing, named.decode(errors="replace")
    assert filtered(named, given, style) == named


def test_the_paths_of_a_real_panic_of_go_are_completed() -> None:
    text, frames, given = log("Go")
    named = filtered(text, given)
    assert re.findall(rb"app\.go:(\d+) \+0x", named) == [b"%d" % line for _, line in frames]


@pytest.mark.parametrize("name", LOGS)
def test_line_ends_colors_and_binary_lines_make_no_difference(name: str) -> None:
    text, _, given = log(name)
    named = filtered(text, given)
    assert filtered(text.replace(b"\n", b"\r\n"), given) == named.replace(b"\n", b"\r\n")
    binary = b"\0\xff\xfe #0 0x12  (/a+0x1)\n\x80\x81\n"
    assert filtered(binary + text + binary, given) == binary + named + binary
    coloured = filtered(b"".join(b"\x1b[1;31m" + line + b"\x1b[0m\n" for line in text.splitlines()), given)
    assert [re.sub(rb"\x1b\[[0-9;]*m", b"", line) for line in coloured.splitlines()] == named.splitlines()
    assert all(line.startswith(b"\x1b[1;31m") for line in coloured.splitlines() if line.strip())


@pytest.mark.parametrize("name", LOGS)
def test_prefixes_of_log_collectors_make_no_difference(name: str) -> None:
    text, _, given = log(name)
    prefix = b"2026-11-22T04:56:14.123456789Z stderr F "
    kept = b"".join(prefix + line + b"\n" for line in text.splitlines())
    assert [line.removeprefix(prefix) for line in filtered(kept, given).splitlines()] == filtered(
        text, given
    ).splitlines()


def test_native_frames_of_node_have_the_names_of_its_symbols() -> None:
    program = Path(tool("node")).resolve()
    text = printed(program, "-e", "process.abort()")
    bare = re.findall(rb"^ *\d+: 0x([0-9a-f]+)  \[", text, re.MULTILINE)
    with ElfFile.open(program) as elf:
        if not bare or elf.type != constants.ET_EXEC or elf.section(".symtab") is None:
            pytest.skip("this node prints no native frames, or has no symbols for them")
    addresses = [f"{int(offset, 16) - 1:#x}" for offset in bare]
    command = [tool("llvm-symbolizer-14"), "--no-inlines", "-e", str(program), *addresses]
    theirs = subprocess.run(command, capture_output=True, check=True, text=True).stdout.split("\n\n")
    named = filtered(text, (program,))
    ours = re.findall(rb"^ *\d+: 0x[0-9a-f]+  \[\S+\] in (.*?)(?: at .*)?$", named, re.MULTILINE)
    assert [name.decode() for name in ours] == [answer.split("\n")[0] for answer in theirs if answer]


def test_a_summary_equals_the_sanitizers_own() -> None:
    compiler = shutil.which("clang-19") or shutil.which("clang-14")
    if compiler is None:
        pytest.skip("no clang on this machine")
    program = built(FAULTS, Path(compiler).name, "-fsanitize=address")
    own = re.search(rb"SUMMARY: .*", printed(program, ASAN_OPTIONS="detect_leaks=0"))
    if own is None or b"faults" in own[0] or b".c:" not in own[0]:
        pytest.skip("the sanitizer found no symbolizer")
    named = filtered(printed(program, ASAN_OPTIONS="symbolize=0:detect_leaks=0"), ())
    ours = re.search(rb"SUMMARY: .*", named)
    assert ours is not None
    assert re.sub(rb":\d+( in )", rb"\1", own[0]) == ours[0].rstrip()  # without the column


def test_a_report_of_many_threads_is_written_as_soon_as_its_summary_is_read() -> None:
    text = b"WARNING: ThreadSanitizer: data race (pid=1)\n    #0 <null> <null> (app+0x1)\n"
    with Places() as places:
        engine = LogFilter(places)
        assert engine.feed(b"before\n" + text) == b"before\n"
        assert engine.feed(b"SUMMARY: ThreadSanitizer: data race (/no/app+0x1)\nmore\n") == (
            text + b"SUMMARY: ThreadSanitizer: data race (/no/app+0x1)\nmore\n"
        )
        assert engine.feed(text) == b""
        assert engine.feed(b"==================\n") == text + b"==================\n"


def test_json_of_a_real_report_is_valid() -> None:
    named = filtered(log("backtrace_symbols").text, (), Style.JSON)
    chains = [json.loads(result) for result in re.findall(rb" in (\[\{.*\}\])", named)]
    assert {"here", "main"} <= {frame["function"] for chain in chains for frame in chain}
