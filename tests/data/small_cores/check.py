"""check.py WHENCE: crash real programs, shrink their cores, and compare what debuggers print for both cores.

Programs that are not installed are left out, and said. Exits with 1 if any text differs.
"""

from __future__ import annotations

import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from tempfile import TemporaryDirectory

C = """
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
static pthread_barrier_t barrier;
__attribute__((noinline)) static int deep(const char *name, int n) {
    if (n) return deep(name, n - 1) + 1;
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
SCRIPTS = {
    "python3": ["-c", "import threading as t, time\nt.Thread(target=time.sleep, args=(99,)).start()\ntime.sleep(99)"],
    "node": ["-e", "function f(n) { if (n) return f(n - 1); for (;;); } f(9)"],
    "ruby": ["-e", "def f(n) n > 0 ? f(n - 1) : sleep end; f(9)"],
    "perl": ["-e", "sub f { my $n = shift; return f($n - 1) if $n; sleep 99 } f(9)"],
    "lua5.4": ["-e", "local function f(n) if n > 0 then return 1 + f(n - 1) end while true do end end f(9)"],
    "php": ["-r", "function f($n) { if ($n) return f($n - 1); for (;;); } f(9);"],
    "redis-server": ["--port", "0", "--unixsocket", "redis.socket", "--save", ""],
    "memcached": ["-u", "root", "-s", "memcached.socket"],
    "nginx": ["-e", "/dev/null", "-p", ".", "-c", "nginx.conf"],
    "sqlite3": [":memory:", "with recursive c(x) as (select 1 union all select x + 1 from c) select count(*) from c"],
    "bash": ["-c", "f() { while :; do :; done; }; f"],
    "sleep": ["99"],
    "java": ["J.java"],
}
NGINX = "daemon off; master_process off; pid nginx.pid; events {} http { access_log off; server { listen unix:n; } }"
GDB = (
    *("gdb", "-nx", "-batch", "-iex", "set debuginfod enabled off"),
    *("-ex", "thread apply all bt", "-ex", "info sharedlibrary"),
)
PROGRAMS = {
    "threads": ("gcc", C, "-g", "-O1", "-pthread", "-DTHREADS=10", "-DMEGABYTES=200ul"),
    "100-threads": ("gcc", C, "-g", "-O1", "-pthread", "-DTHREADS=100", "-DMEGABYTES=1024ul"),
    "static": ("gcc", C, "-g", "-static", "-pthread", "-DTHREADS=3", "-DMEGABYTES=8ul"),
    "static-pie": ("gcc", C, "-g", "-static-pie", "-pthread", "-DTHREADS=3", "-DMEGABYTES=8ul"),
    "i386": ("gcc", C, "-g", "-m32", "-pthread", "-DTHREADS=3", "-DMEGABYTES=8ul"),
    "musl": ("musl-gcc", C, "-g", "-pthread", "-DTHREADS=3", "-DMEGABYTES=8ul"),
    "rust": ("rustc", RUST, "-g"),
    "go": ("go", GO),
}


def build(name: str) -> list[str] | None:
    """Return the command of a program, None if it cannot be made here."""
    compiler, source, *options = PROGRAMS[name]
    if shutil.which(compiler) is None:
        return None
    ending = {"rustc": ".rs", "go": ".go"}.get(compiler, ".c")
    Path(name + ending).write_text(source)
    command = ["go", "build"] if compiler == "go" else [compiler, *options]
    done = subprocess.run([*command, "-o", name, name + ending], capture_output=True)
    return [f"./{name}"] if done.returncode == 0 else None


def crash(command: list[str]) -> Path | None:
    """Start a program, let it work for two seconds, end it by a signal, and return its core."""
    environment = {**os.environ, "GOTRACEBACK": "crash"}
    process = subprocess.Popen(command, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    time.sleep(2 if command[0] != "java" else 5)
    process.send_signal(signal.SIGABRT)
    process.wait()
    return next(Path().glob("core*"), None)


def text(command: list[str], core: Path) -> str:
    done = subprocess.run([*command, str(core)], capture_output=True, text=True)
    return (done.stdout + done.stderr).replace(str(core), "CORE")


def main(whence: str) -> int:
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    failures = 0
    Path("nginx.conf").write_text(NGINX)
    Path("J.java").write_text(JAVA)
    for name in (*PROGRAMS, *SCRIPTS):
        command = build(name) if name in PROGRAMS else [name, *SCRIPTS[name]] if shutil.which(name) else None
        core = None if command is None else crash(command)
        if command is None or core is None:
            print(f"{name:12} {'not on this machine' if command is None else 'no core was left'}")
            continue
        core, small = core.rename("full.dump"), Path("shrunk.dump")
        subprocess.run([whence, "core", str(core), "--shrink", "-o", str(small)], check=True, stdout=subprocess.DEVNULL)
        program = os.path.realpath(shutil.which(command[0]) or command[0])
        tools = {
            "gdb": [*GDB, program],
            "eu-stack": ["eu-stack", "-e", program, "--core"],
            "whence": [whence, "core"],
        }
        results = []
        for tool, words in tools.items():
            if shutil.which(words[0]):
                full, shrunk = text(words, core), text(words, small)
                results.append(f"{tool}: {full.count(chr(10))} lines {'equal' if full == shrunk else 'DIFFER'}")
                failures += full != shrunk
        print(f"{name:12} {core.stat().st_size:13,} -> {small.stat().st_size:9,}  {', '.join(results)}", flush=True)
        core.unlink()
    return min(1, failures)


if __name__ == "__main__":
    where = os.path.abspath(sys.argv[1])
    with TemporaryDirectory() as folder:
        os.chdir(folder)
        sys.exit(main(where))
