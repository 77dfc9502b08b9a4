"""Programs that start llvm-symbolizer or addr2line get the answers they expect from whence, and none hangs."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.helpers.drop_ins import SECONDS, asked, link, tool
from tests.helpers.programs import folder
from whence.objects.elf import ElfFile

SOURCES = {
    "address": r"""
int table[4];
__attribute__((noinline)) int peek(int *at, int index) {
    return at[index] + 1;
}
int main(int argc, char **) {
    return peek(table, argc + 3) + 1;
}
""",
    "undefined": r"""
__attribute__((noinline)) int shift(int by) {
    return (1 << by) + 1;
}
int main(int argc, char **) {
    return shift(argc + 40) + 1;
}
""",
    "thread": r"""
#include <pthread.h>
int shared_count;
static void *bump(void *) {
    shared_count++;
    return 0;
}
int main() {
    pthread_t first, second;
    pthread_create(&first, 0, bump, 0);
    pthread_create(&second, 0, bump, 0);
    pthread_join(first, 0);
    return pthread_join(second, 0);
}
""",
}
VARIABLES = {"address": "ASAN", "undefined": "UBSAN", "thread": "TSAN"}
BUILDS = (("g++",), ("g++", "-no-pie", "-fno-pie"), ("clang++-14", "-fuse-ld=lld"))
each_build = pytest.mark.parametrize("build", BUILDS, ids=["pie", "no-pie", "lld"])
OPTIONS = {"ASAN": "detect_leaks=0", "UBSAN": "print_stacktrace=1", "TSAN": ""}
BUSY = r"""
static inline __attribute__((always_inline)) int mix(int x) {
    return x * 31 + 7;
}
int main(void) {
    volatile int x = 1;
    for (long i = 0; i < 100000000; i++)
        x = mix(x);
    return x == 3;
}
"""
TIP = re.compile(r"^# \(Tip: .*\n", re.MULTILINE)  # another one each time
STACKTRACE = r"""
#include <boost/stacktrace.hpp>
#include <iostream>
int main() {
    std::cout << boost::stacktrace::stacktrace() << std::endl;
}
"""
LINKED = [("14", ()), ("19", ()), ("14", ("-fuse-ld=lld",)), ("19", ("-no-pie",))]
CRASH = "#pragma clang __debug crash\n"


@functools.cache
def sanitized(version: str, sanitizer: str, *flags: str) -> Path:
    """Build a faulty program with a sanitizer of a version of clang; skip the test if that fails."""
    compiler = tool(f"clang++-{version}")
    source = folder() / f"{sanitizer}.cpp"
    source.write_text(SOURCES[sanitizer])
    out = folder() / f"{sanitizer}{version}{''.join(flags)}"
    built = asked(compiler, "-g", "-O1", f"-fsanitize={sanitizer}", *flags, str(source), "-o", str(out))
    if built.returncode:
        pytest.skip(f"clang-{version} {' '.join(flags)} can't link {sanitizer} here: {built.stderr.decode()[-200:]}")
    return out


def report(path: Path, sanitizer: str, symbolizer: str) -> str:
    name = VARIABLES[sanitizer]
    env = {f"{name}_SYMBOLIZER_PATH": symbolizer, f"{name}_OPTIONS": OPTIONS[name]}
    words = [tool("setarch"), "-R", str(path)] if sanitizer == "thread" else [str(path)]
    return asked(*words, env=env).stderr.decode()


@pytest.mark.parametrize("flags", [(), ("-no-pie",), ("-fuse-ld=lld",)], ids=["pie", "no-pie", "lld"])
@pytest.mark.parametrize("name", ["llvm-symbolizer", "llvm-symbolizer-whence", "addr2line"])
@pytest.mark.parametrize("version", ["14", "19"])
def test_the_address_sanitizer_names_its_report(version: str, name: str, flags: tuple[str, ...]) -> None:
    told = report(sanitized(version, "address", *flags), "address", str(link(name)))
    source = re.escape(str(folder() / "address.cpp"))
    assert re.search(rf"#0 0x[0-9a-f]+ in peek\(int\*, int\) {source}:4", told)
    assert re.search(rf"#1 0x[0-9a-f]+ in main {source}:7", told)
    if version == "19" and name.startswith("llvm"):
        assert re.search(rf"global variable 'table' defined in '{source}:2'", told)


@pytest.mark.parametrize("name", ["llvm-symbolizer", "addr2line"])
@pytest.mark.parametrize(("version", "flags"), LINKED)
def test_the_undefined_behavior_sanitizer_names_its_report(version: str, flags: tuple[str, ...], name: str) -> None:
    told = report(sanitized(version, "undefined", *flags), "undefined", str(link(name)))
    source = re.escape(str(folder() / "undefined.cpp"))
    assert re.search(rf"#0 0x[0-9a-f]+ in shift\(int\) {source}:3", told)
    assert re.search(rf"#1 0x[0-9a-f]+ in main {source}:6", told)


@pytest.mark.parametrize("name", ["llvm-symbolizer", "addr2line"])
@pytest.mark.parametrize(("version", "flags"), LINKED)
def test_the_thread_sanitizer_names_its_report(version: str, flags: tuple[str, ...], name: str) -> None:
    told = report(sanitized(version, "thread", *flags), "thread", str(link(name)))
    if "data race" not in told:
        pytest.skip(f"ThreadSanitizer found no race here: {told[-200:]}")
    source = re.escape(str(folder() / "thread.cpp"))
    assert re.search(rf"#0 bump\(void\*\) {source}:5", told)
    if name == "llvm-symbolizer":
        assert re.search("Location is global 'shared_count' of size 4", told)


@pytest.mark.parametrize("version", ["14", "19"])
def test_llvms_crash_handler_prints_the_same_as_with_llvm_symbolizer(version: str) -> None:
    compiler, symbolizer = tool(f"clang-{version}"), tool(f"llvm-symbolizer-{version}")
    source = folder() / "crash.c"
    source.write_text(CRASH)
    words = (compiler, "-fno-crash-diagnostics", "-c", str(source), "-o", os.devnull)
    traces = [
        re.findall(
            r"^ *#\d+ 0x[0-9a-f]+ (\S.*)$",
            asked(*words, env={"LLVM_SYMBOLIZER_PATH": path}).stderr.decode(),
            re.MULTILINE,
        )
        for path in (symbolizer, str(link(f"llvm-symbolizer-{version}")))
    ]
    named = [(theirs, ours) for theirs, ours in zip(*traces, strict=True) if not theirs.startswith("(")]
    assert any("PrintStackTrace" in ours for _, ours in named)
    column = re.compile(r"(?<=:\d):\d+$|(?<=:\d\d):\d+$|(?<=:\d{3}):\d+$|(?<=:\d{4}):\d+$")
    assert [column.sub("", ours) for _, ours in named] == [column.sub("", theirs) for theirs, _ in named]


def test_boost_stacktrace_prints_the_same_as_with_addr2line() -> None:
    source, out, location = (folder() / name for name in ("stacktrace.cpp", "stacktrace", "for-boost"))
    source.write_text(STACKTRACE)
    for build in BUILDS:
        compiler, *flags = build
        words = [
            *(tool(compiler), "-g", "-DBOOST_STACKTRACE_USE_ADDR2LINE", *flags),
            *(f"-DBOOST_STACKTRACE_ADDR2LINE_LOCATION={location}", str(source), "-o", str(out), "-ldl"),
        ]
        built = asked(*words)
        if built.returncode:
            pytest.skip(f"Boost.Stacktrace is not on this machine: {built.stderr.decode()[-200:]}")
        traces = []
        for original in (tool("addr2line"), str(link("addr2line"))):
            location.unlink(missing_ok=True)
            location.write_text(f'#!/bin/sh\nexec "{original}" "$@"\n')
            location.chmod(0o755)
            traces.append(re.sub(r"0x[0-9A-F]{16}", "ADDRESS", asked(str(out)).stdout.decode()))
        assert traces[0] == traces[1]
        assert "basic_stacktrace() at /" in traces[1] or "-no-pie" not in flags


def symbol_start(path: Path, name: str) -> int:
    with ElfFile.open(path) as elf:
        symbols = elf.symbols(".symtab")
        return next(symbols.value[index] for index in range(len(symbols)) if symbols.name(index) == name)


@functools.cache
def program(compiler: str = "g++", *flags: str) -> Path:
    source = folder() / "undefined.cpp"
    source.write_text(SOURCES["undefined"])
    out = folder() / f"for-pprof{''.join(flags)}"
    words = [tool(compiler), "-g", "-O0", "-w", str(source), *flags, "-o", str(out)]
    if subprocess.run(words, capture_output=True).returncode:
        pytest.skip(f"{compiler} {' '.join(flags)} does not link on this machine")
    return out


def conversation(words: list[str], questions: list[str], ends: str) -> list[str]:
    """Return the answer to each question, which ends with a known line; the next question is sent afterwards."""
    answers = []
    with subprocess.Popen(words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdin is not None
        assert child.stdout is not None
        for question in questions:
            child.stdin.write(question)
            child.stdin.flush()
            lines = [child.stdout.readline()]
            while not re.fullmatch(ends, lines[-1]):
                assert lines[-1], child.poll()
                lines.append(child.stdout.readline())
            answers.append("".join(lines))
        child.stdin.close()
        assert child.wait(SECONDS) == 0
    return answers


@each_build
def test_pprof_gets_an_object_a_line_for_code_and_data(build: tuple[str, ...]) -> None:
    path = program(*build)
    start = symbol_start(path, "_Z5shifti")
    words = [str(link("llvm-symbolizer")), "--inlining", "-demangle=false", "--output-style=JSON"]
    code, data = conversation(words, [f"CODE {path} {start:#x}\n", f"DATA {path} {start:#x}\n"], r"\{.*\}\n")
    assert '"FunctionName":"_Z5shifti"' in code
    assert f'"FileName":"{folder() / "undefined.cpp"}"' in code
    assert '"Line":2' in code
    assert '"Name":"_Z5shifti","Size":"0x' in data


@each_build
def test_older_pprof_reads_to_an_empty_line(build: tuple[str, ...]) -> None:
    path = program(*build)
    start = symbol_start(path, "_Z5shifti")
    words = [str(link("llvm-symbolizer")), "-inlining", "-demangle=false"]
    answers = conversation(words, [f"{path} {start:#x}\n", f"{path} 0x1\n"], r"\n")
    assert answers[0].startswith(f"_Z5shifti\n{folder() / 'undefined.cpp'}:2:")
    assert answers[1] == "??\n??:0:0\n\n"


@each_build
def test_pprof_over_addr2line_reads_to_the_answer_to_all_ones(build: tuple[str, ...]) -> None:
    path = program(*build)
    start = symbol_start(path, "_Z5shifti")
    words = [str(link("addr2line")), "-aif", "-e", str(path)]
    answers = conversation(words, [f"{start:x}\nffffffffffffffff\n"] * 2, r"\?\?:0\n")
    expected = f"0x{start:016x}\n_Z5shifti\n{folder() / 'undefined.cpp'}:2\n0xffffffffffffffff\n??\n??:0\n"
    assert answers == [expected] * 2


@each_build
def test_newer_perf_detects_the_addr2line(build: tuple[str, ...]) -> None:
    path = program(*build)
    start = symbol_start(path, "_Z5shifti")
    words = [str(link("addr2line")), "-a", "-i", "-f", "-e", str(path)]
    probe, answer = conversation(words, [",\n", f"{start:016x}\n,\n"], r"\?\?:0\n")
    assert probe == "0x0000000000000000\n??\n??:0\n"
    assert answer.startswith(f"0x{start:016x}\n_Z5shifti\n")
    assert answer.endswith("0x0000000000000000\n??\n??:0\n")


def test_answers_ten_thousand_questions_sent_before_reading() -> None:
    path = program()
    start = symbol_start(path, "_Z5shifti")
    done = asked(str(link("addr2line")), "-f", "-e", str(path), stdin=f"{start:x}\n" * 10_000)
    assert done.stdout.decode() == f"_Z5shifti\n{folder() / 'undefined.cpp'}:2\n" * 10_000


def test_a_slow_reader_gets_everything() -> None:
    path = program()
    start = symbol_start(path, "_Z5shifti")
    script = f"{link('llvm-symbolizer')} -e {path} | (sleep 0.5; cat)"
    done = asked("sh", "-c", script, stdin=f"{start:#x}\n" * 5_000)
    assert done.stdout.count(b"_Z5shifti") + done.stdout.count(b"shift(int)") == 5_000


@pytest.mark.parametrize("name", ["llvm-symbolizer", "addr2line"])
@pytest.mark.parametrize("flags", [("-no-pie",), ("-fuse-ld=lld",)], ids=["no-pie", "lld"])
def test_asan_symbolize_names_the_report_of_a_program(flags: tuple[str, ...], name: str) -> None:
    """Without a symbolizer of its own, which the report names places for."""
    script, path = tool("asan_symbolize-14"), sanitized("14", "address", *flags)
    unnamed = asked(str(path), env={"ASAN_OPTIONS": "detect_leaks=0:symbolize=0"}).stderr.decode()
    assert re.search(r"#0 0x[0-9a-f]+ +\(/", unnamed)
    named = []
    for location in (tool("llvm-symbolizer-14"), str(link(name))):
        by_addr2line = location.endswith("addr2line")
        first = f"{Path(location).parent}:{os.environ['PATH']}"
        env = (
            {"LLVM_SYMBOLIZER_PATH": os.devnull, "PATH": first} if by_addr2line else {"LLVM_SYMBOLIZER_PATH": location}
        )
        named.append(asked(script, "-d", stdin=unnamed, env=env).stdout.decode())
    source = re.escape(str(folder() / "address.cpp"))
    assert re.search(rf"#0 0x[0-9a-f]+ in peek\(int\*, int\) {source}:4", named[1])
    assert name == "addr2line" or named[0] == named[1]


@pytest.mark.parametrize(
    "build", [("gcc",), ("gcc", "-no-pie"), ("clang-14", "-fuse-ld=lld")], ids=["pie", "no-pie", "lld"]
)
def test_perf_prints_the_same_as_with_addr2line(build: tuple[str, ...], tmp_path: Path) -> None:
    perf, original = tool("perf"), tool("addr2line")
    source, out, data = tmp_path / "busy.c", tmp_path / "busy", str(tmp_path / "perf.data")
    source.write_text(BUSY)
    compiler, *flags = build
    if subprocess.run([tool(compiler), "-O1", "-g", *flags, str(source), "-o", str(out)]).returncode:
        pytest.skip(f"{' '.join(build)} does not link on this machine")
    if asked(perf, "record", "-e", "cpu-clock:u", "-o", data, str(out)).returncode:
        pytest.skip("perf can't record here")
    for words in (
        ("script", "-F", "ip,sym,srcline"),
        ("script", "--inline", "-F", "ip,sym"),
        ("report", "--stdio", "-F", "overhead,srcline"),
    ):
        told = [
            asked(
                perf, *words, "--dsos", "busy", "-i", data, env={"PATH": f"{location}:{os.environ['PATH']}"}
            ).stdout.decode()
            for location in (Path(original).parent, link("addr2line").parent)
        ]
        assert TIP.sub("", told[0]) == TIP.sub("", told[1])
    assert "busy.c:" in told[1]


HOT_SOURCE = r"""
static inline __attribute__((always_inline)) int mix(int x) {
    return x * 31 + 7;
}
int main(void) {
    volatile int x = 1;
    for (long i = 0; i < 300000000; i++)
        x = mix(x);
    return x == 3;
}
"""


def test_perf_names_its_samples() -> None:
    perf = tool("perf")
    source = folder() / "hot.c"
    source.write_text(HOT_SOURCE)
    out = folder() / "hot"
    subprocess.run([tool("gcc"), "-O1", "-g", str(source), "-o", str(out)], check=True)
    data = folder() / "perf.data"
    recorded = asked(perf, "record", "-e", "cpu-clock", "-o", str(data), str(out))
    if recorded.returncode:
        pytest.skip("perf can't record here")
    env = {"PATH": f"{link('addr2line').parent}:{os.environ['PATH']}"}
    report = asked(perf, "report", "-i", str(data), "--stdio", "-F", "overhead,srcline", env=env)
    assert re.search(r"hot\.c:[378]", report.stdout.decode())
    script = asked(perf, "script", "-i", str(data), "-F", "ip,srcline", env=env)
    assert re.search(r"hot\.c:[378]", script.stdout.decode())
