"""Stacks of live processes are complete, and no thread is left stopped."""

from __future__ import annotations

import ctypes
import json
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import whence
from tests.helpers.live import compiled, running, states, until
from tests.helpers.programs import UNTIL_ASLEEP
from whence._base.reasons import Reason
from whence.cli.main import main
from whence.procmap.resolver import Resolver
from whence.procmap.snapshot import SnapshotMappings
from whence.procmap.threads import Thread
from whence.unwind import End
from whence.unwind.live import LiveProcess
from whence.unwind.memory import Unreadable
from whence.unwind.stopping import StackPointer, stop_threads

if not sys.platform.startswith("linux"):
    pytest.skip("stopping threads is Linux's", allow_module_level=True)

PROGRAM = (
    """#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
static volatile unsigned long spins;
static volatile int handled;
__attribute__((noinline)) static void wait_here(int deep) {
    volatile char place[100];
    place[0] = deep;
    if (deep) wait_here(deep - 1); else for (;;) pause();
    spins += place[0];
}
__attribute__((noinline)) static void spin(void) { for (;;) spins++; }
static void *sleeper(void *x) { pthread_setname_np(pthread_self(), "sleeper"); wait_here(5); return x; }
static void *runner(void *x) { pthread_setname_np(pthread_self(), "runner"); spin(); return x; }
static void handler(int s) { handled++; }
static void on_other_stack(int s) { wait_here(2); }
__attribute__((noinline)) static int deep(int n) {
    volatile int a[2];
    a[0] = n;
    return n ? deep(n - 1) + a[0] : pause();
}
"""
    + UNTIL_ASLEEP
    + """
int main(int argc, char **argv) {
    pthread_t t;
    int threads = argc > 2 ? atoi(argv[2]) : 0;
    static char stack[65536];
    stack_t other = {stack, 0, sizeof stack};
    struct sigaction action = {.sa_handler = on_other_stack, .sa_flags = SA_ONSTACK};
    for (int i = 0; i < threads; i++) pthread_create(&t, 0, sleeper, 0);
    if (argv[1][0] == 'r' || argv[1][0] == 'z') pthread_create(&t, 0, argv[1][0] == 'r' ? runner : sleeper, 0);
    if (argv[1][0] == 's') signal(SIGRTMIN, handler);
    until_asleep(threads + (argv[1][0] == 'z'));
    if (argv[1][0] == 'r') usleep(20000);
    puts("ready");
    fflush(stdout);
    switch (argv[1][0]) {
    case 'v': if (!vfork()) { sleep(100); _exit(0); } break;
    case 'z': pthread_exit(0);
    case 'a': sigaltstack(&other, 0); sigaction(SIGUSR1, &action, 0); raise(SIGUSR1); break;
    case 'd': return deep(atoi(argv[3]));
    case 's': { char c; while (read(0, &c, 1) != 0) {} printf("%d\\n", handled); return 0; }
    case 'e': getchar(); return 7;
    }
    wait_here(3);
    return 0;
}
"""
)
LAYOUTS = [StackPointer(216, 152, 8), StackPointer(272, 248, 8)]


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return compiled(tmp_path_factory.mktemp("live"), "-pthread", source=PROGRAM)


def functions(stack: whence.Stack) -> list[str]:
    return [each.function for frame in stack.frames for each in frame.place.frames]


def test_every_thread_has_its_complete_stack_even_running_threads(program: Path) -> None:
    with running([program, "r", "2"], rests=True) as (pid, _), whence.Process(pid) as process:
        first, *others = process.stacks()
        assert (first.tid, first.name, first.end) == (pid, "program", End.COMPLETE)
        assert functions(first)[-8:-3] == ["wait_here", "wait_here", "wait_here", "wait_here", "main"]
        assert sorted(each.name for each in others) == ["runner", "sleeper", "sleeper"]
        for stack in others:
            inner = {"runner": ["spin", "runner"], "sleeper": ["wait_here"] * 6 + ["sleeper"]}[stack.name]
            result = functions(stack)
            assert [each for each in result if each in inner] == inner
            assert result[-2] == "start_thread"
            assert (stack.end, stack.detail, stack.missing) == (End.COMPLETE, "", None)
        assert until(lambda: "t" not in states(pid))
        assert [each.tid for each in process.stacks(tids=[others[0].tid])] == [others[0].tid]


def test_threads_run_while_their_stacks_are_unwound(program: Path) -> None:
    """Stopping is a small part of the time that stacks take, on a loaded machine too."""
    with running([program, "r", "200"]) as (pid, _), whence.Process(pid) as process:

        def is_short() -> bool:
            began = time.perf_counter()
            stacks = process.stacks()
            elapsed = time.perf_counter() - began
            assert len(stacks) == 202
            return 0 < max(stack.held for stack in stacks) < elapsed / 10 and all(stack.registers for stack in stacks)

        assert until(is_short)


def test_a_group_of_threads_is_copied_with_registers_and_stacks(program: Path) -> None:
    with running([program, "r", "200"]) as (pid, _):

        def is_complete() -> bool:
            stopped = stop_threads(pid, f"/proc/{pid}", LAYOUTS)
            assert len(stopped.threads) == 202
            assert stopped.stopped_seconds > 0
            return all(thread.registers and len(thread.stack) for thread in stopped.threads)

        assert until(is_complete)


SAMPLE = """
import sys
from whence.unwind.stopping import StackPointer, stop_threads
pid = int(sys.argv[1])
print("ready", flush=True)
while True:
    stop_threads(pid, f"/proc/{pid}", [StackPointer(216, 152, 8), StackPointer(272, 248, 8)])
"""


def test_killing_the_tracer_releases_stopped_threads(program: Path) -> None:
    with running([program, "r", "100"]) as (pid, _):
        for _ in range(3):
            with running([sys.executable, "-c", SAMPLE, str(pid)]) as (sampler, _):

                def is_caught(sampler: int = sampler) -> bool:
                    """Return True if the sampler is stopped while it holds threads of the program."""
                    os.kill(sampler, signal.SIGSTOP)
                    if until(lambda: set(states(sampler)) == {"T"}, 1) and "t" in states(pid):
                        return True
                    os.kill(sampler, signal.SIGCONT)
                    return False

                assert until(is_caught), "the sampler was never stopped while threads were stopped"
                os.kill(sampler, signal.SIGKILL)
                assert until(lambda: "t" not in states(pid))
        assert [stack.end for stack in whence.Process(pid).stacks()] == [End.COMPLETE] * 102


VFORK = """#include <stdio.h>
#include <unistd.h>
__attribute__((noinline)) static int wait_for_child(int x) {
    if (!vfork()) { sleep(100); _exit(0); }
    return x + 1;
}
__attribute__((noinline)) static int outer(int x) { return wait_for_child(x) + 1; }
int main(int argc, char **argv) {
    puts("ready");
    fflush(stdout);
    return outer(argc);
}
"""


@pytest.fixture
def blocked(tmp_path: Path) -> Iterator[int]:
    """Run the parent of a vfork, whose functions save no frame pointer."""
    path = compiled(tmp_path, "-fomit-frame-pointer", "-fno-optimize-sibling-calls", source=VFORK, name="blocked")
    with running([path]) as (pid, _):
        assert until(lambda: states(pid) == ["D"])
        try:
            yield pid
        finally:
            for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
                os.kill(int(child), signal.SIGKILL)


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="return addresses are in a register that /proc lacks")
def test_the_parent_of_a_vfork_is_unwound_by_the_registers_in_proc(blocked: int) -> None:
    (stack,) = whence.Process(blocked).stacks()
    assert stack.end is End.COMPLETE
    assert stack.state == "D"
    assert functions(stack)[1:4] == ["wait_for_child", "outer", "main"]
    assert functions(stack)[-1] == "_start"
    assert stack.detail.startswith("it did not stop on request: it is blocked in the kernel; unwound by the ")
    assert stack.missing is not None
    assert stack.missing.reason is Reason.NOT_TRACEABLE
    assert {"rsp", "rip", "rdi"} <= stack.registers.keys()
    assert "rbp" not in stack.registers


def test_a_blocked_thread_is_not_left_stopped(program: Path) -> None:
    with running([program, "v"]) as (pid, _):
        assert until(lambda: states(pid) == ["D"])
        whence.Process(pid).stacks()
        (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        os.kill(int(child), signal.SIGKILL)
        assert until(lambda: states(pid) == ["S"])
        assert "TracerPid:\t0\n" in Path(f"/proc/{pid}/status").read_text()


@pytest.mark.skipif(os.uname().machine != "x86_64", reason="return addresses are in a register that /proc lacks")
def test_a_blocked_thread_whose_frame_pointer_is_needed_has_no_registers(tmp_path: Path) -> None:
    path = compiled(tmp_path, "-fno-omit-frame-pointer", source=VFORK, name="blocked")
    with running([path]) as (pid, _):
        assert until(lambda: states(pid) == ["D"])
        (stack,) = whence.Process(pid).stacks()
        (child,) = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
        os.kill(int(child), signal.SIGKILL)
    assert functions(stack)[1:] == ["wait_for_child"]
    assert stack.end is End.NO_REGISTERS
    assert "needs register 6, whose value is unknown" in stack.detail


def test_a_thread_that_moves_while_it_is_unwound_has_no_stack(blocked: int, monkeypatch: pytest.MonkeyPatch) -> None:
    places = [Thread(blocked, "blocked", "D", 0x1000 + index, 0x2000) for index in range(2)]
    monkeypatch.setattr("whence.unwind.live.find_thread", lambda *_: places.pop())
    (stack,) = whence.Process(blocked).stacks()
    assert (stack.end, len(stack.frames), stack.registers) == (End.NO_REGISTERS, 1, {})


def test_stopped_processes_stay_stopped(program: Path) -> None:
    with running([program, "r"]) as (pid, _):
        os.kill(pid, signal.SIGSTOP)
        assert until(lambda: set(states(pid)) == {"T"})
        assert [stack.end for stack in whence.Process(pid).stacks()] == [End.COMPLETE] * 2
        assert until(lambda: set(states(pid)) == {"T"})
        os.kill(pid, signal.SIGCONT)
        assert until(lambda: set(states(pid)) == {"R", "S"})


def test_no_signal_is_lost(program: Path) -> None:
    child = subprocess.Popen([program, "s"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None
    assert child.stdout is not None
    with child.stdin, child.stdout:
        assert child.stdout.readline() == "ready\n"
        sent = 300

        def send() -> None:
            for _ in range(sent):
                os.kill(child.pid, signal.SIGRTMIN)

        sender = threading.Thread(target=send)
        sender.start()
        while sender.is_alive():
            stop_threads(child.pid, f"/proc/{child.pid}", LAYOUTS)
        sender.join()
        stop_threads(child.pid, f"/proc/{child.pid}", LAYOUTS)
        child.stdin.close()
        assert child.stdout.read() == f"{sent}\n"
    assert child.wait() == 0


def test_the_exit_code_of_our_own_child_is_not_consumed(program: Path) -> None:
    for _ in range(5):
        child = subprocess.Popen([program, "e"], stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        assert child.stdin is not None
        assert child.stdout is not None
        with child.stdin, child.stdout:
            child.stdout.readline()
            child.stdin.close()
            for _ in range(20):
                try:
                    stop_threads(child.pid, f"/proc/{child.pid}", LAYOUTS)
                except OSError:
                    break
        assert child.wait() == 7


def test_a_process_whose_first_thread_has_ended_still_has_the_others(program: Path) -> None:
    with running([program, "z", "1"]) as (pid, _):
        assert until(lambda: "Z" in states(pid))
        result = {stack.name: stack for stack in whence.Process(pid).stacks()}
        assert result["sleeper"].end is End.COMPLETE
        assert functions(result["sleeper"])[-3] == "sleeper"
        zombie = result["program"].missing
        assert zombie is not None
        assert "zombie" in zombie.detail
        assert "CAP_SYS_PTRACE" not in zombie.remedy


@pytest.mark.parametrize("query", [True, False])
def test_where_threads_are_is_named_without_stopping_them_after_the_first_one_ended(program: Path, query: bool) -> None:
    with running([program, "z", "1"]) as (pid, _):
        assert until(lambda: "Z" in states(pid))
        with Resolver(query=query) as resolver:
            process = whence.Process(pid, resolver=resolver)
            places: list[int] = []

            def seen() -> bool:
                places[:] = [thread.pc for thread in process.threads() if thread.name == "sleeper" and thread.pc]
                return bool(places)

            assert until(seen)
            result = resolver.lookup(pid, places[0])
            assert result is not None
            assert "libc" in result.path
            assert len(process.mappings()) > 2


def test_a_handler_on_an_alternate_stack_leads_to_the_interrupted_code(program: Path) -> None:
    with running([program, "a"], rests=True) as (pid, _):
        (stack,) = whence.Process(pid).stacks()
        result = functions(stack)
        assert result.index("on_other_stack") < result.index("main")
        assert stack.end is End.COMPLETE
        assert [frame.is_trampoline for frame in stack.frames].count(True) == 1


def test_a_deep_stack_keeps_both_ends_and_counts_the_middle(program: Path) -> None:
    with running([program, "d", "0", "60000"], rests=True) as (pid, _):
        (stack,) = whence.Process(pid).stacks()
        assert stack.end is End.COMPLETE
        assert len(stack.frames) == 4096 + 256
        assert stack.skipped > 55_000


def test_a_stack_beyond_the_copy_is_read_later_and_reported(program: Path) -> None:
    with running(["sh", "-c", f"ulimit -s unlimited && exec {program} d 0 400000"]) as (pid, words):
        if words != ["ready"]:
            pytest.skip("the stack's limit may not be raised here")
        assert until(lambda: states(pid) == ["S"])
        (stack,) = whence.Process(pid).stacks()
        assert stack.end is End.COMPLETE
        assert stack.skipped > 390_000
        assert "was read after the thread was released" in stack.detail


def test_the_command_prints_each_style(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running([program, "r", "1"], rests=True) as (pid, _):
        assert main(["pid", str(pid), "--stop"]) == 0
        about, *out = capsys.readouterr().out.splitlines()
        assert about == f"process {pid}, {program} r 1, {program}"
        threads = [line for line in out if line.startswith("thread")]
        assert len(threads) == 3
        assert re.fullmatch(rf"thread {pid} program \(S, stopped for \d+\.\d ms\)", threads[0])
        assert out.count("  end: complete: the outermost frame is reached") == 3
        assert main(["pid", str(pid), "--stop", "--thread", str(pid), "--json", "--registers"]) == 0
        told = json.loads(capsys.readouterr().out)
        assert (told["tid"], told["name"], told["state"], told["end"]) == (pid, "program", "S", "complete")
        assert told["stopped_ms"] > 0
        assert told["process"] == {
            "pid": pid, "command": "program", "arguments": f"{program} r 1", "executable": str(program)
        }  # fmt: skip
        assert told["registers"]
        assert main(["pid", str(pid), "--stop", "--style", "gdb", "--thread", str(pid)]) == 0
        lines = capsys.readouterr().out.splitlines()
        assert lines[2].startswith("#0  0x")
        assert re.fullmatch(rf"#\d +0x[0-9a-f]{{16}} in wait_here \(\) at {re.escape(str(program))}\.c:\d+", lines[3])
        assert main(["pid", str(pid), "--stop", "--thread", "1"]) == 2
        assert "has no thread 1" in capsys.readouterr().err


@contextmanager
def traced(pid: int) -> Iterator[None]:
    """Trace the first thread of a process from another thread."""
    libc = ctypes.CDLL(None, use_errno=True)
    done, seized = threading.Event(), threading.Event()

    def seize() -> None:
        if libc.ptrace(0x4206, pid, None, None) == 0:
            seized.set()
        done.wait()

    thread = threading.Thread(target=seize)
    thread.start()
    try:
        if not seized.wait(60):
            pytest.skip("nothing may be traced here")
        yield
    finally:
        done.set()
        thread.join()


def test_a_traced_thread_names_its_tracer(program: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with running([program, "r"]) as (pid, _), traced(pid):
        assert until(lambda: sorted(states(pid)) == ["R", "S"])
        first, second = whence.Process(pid).stacks()
        assert first.missing is not None
        assert first.missing.reason is Reason.NOT_TRACEABLE
        assert f"process {os.getpid()} traces it already" in first.missing.detail
        assert f"let process {os.getpid()} detach" in first.missing.remedy
        assert functions(first)[0]  # where it sleeps is known all the same
        assert second.end is End.COMPLETE
        assert main(["pid", str(pid), "--stop"]) == 1
        assert "1 x not-traceable: let process" in capsys.readouterr().err


def test_without_permission_names_states_and_a_remedy_are_shown(program: Path) -> None:
    if os.geteuid() or shutil.which("setpriv") is None:
        pytest.skip("needs root, and setpriv to drop a right")
    with running([program, "r", "1"], rests=True) as (pid, _):
        words = ["setpriv", "--inh-caps=-sys_ptrace", "--bounding-set=-sys_ptrace", sys.executable, "-m", "whence.cli"]
        done = subprocess.run([*words, "pid", str(pid), "--stop"], capture_output=True, text=True)
        if "COMPLETE" in done.stdout.upper():
            pytest.skip("the right could not be dropped")
        assert done.returncode == 1
        assert re.findall(r"^thread \d+ (\w+) \(\w\)$", done.stdout, re.MULTILINE)[0] == "program"
        assert done.stdout.count("end: no-registers: the thread's registers are unknown (") == 3
        assert "3 x not-traceable: add CAP_SYS_PTRACE, which root lacks" in done.stderr


def test_a_process_cannot_stop_itself() -> None:
    result = whence.Process(os.getpid()).stacks()
    assert {stack.end for stack in result} == {End.NO_REGISTERS}
    assert result[0].missing is not None
    assert "faulthandler" in result[0].missing.remedy


def test_a_process_that_is_gone_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    child = subprocess.Popen([sys.executable, "-c", ""])
    child.wait()
    with pytest.raises(ProcessLookupError):
        whence.Process(child.pid).stacks()
    assert main(["pid", str(child.pid), "--stop"]) == 3
    assert "there is no process" in capsys.readouterr().err


@pytest.mark.parametrize("options", ["-O0", "-O2 -fomit-frame-pointer", "-O2 -static", "-O2 -m32", "-O2 -s"])
def test_sleeping_threads_have_the_frames_that_eu_stack_finds(tmp_path: Path, options: str) -> None:
    if shutil.which("eu-stack") is None:
        pytest.skip("eu-stack is not on this machine (elfutils)")
    program = compiled(tmp_path, "-pthread", *options.split(), source=PROGRAM)
    with running([program, "x", "3"]) as (pid, _):
        assert until(lambda: states(pid) == ["S"] * 4)
        stacks = whence.Process(pid).stacks()
        assert {stack.end for stack in stacks} == {End.COMPLETE}
        result = {stack.tid: [frame.pc for frame in stack.frames] for stack in stacks}
        words = ["eu-stack", "-n", "0", "-p", str(pid)]
        told = subprocess.run(words, env={"PATH": os.environ["PATH"]}, capture_output=True, text=True).stdout
    expected: dict[int, list[int]] = {}
    for line in told.splitlines():
        if line.startswith("TID "):
            frames = expected[int(line[4:].rstrip(":"))] = []
        elif line.startswith("#"):
            frames.append(int(line.split()[1], 16))
    if len(expected) < 4:
        pytest.skip(f"eu-stack may not trace here: {told[:200]}")
    for tid, frames in expected.items():  # it ends at a 32-bit main that aligns its stack
        assert result[tid][: len(frames)] == frames
        assert len(result[tid]) == len(frames) or "-m32" in options


def test_memory_of_a_process_that_has_ended_is_unreadable_each_time(tmp_path: Path) -> None:
    child = subprocess.Popen([compiled(tmp_path, source="#include <unistd.h>\nint main(void) { return pause(); }")])
    try:
        assert until(lambda: set(states(child.pid)) == {"S"})
        process = whence.Process(child.pid)
        mappings = SnapshotMappings.take(child.pid, Resolver())
        with LiveProcess(child.pid, process.directory, mappings) as live:
            (stack,) = live.stacks()
            pc = stack.unwound.frames[0].pc
            assert live.memory.read(pc, 1)
            child.kill()
            child.wait()
            live.memory.forget()
            for _ in range(2):
                with pytest.raises(Unreadable):
                    live.memory.read(pc, 1)
    finally:
        child.kill()
        child.wait()


@pytest.mark.skipif(platform.machine() != "x86_64", reason="the generated code is for x86-64")
def test_code_in_a_memfd_is_generated_code(tmp_path: Path) -> None:
    """Erlang's and .NET's compilers write their code into one; the code here waits for ever and saves nothing."""
    code = (
        "import ctypes, mmap, os\n"
        "file = os.memfd_create('jit')\n"
        "os.write(file, bytes.fromhex('b8220000000f05ebf7') + bytes(4087))\n"  # pause() in a loop
        "memory = mmap.mmap(file, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)\n"
        "run = ctypes.CFUNCTYPE(None)(ctypes.addressof(ctypes.c_char.from_buffer(memory)))\n"
        "print(flush=True)\n"
        "run()\n"
    )
    with running([sys.executable, "-c", code], rests=True) as (pid, _):
        (stack,) = whence.Process(pid).stacks()
    pc = stack.frames[0].pc
    assert stack.end is End.NO_CFI
    assert stack.detail.startswith(f"{pc:#x} is in /memfd:jit, which has no call frame information there")
