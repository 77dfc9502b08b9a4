"""check.py WHENCE [NAME...]: crash real programs, shrink their cores, and compare what debuggers print for both cores.

Prints two tables: small cores (size before and after, time, texts of gdb, eu-stack, lldb and whence), and variables of
all frames (how many have the value that gdb prints, time of both). Programs that are not installed are left out, and
said. Exits with 1 if any text differs, or a variable has another value than in gdb without an explanation.
"""

from __future__ import annotations

import os
import re
import resource
import shutil
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import NamedTuple

import whence
from tests.helpers.gdb_values import compared, gdb_frames

SOURCES = Path(__file__).parent.parent.parent / "types" / "programs"
C = """
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static pthread_barrier_t barrier;
__attribute__((noinline)) static int deep(const char *name, int n) {
    char text[32] = "local";
    text[8] = n;
    if (n) return deep(name, n - 1) + text[0];
    pthread_barrier_wait(&barrier);
    for (;;) pause();
}
static void *run(void *x) { return (void *)(long)deep(strdup("a thread"), (long)x % 7); }
int main(int argc, char **argv) {
    pthread_t thread;
    memset(malloc(MEGABYTES << 20), 7, MEGABYTES << 20);
    pthread_barrier_init(&barrier, 0, THREADS + 1);
    for (long i = 0; i < THREADS; i++) pthread_create(&thread, 0, run, (void *)i);
    return deep(argv[0], 9);
}
"""
GO = """package main
import "time"
func f(n int) int { if n == 0 { time.Sleep(time.Hour) }; return f(n-1) + 1 }
func main() { for i := 0; i < 50; i++ { go func() { select {} }() }; f(9) }
"""
RUST = """use std::{thread, time::Duration};
fn deep(n: u32, name: &str) -> usize {
    if n > 0 { return deep(n - 1, name) + 1; }
    thread::sleep(Duration::from_secs(3600));
    name.len()
}
fn main() { for _ in 0..5 { thread::spawn(|| deep(5, "worker")); } deep(9, "main"); }
"""
JAVA = (
    "class J { static int f(int n) { while (n == 0); return f(n - 1); } public static void main(String[] a) { f(9); } }"
)
NGINX = "daemon off; master_process off; pid nginx.pid; events {} http { access_log off; server { listen unix:n; } }"
PYTHON = "import threading as t, time\nfor _ in range(8): t.Thread(target=time.sleep, args=(99,)).start()\ntime.sleep(99)"
THREADS = ("-pthread", "-DTHREADS=3", "-DMEGABYTES=8ul")
I386 = "/usr/i686-linux-gnu/lib"
PROGRAMS: dict[str, tuple[str, ...]] = {  # compiler, source, options
    "C, 10 threads": ("gcc", "c.c", "-g", "-O0", "-pthread", "-DTHREADS=10", "-DMEGABYTES=200ul"),
    "C, 100 threads, 1 GB": ("gcc", "c.c", "-g", "-O2", "-fno-builtin", "-pthread", "-DTHREADS=100", "-DMEGABYTES=1024ul"),
    "C, static": ("gcc", "c.c", "-g", "-static", *THREADS),
    "C, static PIE": ("gcc", "c.c", "-g", "-static-pie", *THREADS),
    "C, musl": ("musl-gcc", "c.c", "-g", *THREADS),
    "C, i386": (
        "i686-linux-gnu-gcc", "c.c", "-g", *THREADS, f"-Wl,--dynamic-linker={I386}/ld-linux.so.2", f"-Wl,-rpath,{I386}",
    ),
    "C, arm64 by qemu": ("aarch64-linux-gnu-gcc", "c.c", "-g", "-static", *THREADS),
    "Rust, 6 threads": ("rustc", "c.rs", "-g"),
    "Go, 50 goroutines": ("go", "c.go"),
    "C values, -O0": ("gcc", "values.c", "-g", "-O0"),
    "C values, -O2": ("gcc", "values.c", "-g", "-O2"),
    "C++ values, -O0": ("g++", "containers.cpp", "-std=c++17", "-w", "-g", "-O0"),
    "C++ values, -O2": ("g++", "containers.cpp", "-std=c++17", "-w", "-g", "-O2"),
    "Rust values, -O0": ("rustc", "values.rs", "-g", "--edition", "2021"),
    "Rust values, -O": ("rustc", "values.rs", "-g", "--edition", "2021", "-O"),
    "Go values, -N -l": ("go", "values.go", "-gcflags=-N -l"),
    "Go values": ("go", "values.go"),
}  # fmt: skip
COMMANDS = {
    "Python, 9 threads": ["python3", "-c", PYTHON],
    "node": ["node", "-e", "function f(n) { if (n) return f(n - 1); for (;;); } f(9)"],
    "Java": ["java", "J.java"],
    "redis": ["redis-server", "--port", "0", "--unixsocket", "redis.socket", "--save", ""],
    "PostgreSQL": ["postgres", "-D", ".", "-k", ".", "-c", "listen_addresses="],
    "nginx": ["nginx", "-e", "/dev/null", "-p", ".", "-c", "nginx.conf"],
    "memcached": ["memcached", "-u", "root", "-s", "memcached.socket"],
    "sqlite": ["sqlite3", ":memory:", "with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c"],  # noqa: E501
    "ruby": ["ruby", "-e", "def f(n) n > 0 ? f(n - 1) : sleep end; f(9)"],
    "perl": ["perl", "-e", "sub f { my $n = shift; return f($n - 1) if $n; sleep 99 } f(9)"],
    "lua": ["lua5.4", "-e", "local function f(n) if n > 0 then return 1 + f(n - 1) end while true do end end f(9)"],
    "php": ["php", "-r", "function f($n) { if ($n) return f($n - 1); for (;;); } f(9);"],
    "bash": ["bash", "-c", "f() { while :; do :; done; }; f"],
}
LLDB_OWN = re.compile(r"(?<=\] @ )0x[0-9a-f]+")  # an address in lldb itself
GDB = ("-nx", "-batch", "-iex", "set debuginfod enabled off")
STARTING = {"java": 5.0, "postgres": 4.0}  # seconds until a program works
EXPLAINED = ("equal", "both missing", "gdb missing", "unknown register", "structure in gdb", "gdb ends", "repeated by gdb")


class Crashed(NamedTuple):
    """A program's core, the program, and the gdb that reads it."""

    core: Path
    program: str
    gdb: str


def build(name: str) -> list[str] | None:
    """Return the command of a program, None if it cannot be made here."""
    compiler, source, *options = PROGRAMS[name]
    if shutil.which(compiler) is None:
        return None
    command = ["go", "build", *options] if compiler == "go" else [compiler, *options]
    environment = {**os.environ, "GO111MODULE": "off", "GOFLAGS": ""}
    done = subprocess.run([*command, "-o", "program", source], capture_output=True, env=environment)
    if done.returncode:
        return None
    return ["qemu-aarch64-static", "./program"] if "aarch64" in compiler else ["./program"]


def crash(name: str, command: list[str]) -> Crashed | None:
    """Start a program, let it work, end it by a signal, and return its core."""
    user = None
    if command[0] == "postgres":
        binaries = sorted(Path("/usr/lib/postgresql").glob("*/bin"))[-1]
        command, user = [str(binaries / "postgres"), *command[1:]], "postgres"
        for path in (Path(), Path().absolute().parent):
            shutil.chown(path, "postgres")
            path.chmod(0o700)
        subprocess.run([binaries / "initdb", "-D", "."], user=user, check=True, capture_output=True)
    environment = {**os.environ, "GOTRACEBACK": "crash"}
    process = subprocess.Popen(
        command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, user=user
    )
    time.sleep(STARTING.get(os.path.basename(command[0]), 2.0))
    if "-DTHREADS=100" in PROGRAMS.get(name, ()):
        while len(os.listdir(f"/proc/{process.pid}/task")) < 101:
            time.sleep(0.5)
        time.sleep(2)
    process.send_signal(signal.SIGABRT)
    process.wait()
    is_arm64 = command[0].startswith("qemu")
    core = next(Path().glob("qemu_*.core" if is_arm64 else "core*"), None)
    program = "./program" if is_arm64 else os.path.realpath(shutil.which(command[0]) or command[0])
    return None if core is None else Crashed(core, program, "gdb-multiarch" if is_arm64 else "gdb")


@contextmanager
def timed(seconds: list[float]) -> Iterator[None]:
    """Append the processor time of the child processes of a block."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    yield
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds.append(after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime)


def text(command: list[str], core: Path) -> str:
    done = subprocess.run([*command, str(core)], capture_output=True, text=True, errors="replace")
    shown = (done.stdout + done.stderr).replace(core.name, "CORE")
    return LLDB_OWN.sub("", shown)


def small_core(crashed: Crashed, whence_command: str) -> tuple[list[str], int]:
    """Return the cells of the table of small cores, and how many texts differ."""
    core, program = crashed.core, crashed.program
    small = core.with_name("s.dump")
    seconds: list[float] = []
    options = ["--binary", program]
    with timed(seconds):
        command = [whence_command, "core", str(core), "--shrink", "-o", str(small), *options]
        subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    tools = {
        "gdb": [crashed.gdb, *GDB, "-ex", "thread apply all bt", "-ex", "info sharedlibrary", program],
        "eu-stack": ["eu-stack", "-e", program, "--core"],
        "lldb": ["lldb-19", "-b", "-o", "thread backtrace all", program, "-c"],
        "whence": [whence_command, "core", *options],
    }
    cells, differences = [], 0
    for words in tools.values():
        if shutil.which(words[0]) is None:
            cells.append("")
            continue
        full, shrunk = text(words, core), text(words, small)
        is_equal = full == shrunk
        if not is_equal and os.environ.get("KEEP"):
            Path(os.environ["KEEP"], f"{words[0]}-full").write_text(full)
            Path(os.environ["KEEP"], f"{words[0]}-small").write_text(shrunk)
        cells.append(f"{full.count(chr(10)):,} lines equal" if is_equal else "DIFFERENT")
        differences += not is_equal
    sizes = [f"{core.stat().st_size / 1e6:,.1f}", f"{small.stat().st_size / 1e6:,.2f}", f"{seconds[0]:.2f}"]
    return [*sizes, *cells], differences


def variables(crashed: Crashed, whence_command: str, name: str) -> tuple[list[str], int]:
    """Return the cells of the table of variables, and how many have another value than in gdb."""
    program = Path(crashed.program)
    with (
        whence.Core(crashed.core, programs=[program]) as core,
        whence.Locator(binaries=[program]) as locator,
        whence.Symbolizer(locator=locator, demangle=True) as symbolizer,
    ):
        stacks = core.stacks(symbolizer, variables=True)
    folder = Path("out")
    folder.mkdir(exist_ok=True)
    is_rust = name.startswith("Rust")
    scripts = "/usr" if name.startswith("Python") else "/"  # Python's own script shows objects by their content
    theirs = gdb_frames(crashed.core, program, folder, gdb=crashed.gdb, scripts=scripts)
    outcomes: Counter[str] = Counter()
    for each in compared(stacks, theirs, rust=is_rust):
        is_container = each.outcome == "different" and is_explained(name, each.ours, each.theirs)
        outcomes["structure in gdb" if is_container else each.outcome] += 1
        if each.outcome not in EXPLAINED and not is_container:
            print(f"    {each.outcome}: {each.function} {each.name}: {each.ours[:200]} | {each.theirs[:200]}")
    seconds: list[float] = []
    with timed(seconds):
        command = [whence_command, "core", str(crashed.core), "--locals", "--binary", str(program)]
        subprocess.run(command, capture_output=True)
    with timed(seconds):
        gdb = [crashed.gdb, *GDB, "-ex", "thread apply all bt full", str(program), str(crashed.core)]
        subprocess.run(gdb, capture_output=True)
    agreeing = outcomes["equal"] + outcomes["both missing"]
    valued = sum(outcomes.values()) - outcomes["repeated by gdb"]
    share = f"{100 * agreeing / valued:.1f}" if valued else ""
    others = ", ".join(f"{count} {outcome}" for outcome, count in sorted(outcomes.items()) if outcome not in EXPLAINED[:2])
    return [f"{valued:,}", share, others, *(f"{each:.2f}" for each in seconds)], outcomes["different"]


def is_explained(name: str, ours: str, theirs: str) -> bool:
    """Return True for values of Go whose dynamic type gdb does not know."""
    return name.startswith("Go") and (ours.startswith(("interface {}", "error", "main.speaker", "map[", "func")) or "array" in theirs)


def main(whence_command: str, names: list[str]) -> int:
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    failures, small, values = 0, [], []
    for name in names or (*PROGRAMS, *COMMANDS):
        with TemporaryDirectory() as folder:
            os.chdir(folder)
            for source in SOURCES.iterdir():
                shutil.copy(source, ".")
            for file, content in (
                ("c.c", C), ("c.go", GO), ("c.rs", RUST), ("J.java", JAVA), ("nginx.conf", NGINX),
            ):  # fmt: skip
                Path(file).write_text(content)
            if name == "PostgreSQL":
                Path("data").mkdir()
                os.chdir("data")
            command = build(name) if name in PROGRAMS else COMMANDS[name]
            is_installed = command is not None and (shutil.which(command[0]) or command[0] == "postgres")
            crashed = crash(name, command) if command is not None and is_installed else None
            if crashed is None:
                print(f"{name}: {'no core was left' if is_installed else 'not on this machine'}", flush=True)
                continue
            crashed = crashed._replace(core=crashed.core.rename("f.dump"))
            cells, differences = small_core(crashed, whence_command)
            small.append([name, *cells])
            print(" | ".join(small[-1]), flush=True)
            rows, wrong = variables(crashed, whence_command, name)
            values.append([name, *rows])
            print(" | ".join(values[-1]), flush=True)
            failures += differences + wrong
            os.chdir("/")
    print_table(["program", "MB", "small, MB", "seconds", "gdb", "eu-stack", "lldb", "whence"], small)
    print_table(["program", "variables", "as in gdb, %", "others", "whence, s", "gdb, s"], values)
    return min(1, failures)


def print_table(head: list[str], rows: list[list[str]]) -> None:
    print("\n| " + " | ".join(head) + " |\n|" + "---|" * len(head))
    for row in rows:
        print("| " + " | ".join(row) + " |")


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1]), sys.argv[2:]))
