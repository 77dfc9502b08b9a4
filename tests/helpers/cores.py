"""Core files of programs that end by a signal, as the kernel writes them."""

from __future__ import annotations

import resource
import subprocess
from pathlib import Path

import pytest

from tests.helpers.programs import UNTIL_ASLEEP

CORE_PATTERN = Path("/proc/sys/kernel/core_pattern")

# crashes, or waits, in the way that its argument names
PROGRAM = (
    """#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static volatile int sink;
static void (*volatile null)(void);
__attribute__((noinline)) static int boom(volatile int *p) { *p = 1; return *p + 1; }
static inline __attribute__((always_inline)) int inlined(int n) { return boom((int *)8) + n; }
__attribute__((noinline)) int deep(int n) { return n ? deep(n - 1) + sink : inlined(n) + 1; }
__attribute__((noinline)) static int wide(int n) {
    char place[n + 64];
    memset(place, n, sizeof place);
    sink = place[n / 2];
    return deep(n) + place[0];
}
__attribute__((noinline)) static int tail(int n) { sink = n; return deep(n); }
__attribute__((noinline, noreturn)) static void die(void) { abort(); }
__attribute__((noinline)) static void ends(int n) { sink = n; if (n) die(); }
static int compare(const void *a, const void *b) { sink += deep(2); return *(const int *)a - *(const int *)b; }
static void handler(int s) { sink = deep(3); }
static void *wait_here(void *x) { for (;;) pause(); return x; }
__attribute__((noinline)) static int mode(char c) {
    static char stack[65536];
    stack_t other = {stack, 0, sizeof stack};
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_ONSTACK};
    int numbers[3] = {3, 1, 2};
    switch (c) {
    case 'h': signal(SIGUSR1, handler); raise(SIGUSR1); break;
    case 'a': abort();
    case 's': sigaltstack(&other, 0); sigaction(SIGUSR1, &action, 0); raise(SIGUSR1); break;
    case 'S': sigaction(SIGSEGV, &action, 0); sink = boom((int *)8); break;
    case 'n': null(); break;
    case 'q': qsort(numbers, 3, sizeof *numbers, compare); break;
    case 'w': sink = wide(9); break;
    case 'v': if (!vfork()) { sink = boom((int *)8); _exit(0); } break;
    case 't': return tail(4) + sink;
    case 'e': ends(1); break;
    default: sink = deep(40);
    }
    return sink;
}
"""
    + UNTIL_ASLEEP
    + """int main(int argc, char **argv) {
    pthread_t t;
    pthread_create(&t, 0, wait_here, 0);
    pthread_create(&t, 0, wait_here, 0);
    until_asleep(2);
    return mode(argc > 1 ? argv[1][0] : 0) + sink;
}
"""
)


def core_of(program: Path, *arguments: str) -> Path:
    """The core that a program left, in a folder of its own; skips the test where the kernel writes none there."""
    if CORE_PATTERN.read_text().strip() not in ("core", "core.%p"):
        pytest.skip("cores do not go into the folder of the process here")
    folder = program.parent / f"{program.name}-{'-'.join(arguments).replace('/', '_') or 'run'}"
    folder.mkdir()

    def allow() -> None:
        resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))

    subprocess.run([program, *arguments], cwd=folder, preexec_fn=allow, timeout=60)
    cores = list(folder.glob("core*"))
    if not cores:
        pytest.skip("no core was left")
    return cores[0]
