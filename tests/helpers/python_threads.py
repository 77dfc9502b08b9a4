"""A Python program with threads in known places, which prints what `sys._current_frames()` says about them.

It runs on every CPython from 3.7 on: `interpreters()` lists those of this machine that a test is to use.
"""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.helpers.live import state, until

PROGRAM = r'''
import asyncio, ctypes, json, os, re, sys, threading, time

os.chdir(os.path.dirname(os.path.abspath(__file__)))  # cores are written there
if not hasattr(threading.Thread, "native_id"):  # before 3.8: threads are listed in the order of their ids
    tids = lambda: sorted(map(int, os.listdir("/proc/self/task")))
    threading.Thread.native_id = property(lambda thread: tids()[threading.enumerate().index(thread)])
block = threading.Event()
here = threading.Semaphore(0)


def stay():
    here.release()
    block.wait()


def deep(n):
    if n:
        deep(n - 1)
    else:
        stay()


def sorted_by_key():
    sorted([3, 1, 2], key=lambda item: stay())


def mapped(n=3):
    return list(map(lambda item: mapped(n - 1) if n else stay(), [1]))


def generated():
    yield 1
    stay()
    yield 2


def delegated():
    yield from generated()


def consumed():
    for item in delegated():
        pass


def stepped():
    steps = delegated()
    next(steps)
    next(steps)


def comprehended():
    return [stay() for item in range(1)]


class Made:
    def __init__(self):
        stay()

    def __enter__(self):
        stay()

    def __exit__(self, *rest):
        pass


class Entered(Made):
    def __init__(self):
        pass


class Compared:
    def __lt__(self, other):
        stay()
        return True


def entered():
    with Entered():
        pass


def compared():
    return Compared() < Compared()


def called_back():
    function = ctypes.CFUNCTYPE(ctypes.c_int, ctypes.c_int)

    def callback(number):
        stay()
        return 0

    function(callback)(1)


async def awaited():
    stay()


async def awaiting():
    await awaited()


def looped():
    asyncio.run(awaiting())


def naïve_höhe():
    stay()


def 漢字():
    naïve_höhe()


def evaluated():
    eval("stay()")


def many_lines():
    return max(
        1,
        2,
        stay() or 3,
    )


def executed():
    exec("\n" * 70000 + "def inner(a):\n    (\n      stay()\n    )\ninner(1)", {"stay": stay})


def renamed():
    exec(compile("n = 1\nstay()\n", "/nowhere/" + "long" * 60, "exec"), {"stay": stay})


def deleted():
    class Deleted:
        def __del__(self):
            stay()

    instance = Deleted()
    del instance


def defined():
    class Meta(type):
        def __new__(cls, *rest):
            stay()
            return type.__new__(cls, *rest)

    class Body(metaclass=Meta):
        pass


def replaced():
    re.sub("a", lambda match: str(stay()), "a")


def thrown():
    def generator():
        try:
            yield
        except ValueError:
            stay()

    steps = generator()
    next(steps)
    steps.throw(ValueError())


async def counted():
    stay()
    yield 1


async def counting():
    async for item in counted():
        pass


TARGETS = [
    stay, lambda: deep(40), sorted_by_key, mapped, consumed, stepped, comprehended, Made, entered, compared,
    called_back, looped, 漢字, evaluated, many_lines, executed, renamed, deleted, defined, replaced, thrown,
    lambda: asyncio.run(counting()),
]


def told():
    """What the interpreter says about each thread but this one: native ID, and functions, files, lines."""
    frames = sys._current_frames()
    out = {}
    for thread in threading.enumerate():
        frame, lines = frames.get(thread.ident), []
        if thread is threading.current_thread() or frame is None:
            continue
        while frame is not None:
            code = frame.f_code
            name = getattr(code, "co_qualname", code.co_name)
            lines.append([name, code.co_filename, frame.f_lineno])
            frame = frame.f_back
        out[thread.native_id] = lines
    return out


def asleep(tid):
    with open("/proc/self/task/%d/stat" % tid, errors="replace") as file:  # names are cut to 15 bytes
        return file.read().rpartition(")")[2].split()[0] == "S"


for target in TARGETS:
    threading.Thread(target=target, daemon=True, name="höhe" if target is many_lines else None).start()
    here.acquire()
others = [thread.native_id for thread in threading.enumerate() if thread is not threading.current_thread()]
while not all(map(asleep, others)):
    time.sleep(0.001)
print(json.dumps({"threads": told(), "version": list(sys.version_info[:3])}), flush=True)
sys.stdin.read()
'''


class PythonThreads(NamedTuple):
    """The process, and functions, files and lines of its threads by tid, innermost first."""

    pid: int
    version: tuple[int, int, int]
    threads: dict[int, list[tuple[str, str, int]]]


def interpreters() -> list[str]:
    """The Python that runs the tests, and those of WHENCE_PYTHONS (`make pythons-frames`)."""
    return [sys.executable, *os.environ.get("WHENCE_PYTHONS", "").split()]


def allow_cores() -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))


@contextmanager
def python_threads(interpreter: str, folder: Path, *options: str, may_dump: bool = False) -> Iterator[PythonThreads]:
    """Run the program; it ends with the block. `may_dump`: a signal leaves a core in the folder."""
    path = folder / "threads_in_known_places.py"
    path.write_text(PROGRAM)
    child = subprocess.Popen(
        [interpreter, *options, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        preexec_fn=allow_cores if may_dump else None,
    )  # fmt: skip
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        told = json.loads(child.stdout.readline())
        assert until(lambda: state(f"/proc/{child.pid}") == "S")
        threads = {int(tid): [(name, file, line) for name, file, line in rows] for tid, rows in told["threads"].items()}
        major, minor, micro = told["version"]
        yield PythonThreads(child.pid, (major, minor, micro), threads)
    finally:
        child.kill()
        child.stdin.close()
        child.stdout.close()
        child.wait()
