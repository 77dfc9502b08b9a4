"""Interpreters that are not a program of their own: inside of other programs, several in one process, in namespaces."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.helpers.live import until
from tests.helpers.python_threads import interpreters
from whence.procmap.process import descendants
from whence.symbolize import Process

if TYPE_CHECKING:
    from whence.symbolize import Stack

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="live processes are read from /proc")

SCRIPT = """
import threading

def waiting():
    print("ready", flush=True)
    threading.Event().wait()

def by_key():
    sorted([1, 2], key=lambda item: waiting())

by_key()
"""
EMBEDDING = """
#include <Python.h>
__attribute__((noinline)) int run_script(const char *text) { return PyRun_SimpleString(text); }
int main(int argc, char **argv) {
    Py_InitializeEx(0);
    return run_script(argv[1]) + 1;
}
"""
SUBINTERPRETERS = """
import sys, threading, time
if sys.version_info >= (3, 13):
    import _interpreters
else:
    import _xxsubinterpreters as _interpreters
run = _interpreters.exec if sys.version_info >= (3, 13) else _interpreters.run_string
CODE = '''
import threading, time
def inner(count):
    inner(count - 1) if count else time.sleep(1000)
{thread}inner(2)
'''

def start(thread):
    run(_interpreters.create(), CODE.format(thread=thread))

threading.Thread(target=start, args=("",), daemon=True).start()
threading.Thread(target=start, args=("threading.Thread(target=inner, args=(3,)).start();",), daemon=True).start()
print("ready", flush=True)
time.sleep(1000)
"""


UNKNOWN = {
    "int PyEval_EvalFrameEx(void) { return 0; }": "CPython before 3.7 is not supported",
    'char _PyRuntime[800] = "xdebugpy" "\\xf0" "\\0" "\\x10" "\\x03";': "CPython 3.16.0 is not a supported version",
    "char _PyRuntime[800] = {1}; const unsigned long Py_Version = 0x030601f0;": "CPython 3.6.1 is not supported",
    "char _PyRuntime[800] = {1};": "its version of CPython is unknown",
}


@contextmanager
def ready(words: list[str], **options: object) -> Iterator[int]:
    """Run a program until it says that it is ready."""
    program = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, **options)  # type: ignore[call-overload]
    try:
        while "ready" not in (line := program.stdout.readline()):
            assert line, "the program ended"
        yield program.pid
    finally:
        program.kill()
        if program.stdin is not None:
            program.stdin.close()
        program.stdout.close()
        program.wait()


def python_functions(stack: Stack) -> list[str]:
    """The Python functions of a stack without what they are defined in, which CPython before 3.11 does not know."""
    return [each.function.rpartition(".")[2] for frame in stack.python_frames for each in frame.place.frames]


def waiting_stack(pid: int) -> Stack:
    """The only stack of a process with a function `waiting`, when it waits."""

    def found() -> list[Stack]:
        stacks = [stack for stack in Process(pid).stacks() if "waiting" in python_functions(stack)]
        return [stack for stack in stacks if python_functions(stack)[0] == "wait"]

    assert until(lambda: bool(found()))
    (stack,) = found()
    return stack


@pytest.mark.parametrize("is_stripped", [False, True])
def test_programs_that_link_libpython_have_python_frames(tmp_path: Path, is_stripped: bool) -> None:
    library = Path(sysconfig.get_config_var("LIBDIR"), sysconfig.get_config_var("LDLIBRARY"))
    compiler = shutil.which("cc")
    if compiler is None or not library.name.endswith(".so") or not library.exists():
        pytest.skip("no compiler, or no shared libpython")
    (tmp_path / "host.c").write_text(EMBEDDING)
    name = library.name.removeprefix("lib").removesuffix(".so")
    words = [
        compiler,
        "-g",
        "host.c",
        "-o",
        "host",
        f"-I{sysconfig.get_path('include')}",
        f"-L{library.parent}",
        f"-l{name}",
    ]
    subprocess.run([*words, *(["-s"] if is_stripped else [])], cwd=tmp_path, check=True)
    environment = {**os.environ, "LD_LIBRARY_PATH": str(library.parent), "PYTHONHOME": sys.base_prefix}
    with ready([str(tmp_path / "host"), SCRIPT], env=environment) as pid:
        stack = waiting_stack(pid)
    assert python_functions(stack)[-4:] == ["waiting", "<lambda>", "by_key", "<module>"]
    assert (stack.interpreter_problem, stack.has_gil) == ("", False)
    native = [each.function for frame in stack.native_frames for each in frame.place.frames]
    assert is_stripped or native[native.index("main") - 1] == "run_script"


@pytest.mark.parametrize("definition", UNKNOWN, ids=["no-runtime", "new", "old", "unknown"])
def test_unknown_versions_are_reported(tmp_path: Path, definition: str) -> None:
    compiler = shutil.which("cc")
    if compiler is None:
        pytest.skip("no compiler")
    main = 'int main(void) { puts("ready"); fflush(stdout); getchar(); return 0; }'
    (tmp_path / "host.c").write_text(f"#include <stdio.h>\n{definition}\n{main}\n")
    subprocess.run([compiler, "-rdynamic", "host.c", "-o", "host"], cwd=tmp_path, check=True)
    with ready([str(tmp_path / "host")], stdin=subprocess.PIPE) as pid, Process(pid) as process:
        (stack,) = process.stacks()
        (problem,) = process.interpreter_problems
    assert UNKNOWN[definition] in problem
    assert "main" in [each.function for frame in stack.frames for each in frame.place.frames]


def test_gdb_has_python_frames(tmp_path: Path) -> None:
    gdb = shutil.which("gdb")
    if gdb is None or subprocess.run([gdb, "-nx", "-batch", "-ex", "python pass"], capture_output=True).stderr:
        pytest.skip("gdb with Python is not on this machine")
    (tmp_path / "script.py").write_text(SCRIPT)
    with ready([gdb, "-nx", "-batch", "-x", str(tmp_path / "script.py")]) as pid:
        stack = waiting_stack(pid)
    assert python_functions(stack)[-4:] == ["waiting", "<lambda>", "by_key", "<module>"]
    assert stack.interpreter_problem == ""


@pytest.mark.parametrize("interpreter", interpreters())
def test_threads_of_subinterpreters_have_their_frames(interpreter: str, tmp_path: Path) -> None:
    (tmp_path / "program.py").write_text(SUBINTERPRETERS)
    script = tmp_path / "program.py"
    if subprocess.run([interpreter, "-c", "import sys; sys.exit(sys.version_info < (3, 12))"]).returncode:
        pytest.skip("threads in subinterpreters start in CPython 3.12 and later")
    ends = ["run", "_bootstrap_inner", "_bootstrap"]
    inner = ["inner", "inner", "inner", "<module>", "start", *ends]
    expected = sorted([["<module>"], inner, inner, ["inner", *inner[:3], *ends]])
    with ready([interpreter, str(script)]) as pid:
        assert until(lambda: sorted(map(python_functions, Process(pid).stacks())) == expected)
        assert {stack.interpreter_problem for stack in Process(pid).stacks()} == {""}


def test_processes_in_a_namespace_of_pids_have_python_frames(tmp_path: Path) -> None:
    words = ["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"]
    if shutil.which("unshare") is None or subprocess.run([*words, "true"], capture_output=True).returncode:
        pytest.skip("namespaces may not be made")
    (tmp_path / "script.py").write_text(SCRIPT.replace("\nby_key()", "\nthreading.Thread(target=by_key).start()"))
    with ready([*words, sys.executable, str(tmp_path / "script.py")]) as pid:
        (child,) = descendants("/proc", pid)
        stack = waiting_stack(child)
    assert python_functions(stack)[-6:-3] == ["waiting", "<lambda>", "by_key"]
    assert stack.interpreter_problem == ""
