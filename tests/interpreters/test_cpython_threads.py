"""Python frames of live processes and cores: those of `sys._current_frames()`, in their places in the native stacks."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import pytest
from elftools.elf.elffile import ELFFile

import whence
from tests.helpers.cores import CORE_PATTERN
from tests.helpers.live import state, until
from tests.helpers.python_threads import PythonThreads, interpreters, python_threads
from whence.cli.main import main
from whence.interpreters.merging import Merged
from whence.interpreters.model import InterpretedStack
from whence.interpreters.process import InterpretedThread
from whence.symbolize import Process
from whence.unwind import End, FoundBy

if TYPE_CHECKING:
    from whence.symbolize import Stack
    from whence.unwind.live import LiveStack

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="live processes are read from /proc")


@pytest.fixture(scope="module", params=interpreters())
def process(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PythonThreads]:
    with python_threads(request.param, tmp_path_factory.mktemp("threads")) as running:
        yield running


@pytest.fixture(scope="module")
def stacks(process: PythonThreads) -> dict[int, Stack]:
    return {stack.tid: stack for stack in Process(process.pid).stacks()}


def functions(stack: Stack) -> list[tuple[str, str, int]]:
    """Functions, files and lines of a thread's Python frames."""
    return [(each.function, each.file, each.line) for frame in stack.python_frames for each in frame.place.frames]


def test_live_threads_have_the_interpreters_frames(process: PythonThreads, stacks: dict[int, Stack]) -> None:
    assert {tid: functions(stacks[tid]) for tid in process.threads} == process.threads


def test_every_evaluation_has_its_native_frame(process: PythonThreads, stacks: dict[int, Stack]) -> None:
    for tid in process.threads:
        stack = stacks[tid]
        assert (stack.interpreter_problem, stack.apart) == ("", ())
        for frame in stack.native_frames:
            names = {each.function for each in frame.place.frames}
            if names and frame.place.frames[0].source != "dynsym":  # a stripped one has names of its API only
                assert frame.is_evaluation == ("_PyEval_EvalFrameDefault" in names), names


def test_native_frames_stay_complete(process: PythonThreads, stacks: dict[int, Stack]) -> None:
    native = {stack.tid: stack for stack in Process(process.pid).stacks(interpreters=False)}
    for tid in process.threads:
        assert [frame.pc for frame in stacks[tid].native_frames] == [frame.pc for frame in native[tid].frames]
        assert not native[tid].python_frames
        shown = [frame for frame in stacks[tid].all_frames if not frame.is_evaluation]
        assert list(stacks[tid].frames) == shown


def test_python_frames_name_their_source_and_declaration(process: PythonThreads, stacks: dict[int, Stack]) -> None:
    frames = [frame for tid in process.threads for frame in stacks[tid].python_frames]
    assert {frame.found_by for frame in frames} == {FoundBy.INTERPRETER}
    assert {each.source for frame in frames for each in frame.place.frames} == {whence.Source.PYTHON}
    assert all(0 < each.start_line <= each.line for frame in frames for each in frame.place.frames)
    columns = {each.column for frame in frames for each in frame.place.frames if each.function == "stay"}
    assert columns == ({5} if process.version >= (3, 11) else {0})  # block.wait()


def test_threads_that_do_not_match_are_taken_again(
    process: PythonThreads, stacks: dict[int, Stack], monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, second, *_) = process.threads
    failures = {first: 1, second: 5}
    taken = []
    with whence.Symbolizer() as symbolizer, Process(process.pid).live_stacks(symbolizer) as live:
        merged = live._merged

        def failing(stacks: list[LiveStack]) -> dict[int, InterpretedThread]:
            threads = merged(stacks)
            taken.append(len(threads))
            for tid in threads.keys() & {tid for tid, left in failures.items() if left}:
                failures[tid] -= 1
                threads[tid] = InterpretedThread(InterpretedStack(), Merged((), problem="broken"))
            return threads

        monkeypatch.setattr(live, "_merged", failing)
        copies = live.copies()
        problems = {tid for tid, thread in live.interpreted.items() if thread.merged.problem}
        assert (problems, taken[1:]) == ({second}, [2, 1, 1, 1])
        assert {stack.tid: stack.python_name for stack in live.name(copies)} == {
            tid: stack.python_name for tid, stack in stacks.items()
        }
        failures[second] = 1
        live.copies()
        assert taken[5:] == taken[:1]


def test_callbacks_are_between_their_native_callers(process: PythonThreads, stacks: dict[int, Stack]) -> None:
    (tid,) = (tid for tid, frames in process.threads.items() if any(name == "called_back" for name, *_ in frames))
    names = [each.function for frame in stacks[tid].frames for each in frame.place.frames]
    suffix = "called_back.<locals>.callback" if process.version >= (3, 11) else "callback"
    callback, caller = names.index(suffix), names.index("called_back")
    assert caller > callback + 1  # libffi and ctypes
    files = {frame.place.mapping.path for frame in stacks[tid].frames if frame.place.mapping}
    between = [path for path in files if "ffi" in path or "_ctypes" in path]
    assert between


def test_threads_have_the_names_that_the_program_gave_them(process: PythonThreads, stacks: dict[int, Stack]) -> None:
    (tid,) = (tid for tid, frames in process.threads.items() if any(name == "many_lines" for name, *_ in frames))
    stack = stacks[tid]
    assert (stack.name if process.version >= (3, 14) else stack.python_name).startswith("höhe")


def test_waiting_threads_say_for_what(process: PythonThreads, stacks: dict[int, Stack]) -> None:
    assert {stacks[tid].waits_for for tid in process.threads} == {"a lock"}
    assert {stacks[tid].has_gil for tid in process.threads} == {False}


@pytest.fixture(scope="module")
def core(process: PythonThreads, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    if shutil.which("gcore") is None:
        pytest.skip("gcore (of gdb) is not on this machine")
    folder = tmp_path_factory.mktemp("core")
    done = subprocess.run(["gcore", "-o", folder / "core", str(process.pid)], capture_output=True)
    path = folder / f"core.{process.pid}"
    if done.returncode or not path.exists():
        pytest.skip("gcore may not trace this process")
    yield path
    os.remove(path)


def test_cores_of_gdb_have_the_same_frames(process: PythonThreads, core: Path) -> None:
    _, stacks = stacks_of(core, "")
    with core.open("rb") as file:
        torn = [tid for tid in process.threads if not any(stack_bytes(file, stacks[tid]))]
    if torn:
        assert all(stacks[tid].interpreter_problem for tid in torn)
        pytest.skip("gdb wrote zeros in place of stacks")  # gdb 13, of threads of glibc 2.42 and later
    assert {tid: functions(stacks[tid]) for tid in process.threads} == process.threads
    assert {stacks[tid].interpreter_problem for tid in process.threads} == {""}


def stacks_of(path: Path, root: str) -> tuple[tuple[str, ...], dict[int, Stack]]:
    """Return the problems of the interpreters, and the stacks by tid, of a core whose files are below a folder."""
    core = whence.Core(path, sysroot=root)
    with whence.Symbolizer(locator=whence.Locator(sysroot=root)) as symbolizer:
        stacks = {stack.tid: stack for stack in core.stacks(symbolizer)}
    return core.interpreter_problems, stacks


def stack_bytes(core: BinaryIO, stack: Stack) -> bytes:
    """Return the bytes at the stack pointer of a thread."""
    address = stack.registers["rsp"]
    for segment in ELFFile(core).iter_segments("PT_LOAD"):
        if segment["p_vaddr"] <= address < segment["p_vaddr"] + segment["p_filesz"]:
            core.seek(segment["p_offset"] + address - segment["p_vaddr"])
            return core.read(512)
    return b""


@pytest.mark.parametrize("interpreter", interpreters())
def test_cores_of_the_kernel_have_the_same_frames(interpreter: str, tmp_path: Path) -> None:
    if CORE_PATTERN.read_text().strip() not in ("core", "core.%p"):
        pytest.skip("cores do not go into the folder of the process here")
    with python_threads(interpreter, tmp_path, may_dump=True) as process:
        root = os.open(f"/proc/{process.pid}/root", os.O_RDONLY)  # of an interpreter in a root of its own
        os.kill(process.pid, signal.SIGABRT)
        assert until(lambda: state(f"/proc/{process.pid}") == "Z")
    try:
        (core,) = tmp_path.glob("core*")
        problems, stacks = stacks_of(core, f"/proc/self/fd/{root}")
    finally:
        os.close(root)
    assert problems == ()
    assert {tid: functions(stacks[tid]) for tid in process.threads} == process.threads
    assert {(stacks[tid].interpreter_problem, stacks[tid].end) for tid in process.threads} == {("", End.COMPLETE)}


def test_cores_have_the_same_frames_without_unwinding(process: PythonThreads, core: Path) -> None:
    stacks = {stack.tid: stack for stack in whence.Core(core).stacks(native=False)}
    assert {tid: functions(stacks[tid]) for tid in process.threads} == process.threads
    assert {len(stack.native_frames) for stack in stacks.values()} == {0}
    assert {stacks[tid].has_gil for tid in process.threads} == {False}
    live = {stack.tid: stack.python_name for stack in Process(process.pid).stacks()}
    assert {stack.tid: stack.python_name for stack in stacks.values()} == live


def test_cores_have_the_frames_that_pystack_prints(process: PythonThreads, core: Path) -> None:
    pystack = Path(sys.executable).parent / "pystack"
    if not pystack.exists():
        pytest.skip("pystack is not installed")
    printed = subprocess.run([pystack, "core", core], capture_output=True, text=True).stdout
    frame = re.compile(r'^ +\(Python\) File "(.*)", line (\d+), in (.*)$', re.MULTILINE)
    seen = {}
    for part in printed.split("Traceback for thread ")[1:]:
        tid = int(part.split(maxsplit=1)[0])
        seen[tid] = [(name.rpartition(".")[2], file, int(line)) for file, line, name in frame.findall(part)][::-1]
    ours = {
        stack.tid: [(name.rpartition(".")[2], file, line) for name, file, line in functions(stack)]
        for stack in whence.Core(core).stacks(native=False)
    }
    ascii_only = {tid for tid, frames in process.threads.items() if all(name.isascii() for name, *_ in frames)}
    assert len(ascii_only) == len(process.threads) - 1  # of the other one, pystack 1.7 leaves out a frame
    assert {tid: ours[tid] for tid in ascii_only} == {tid: seen[tid] for tid in ascii_only}


def test_commands_select_frames(process: PythonThreads, capsys: pytest.CaptureFixture[str]) -> None:
    tid = next(tid for tid, frames in process.threads.items() if any(name == "consumed" for name, *_ in frames))
    words = ["pid", str(process.pid), "--stop", "--thread", str(tid), "--json"]
    sources = {}
    for option in ("", "--python-only", "--native-only", "--all-frames"):
        main([*words, *filter(None, [option])])
        frames = json.loads(capsys.readouterr().out)["frames"]
        sources[option] = [frame["source"] == "python" for frame in frames]
    count = len(process.threads[tid])
    assert sources["--python-only"] == [True] * count
    assert sources["--native-only"].count(True) == 0
    assert sum(sources[""]) == sum(sources["--all-frames"]) == count
    assert len(sources[""]) < len(sources["--all-frames"])


def test_text_has_the_frames_and_what_the_thread_waits_for(
    process: PythonThreads, capsys: pytest.CaptureFixture[str]
) -> None:
    tid = next(tid for tid, frames in process.threads.items() if any(name == "compared" for name, *_ in frames))
    main(["pid", str(process.pid), "--stop", "--thread", str(tid), "--python-only"])
    about, title, *lines = capsys.readouterr().out.splitlines()
    assert about.endswith(f", CPython {'.'.join(map(str, process.version))}")
    assert title.endswith("waits for a lock")
    name, file, line = next(frame for frame in process.threads[tid] if frame[0] == "compared")
    assert sum(text.strip().startswith(f"{name} at {file}:{line}") for text in lines) == 1
