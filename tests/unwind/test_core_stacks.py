"""Stacks of real cores: the frames gdb finds, and what they are called."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from pathlib import Path

import pytest

import whence
from tests.helpers.cores import PROGRAM, core_of
from tests.helpers.live import compiled
from whence._base.errors import MapsError
from whence.cli.main import main
from whence.unwind import End, FoundBy

KINDS = {
    "O0": ("-O0", "-g0"),
    "omit": ("-O2", "-g0", "-fomit-frame-pointer"),
    "O3-avx": ("-O3", "-g0", "-mavx2"),
    "stripped": ("-O2", "-s"),
    "static": ("-O2", "-g0", "-static"),
    "static-pie": ("-O2", "-g0", "-static-pie"),
    "32-bit": ("-O2", "-g0", "-m32"),
    "no-pie": ("-O1", "-g0", "-no-pie"),
    "no-header": ("-O1", "-g0", "-Wl,--no-eh-frame-hdr"),
    "debug-frame": ("-O2", "-g", "-fno-asynchronous-unwind-tables", "-fomit-frame-pointer"),
}
MODES = {"O0": "Sw", "omit": "dhasSnqwvte", "32-bit": "hqwS", "O3-avx": "wq"}
THREAD = re.compile(r"^Thread \d+ .*LWP (\d+)\)")
FRAME = re.compile(r"^#\d+\s+(?:0x([0-9a-f]+) in |(<signal handler called>))?")


def by_gdb(program: Path, core: Path) -> dict[int, list[int | None]]:
    """Each thread's frames by gdb: None for what a signal handler returns to."""
    if shutil.which("gdb") is None:
        pytest.skip("gdb is not on this machine")
    settings = ("debuginfod enabled off", "debug-file-directory /nonexistent", "backtrace past-main on", "width 0")
    words = [word for each in settings for word in ("-iex", f"set {each}")]
    done = subprocess.run(
        ["gdb", "-batch", "-nx", *words, "-ex", "thread apply all bt", str(program), str(core)],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    result: dict[int, list[int | None]] = {}
    for line in done.stdout.splitlines():
        if (match := THREAD.match(line)) is not None:
            frames = result[int(match[1])] = []
        elif result and (match := FRAME.match(line)) is not None:
            frames.append(int(match[1], 16) if match[1] else None)
    # the parent of a vfork, which shares its memory, has threads that libthread_db tells of, and that the core has not
    return {tid: frames for tid, frames in result.items() if frames != [None]}


def ours(core: Path) -> dict[int, list[int | None]]:
    stacks = whence.Core(core).stacks()
    assert [(stack.end, stack.detail) for stack in stacks] == [(End.COMPLETE, "")] * len(stacks)
    return {stack.tid: [None if each.is_trampoline else each.pc for each in stack.frames] for stack in stacks}


@pytest.mark.parametrize("kind", KINDS)
def test_the_frames_of_every_thread_match_gdb(kind: str, tmp_path: Path) -> None:
    program = compiled(tmp_path, "-pthread", *KINDS[kind], source=PROGRAM, name=kind)
    for mode in MODES.get(kind, "h"):
        core = core_of(program, mode)
        expected = by_gdb(program, core)
        if kind == "debug-frame":  # with debug info gdb shows no address at a line's beginning, and inlined calls
            expected = {tid: [pc for pc in frames if pc] for tid, frames in expected.items()}
            result = ours(core)
            assert expected.keys() == result.keys()
            assert all({*expected[tid]} <= {*result[tid]} for tid in result), mode
            continue
        assert ours(core) == expected, (kind, mode)


def functions(stack: whence.Stack) -> list[str]:
    return [each.function for frame in stack.frames for each in frame.place.frames]


@pytest.mark.parametrize(
    "words",
    [("-O1", "-fno-omit-frame-pointer"), ("-O2", "-fomit-frame-pointer"), ("-O2", "-m32"), ("-O0",)],
    ids=" ".join,
)
def test_code_without_cfi_is_unwound_by_its_instructions(words: tuple[str, ...], tmp_path: Path) -> None:
    words = (*words, "-fno-asynchronous-unwind-tables", "-fno-unwind-tables", "-fno-pie", "-no-pie", "-fno-ipa-sra")
    program = compiled(tmp_path, "-pthread", "-g0", "-fno-ipa-cp", *words, source=PROGRAM)
    crashed, *others = whence.Core(core_of(program, "w")).stacks()
    assert functions(crashed)[:13] == ["boom", *["deep"] * 10, "wide", "mode"]
    assert [each.found_by for each in crashed.frames[:13]] == [FoundBy.REGISTERS, *[FoundBy.INSTRUCTIONS] * 12]
    assert crashed.end is End.COMPLETE
    assert all(functions(each)[-1] == "wait_here" or each.end is End.COMPLETE for each in others)  # which never returns


def test_a_thread_is_printed_with_its_signal_registers_and_inlined_calls(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = compiled(tmp_path, "-pthread", "-O1", source=PROGRAM)
    core = core_of(program, "h")
    assert main(["core", str(core)]) == 0
    about, *out = capsys.readouterr().out.splitlines()
    assert about.startswith("process ")
    assert f", {program}, 2" in about
    assert re.fullmatch(r"thread \d+ SIGSEGV, address 0x8 not mapped", out[0])
    assert re.fullmatch(r"  #0  0x[0-9a-f]+ .* \[registers\]", out[1])
    assert out[2] == f"      boom at {program}.c:8"
    assert re.fullmatch(r"  #1  0x[0-9a-f]+ .* \[cfi\]", out[3])
    assert out[4:6] == [f"      inlined at {program}.c:9 (inlined)", f"      deep at {program}.c:10"]
    assert out.count("  end: complete: the outermost frame is reached") == 3

    tid = out[0].split()[1]
    assert main(["core", str(core), "--thread", tid, "--json", "--registers"]) == 0
    (line,) = capsys.readouterr().out.splitlines()
    told = json.loads(line)
    assert (told["tid"], told["signal_name"], told["fault_address"]) == (int(tid), "SIGSEGV", "0x8")
    assert told["registers"]["rip"] == told["frames"][0]["address"]
    assert [each["function"] for each in told["frames"][:4]] == ["boom", "inlined", "deep", "deep"]
    assert [each["signal_trampoline"] for each in told["frames"]].count(True) == 1
    assert told["end"] == "complete"

    other = next(line.split()[1] for line in out[1:] if line.startswith("thread "))
    assert main(["core", str(core), "--thread", other]) == 0
    assert f"thread {other}" in capsys.readouterr().out.splitlines()
    assert main(["core", str(core), "--thread", other, "--json"]) == 0
    sleeping = json.loads(capsys.readouterr().out)
    assert sleeping["signal"] == 0
    assert "signal_name" not in sleeping

    assert main(["core", str(core), "--thread", tid, "--style", "gdb"]) == 0
    lines = capsys.readouterr().out.splitlines()[2:]
    assert re.fullmatch(rf"#0  0x[0-9a-f]{{16}} in boom \(\) at {re.escape(str(program))}.c:8", lines[0])
    assert lines[2] == f"#2  deep () at {program}.c:10"
    assert any(line.endswith("<signal handler called>") for line in lines)

    assert main(["core", str(core), "--thread", "1"]) == 2
    assert f"has no thread 1 (threads: {tid}, " in capsys.readouterr().err


def test_a_stack_without_its_files_says_which_build_id_is_missing(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    program = compiled(tmp_path, "-pthread", "-O2", "-fomit-frame-pointer", source=PROGRAM)
    core = core_of(program, "d")
    with whence.open(program) as binary:
        build_id = binary.build_id
    moved = program.rename(tmp_path / "moved")
    assert main(["core", str(core)]) == 1
    out = capsys.readouterr().out
    assert f"end: no-cfi: no table or heuristic unwinds this code (no file with build-id {build_id}" in out
    assert main(["core", str(core), "--binary", str(moved)]) == 0


def test_a_stack_that_overflowed_keeps_both_ends_and_counts_the_middle(tmp_path: Path) -> None:
    source = "int f(int n) { volatile int a[2]; a[0] = n; return f(n + 1) + a[0]; } int main(void) { return f(0); }"
    program = compiled(tmp_path, "-O0", source=source)
    (stack,) = whence.Core(core_of(program)).stacks()
    assert stack.end is End.COMPLETE
    assert len(stack.frames) == 4096 + 256
    assert stack.skipped > 50_000
    assert [*functions(stack)[-4:]] == ["main", "__libc_start_call_main", "__libc_start_main_impl", "_start"]


def test_a_truncated_core_has_stacks_up_to_its_end(tmp_path: Path) -> None:
    program = compiled(tmp_path, "-pthread", "-O2", source=PROGRAM)
    core = core_of(program, "d")
    full = core.read_bytes()
    for part in range(1, 20):
        core.write_bytes(full[: len(full) * part // 20])
        for stack in whence.Core(core).stacks():
            assert stack.end in End
            assert stack.frames


def test_a_replaced_core_is_an_error(tmp_path: Path) -> None:
    core = core_of(compiled(tmp_path, "-O2", source=PROGRAM), "d")
    opened = whence.Core(core)
    other = tmp_path / "other"
    other.write_bytes(core.read_bytes()[:4096])
    shutil.copy(other, core)
    with pytest.raises(MapsError, match="the file changed since it was opened") as caught:
        opened.stacks()
    assert caught.value.code == "changed"


EXCEPTIONS = """#include <cstdlib>
#include <stdexcept>
#include <string>
struct Ends { ~Ends() { if (std::getenv("IN_DESTRUCTOR")) std::abort(); } };
__attribute__((noinline)) int throws(int n) {
    Ends ends;
    if (!n) throw std::runtime_error(std::string(40, 'x'));
    return throws(n - 1) + 1;
}
int main(int argc, char **argv) {
    switch (argv[1][0]) {
    case 'u': return throws(4);
    case 'd': setenv("IN_DESTRUCTOR", "1", 1);
    default: try { throws(4); } catch (std::exception &) { std::abort(); }
    }
}
"""


@pytest.mark.parametrize("options", [("-O0",), ("-O2",), ("-O3", "-static")], ids=" ".join)
def test_exceptions_in_flight_match_gdb(options: tuple[str, ...], tmp_path: Path) -> None:
    """Not caught, in a destructor on the way, and in their handler."""
    compiler = shutil.which("g++")
    if compiler is None:
        pytest.skip("no C++ compiler on this machine")
    (tmp_path / "program.cc").write_text(EXCEPTIONS)
    program = tmp_path / "program"
    done = subprocess.run([compiler, *options, "-o", program, tmp_path / "program.cc"], capture_output=True, text=True)
    if done.returncode:
        pytest.skip(f"the compiler does not do {options}: {done.stderr[:200]}")
    for mode in "udc":
        core = core_of(program, mode)
        assert ours(core) == by_gdb(program, core), mode


def test_musl_without_cfi_has_its_stack_by_prologues_and_guesses(tmp_path: Path) -> None:
    if shutil.which("musl-gcc") is None:
        pytest.skip("no musl-gcc on this machine")
    (tmp_path / "program.c").write_text(PROGRAM)
    program = tmp_path / "program"
    subprocess.run(["musl-gcc", "-O2", "-static", "-o", program, tmp_path / "program.c"], check=True)
    core = core_of(program, "e")
    first = whence.Core(core).stacks()[0]
    assert FoundBy.SCAN not in {frame.found_by for frame in first.frames}
    assert (functions(first)[-3:], first.end) == (["main", "libc_start_main_stage2", "_start"], End.COMPLETE)
    guessed = whence.Core(core).stacks(scan=True)[0]
    named = [name for name in functions(guessed) if name in ("raise", "abort", "die", "mode", "main")]
    assert named == ["raise", "abort", "die", "mode", "main"]
    assert guessed.end is End.COMPLETE


@pytest.mark.parametrize("options", [(), ("-s",), ("-static", "-s"), ("-static-pie",), ("-Os", "-fomit-frame-pointer")])
def test_threads_of_musl_are_unwound_to_the_entry_of_the_program_or_the_thread(
    options: tuple[str, ...], tmp_path: Path
) -> None:
    """Code of musl has no CFI, and its functions that call main or abort do not return."""
    if shutil.which("musl-gcc") is None:
        pytest.skip("no musl-gcc on this machine")
    (tmp_path / "program.c").write_text(PROGRAM)
    result = {}
    for kind, words in (("named", ("-static",)), ("other", options)):
        program = tmp_path / kind
        subprocess.run(["musl-gcc", "-O2", *words, "-o", program, tmp_path / "program.c"], check=True)
        stacks = result[kind] = whence.Core(core_of(program, "e")).stacks()
        assert [(stack.end, stack.detail) for stack in stacks] == [(End.COMPLETE, "")] * len(stacks)
        assert not {FoundBy.SCAN, FoundBy.FRAME_POINTER} & {each.found_by for stack in stacks for each in stack.frames}
    assert functions(result["named"][0])[-3:] == ["main", "libc_start_main_stage2", "_start"]
    assert {functions(stack)[-1] for stack in result["named"][1:]} == {"__clone"}
    if "-Os" not in options:
        assert len(result["named"][0].frames) == len(result["other"][0].frames)


CRASH_IN_VDSO = """
#include <time.h>
int main(void) {
    for (;;)
        clock_gettime(CLOCK_MONOTONIC, (struct timespec *)8);
}
"""


def test_the_vdsos_own_frame_is_named_by_its_image_in_the_core(tmp_path: Path) -> None:
    program = compiled(tmp_path, "-O1", "-w", source=CRASH_IN_VDSO, name="clock")
    (stack,) = whence.Core(core_of(program, "")).stacks()
    mapping = stack.frames[0].place.mapping
    assert mapping is not None
    assert mapping.path == "[vdso]"
    assert functions(stack)[0] == "__vdso_clock_gettime"
