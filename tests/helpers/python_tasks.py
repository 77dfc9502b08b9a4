"""A Python program with tasks of asyncio in known places, which prints what their coroutines say about them."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from tests.helpers.live import state, until

PROGRAM = r'''
import asyncio, gc, json, sys, threading, types


class Awaitable:
    def __init__(self, future):
        self.future = future

    def __await__(self):
        return (yield from self.future.__await__())


class Context:
    async def __aenter__(self):
        await leaf()

    async def __aexit__(self, *rest):
        pass


class Named(asyncio.Task):
    pass


async def leaf():
    await asyncio.sleep(1000)


async def middle():
    await leaf()


async def outer():
    return await middle()


async def generated():
    yield 1
    await leaf()
    yield 2


async def iterating():
    async for number in generated():
        pass


async def stepping():
    steps = generated()
    await steps.asend(None)
    await steps.asend(None)


async def stepping_by_next():
    steps = generated()
    await steps.__anext__()
    await (anext(steps, None) if sys.version_info >= (3, 10) else steps.__anext__())


async def entering():
    async with Context():
        pass


@types.coroutine
def decorated():
    for number in iter([1]):
        yield from leaf()


@types.coroutine
def yielding():
    for number in numbers():
        yield


def numbers():
    yield 1


async def by_generator():
    await decorated()


async def by_yield():
    while True:
        await yielding()


async def by_object():
    await Awaitable(asyncio.get_running_loop().create_future())


async def gathering():
    await asyncio.gather(leaf(), leaf())


async def locked():
    lock = asyncio.Lock()
    await lock.acquire()
    await lock.acquire()


async def deep(n):
    if n:
        await deep(n - 1)
    else:
        await leaf()


async def awaiting(task):
    await task


async def never():
    pass


async def recursing():
    await deep(40)


TARGETS = [
    outer, iterating, stepping, stepping_by_next, entering, by_generator, by_yield, by_object, gathering, locked,
    recursing,
]
OBJECTS = ("coroutine", "generator", "async_generator", "async_generator_asend", "anext_awaitable")


def wrapped(awaited):
    """What an object that wraps a coroutine awaits: only the garbage collector tells."""
    if type(awaited).__name__ in ("coroutine_wrapper", "async_generator_asend", "anext_awaitable"):
        inner = [each for each in gc.get_referents(awaited) if type(each).__name__ in OBJECTS]
        return wrapped(inner[0])
    return awaited


def told(task):
    """Functions, files and lines of the coroutines that a task awaits, innermost first, by themselves."""
    lines = []
    awaited = task.get_coro()
    while type(awaited).__name__ in ("coroutine", "generator", "async_generator"):
        kind = {"coroutine": "cr", "generator": "gi", "async_generator": "ag"}[type(awaited).__name__]
        frame = getattr(awaited, kind + "_frame")
        name = awaited.__qualname__ if sys.version_info >= (3, 11) else frame.f_code.co_name
        lines.append([name, frame.f_code.co_filename, frame.f_lineno])
        awaited = wrapped(getattr(awaited, kind + ("_yieldfrom" if kind == "gi" else "_await")))
    return lines[::-1]


def stay(out):
    current = asyncio.current_task()
    out.update({task.get_name(): told(task) for task in asyncio.all_tasks() if task is not current})
    ready.release()
    hold.wait()


async def calling(out):
    stay(out)


async def main(out):
    tasks = [asyncio.create_task(target(), name=target.__name__) for target in TARGETS]
    tasks.append(asyncio.create_task(awaiting(tasks[0]), name="höhe 漢字"))
    tasks.append(Named(leaf(), loop=asyncio.get_running_loop(), name="subclass"))
    tasks.append(asyncio.create_task(leaf()))
    for turn in range(20):
        await asyncio.sleep(0)
    tasks.append(asyncio.create_task(never(), name="created"))
    await calling(out)


ready, hold = threading.Semaphore(0), threading.Event()
outs = [{}, {}]
for out in outs:
    threading.Thread(target=lambda out=out: asyncio.run(main(out)), daemon=True).start()
    ready.acquire()
threads = [thread.native_id for thread in threading.enumerate() if thread is not threading.current_thread()]
print(json.dumps({"threads": dict(zip(threads, outs)), "version": list(sys.version_info[:3])}), flush=True)
sys.stdin.read()
'''


class PythonTasks(NamedTuple):
    """The process, and functions, files and lines of the tasks of each thread by name, innermost first."""

    pid: int
    version: tuple[int, int, int]
    threads: dict[int, dict[str, list[tuple[str, str, int]]]]


@contextmanager
def python_tasks(interpreter: str, folder: Path) -> Iterator[PythonTasks]:
    """Run the program; it ends with the block."""
    path = folder / "tasks_in_known_places.py"
    path.write_text(PROGRAM)
    child = subprocess.Popen([interpreter, str(path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert child.stdin is not None
    assert child.stdout is not None
    try:
        said = json.loads(child.stdout.readline())
        assert until(lambda: state(f"/proc/{child.pid}") == "S")
        threads = {
            int(tid): {name: [(str(f), str(p), int(n)) for f, p, n in rows] for name, rows in tasks.items()}
            for tid, tasks in said["threads"].items()
        }
        major, minor, micro = said["version"]
        yield PythonTasks(child.pid, (major, minor, micro), threads)
    finally:
        child.kill()
        child.stdin.close()
        child.stdout.close()
        child.wait()
