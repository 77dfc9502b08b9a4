"""Tasks of asyncio in live processes and cores: the chains that the coroutines themselves report."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import whence
from tests.forge.cpython import NODE, RUNTIME, TYPE, AsyncioMemory
from tests.helpers.python_tasks import PythonTasks, python_tasks
from tests.helpers.python_threads import interpreters
from tests.helpers.schemas import conforms
from whence._base.errors import MapsError
from whence.cli.main import main
from whence.interpreters.cpython import Cpython
from whence.interpreters.cpython_layout import read_debug_offsets, version_by_name
from whence.interpreters.model import TaskState, ThreadKey
from whence.symbolize import Process
from whence.symbolize.process import LiveMemory
from whence.unwind.memory import Unreadable

if TYPE_CHECKING:
    from whence.interpreters.cpython_code import Read
    from whence.interpreters.model import InterpretedTask
    from whence.symbolize.tasks import Task, Tasks

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="live processes are read from /proc")


@pytest.fixture(scope="module", params=interpreters())
def process(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PythonTasks]:
    if (version_by_name(request.param) or (3, 9)) < (3, 9):
        pytest.skip("tasks are read from CPython 3.9 on")
    with python_tasks(request.param, tmp_path_factory.mktemp("tasks")) as running:
        yield running


@pytest.fixture(scope="module")
def tasks(process: PythonTasks) -> Tasks:
    return Process(process.pid).tasks()


def frames(task: Task) -> list[tuple[str, str, int]]:
    return [(frame.function, frame.file, frame.line) for frame in task.frames]


def chains(tasks: Tasks) -> dict[int, dict[str, list[tuple[str, str, int]]]]:
    """Frames of the tasks that do not run, by thread and name."""
    result: dict[int, dict[str, list[tuple[str, str, int]]]] = {}
    for task in tasks.tasks:
        if task.state is not TaskState.RUNNING:
            result.setdefault(task.tid, {})[task.name] = frames(task)
    return result


def test_chains_are_those_that_the_coroutines_report(process: PythonTasks, tasks: Tasks) -> None:
    assert tasks.problems == []
    assert chains(tasks) == process.threads
    assert {task.problem for task in tasks.tasks} == {""}
    assert len(process.threads) == 2
    assert max(map(len, process.threads[tasks.tasks[0].tid].values())) > 40


def test_running_tasks_have_the_frames_of_their_thread(process: PythonTasks, tasks: Tasks) -> None:
    running = {task.tid: task for task in tasks.tasks if task.state is TaskState.RUNNING}
    assert set(running) == set(process.threads)
    stacks = {stack.tid: stack for stack in Process(process.pid).stacks()}
    for tid, task in running.items():
        of_thread = [each for frame in stacks[tid].python_frames for each in frame.place.frames]
        assert list(task.frames) == of_thread[: len(task.frames)]
        names = [frame.function for frame in task.frames]
        assert names[-3:] == ["stay", "calling", "main"]


def test_tasks_say_what_they_await(tasks: Tasks) -> None:
    for tid in {task.tid for task in tasks.tasks}:
        by_name = {task.name: task for task in tasks.tasks if task.tid == tid}
        assert by_name["höhe 漢字"].awaits == "outer"
        assert by_name["outer"].awaited_by == ("höhe 漢字",)
        assert by_name["outer"].waits_for == "_asyncio.Future"
        assert by_name["gathering"].waits_for == "_GatheringFuture"
        assert by_name["by_yield"].waits_for == ""
        assert by_name["created"].state is TaskState.CREATED
        assert sum(name.startswith("Task-") for name in by_name) == 4  # main, two of gather, and one more


def test_one_thread_is_selected(process: PythonTasks) -> None:
    tid = min(process.threads)
    assert chains(Process(process.pid).tasks(tids=[tid]))[tid] == process.threads[tid]


def test_cores_have_the_same_tasks(process: PythonTasks, tasks: Tasks, tmp_path: Path) -> None:
    if shutil.which("gcore") is None:
        pytest.skip("gcore (of gdb) is not on this machine")
    done = subprocess.run(["gcore", "-o", tmp_path / "core", str(process.pid)], capture_output=True)
    core = tmp_path / f"core.{process.pid}"
    if done.returncode or not core.exists():
        pytest.skip("gcore may not trace this process")
    assert whence.Core(core).tasks() == tasks
    os.remove(core)


def test_the_command_prints_a_line_for_each_frame(
    process: PythonTasks, tasks: Tasks, capsys: pytest.CaptureFixture[str]
) -> None:
    tid = min(process.threads)
    assert main(["pid", str(process.pid), "--stop", "--async", "--thread", str(tid)]) == 0
    _, *lines = capsys.readouterr().out.splitlines()
    titles = [line for line in lines if line.startswith("task ")]
    assert f"task höhe 漢字, in thread {tid}, suspended, awaits outer" in titles
    assert f"task outer, in thread {tid}, suspended, waits for a Future, awaited by höhe 漢字" in titles
    assert f"task created, in thread {tid}, created" in titles
    selected = [task for task in tasks.tasks if task.tid == tid]
    assert len(lines) - len(titles) == sum(len(task.frames) for task in selected)


def test_json_has_an_object_for_each_task(
    process: PythonTasks, tasks: Tasks, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pid", str(process.pid), "--stop", "--async", "--json"]) == 0
    objects = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    for item in objects:
        conforms("task", item)
    assert [(each["task"], each["tid"], each["state"]) for each in objects] == [
        (task.name, task.tid, str(task.state)) for task in tasks.tasks
    ]
    for each, task in zip(objects, tasks.tasks, strict=True):
        assert [(frame["function"], frame["file"], frame["line"]) for frame in each["frames"]] == frames(task)
        assert (each["awaits"], tuple(each["awaited_by"])) == (task.awaits, task.awaited_by)


def test_options_that_select_frames_do_not_fit(process: PythonTasks, capsys: pytest.CaptureFixture[str]) -> None:
    for word in ("--locals", "--native-only", "--goroutines"):
        assert main(["pid", str(process.pid), "--stop", "--async", word]) == 2
        assert "can't be used with" in capsys.readouterr().err
    assert main(["pid", str(process.pid), "--async"]) == 2
    assert "--async needs --stop" in capsys.readouterr().err


def test_damaged_memory_costs_only_the_tasks_that_it_damages(process: PythonTasks, tasks: Tasks) -> None:
    with whence.Symbolizer() as symbolizer, Process(process.pid).live_stacks(symbolizer) as live:
        threads = [ThreadKey(stack.tid, stack.thread_pointer) for stack in live.copies()]
        stacks = {tid: thread.stack for tid, thread in live.interpreted.items()}
        read = LiveMemory(process.pid, f"/proc/{process.pid}").read
        complete = incomplete = 0
        for seed in range(60):
            located = live.interpreters.tasks(damaged(read, random.Random(seed), rarely=2000 if seed % 2 else 100))
            located.read()
            result = located.tasks(threads, stacks)
            assert all(task.problem or task.frames or task.state is not TaskState.RUNNING for task in result)
            complete += len(result) == len(tasks.tasks) and not any(task.problem for task in result)
            incomplete += (
                bool(located.problems) or len(result) < len(tasks.tasks) or any(task.problem for task in result)
            )
        assert complete
        assert incomplete


def damaged(read: Read, random: random.Random, *, rarely: int) -> Read:
    """Return a function that reads memory of which one word in `rarely` is another one, always the same."""
    words: dict[int, int] = {}
    seen = [0]

    def read_damaged(address: int, size: int) -> bytes:
        try:
            data = bytearray(read(address, size))
        except (OSError, OverflowError, MapsError) as error:
            raise Unreadable(address, str(error)) from None
        for offset in range(-address % 8, size - 7, 8):
            if address + offset not in words:
                is_damaged = random.randrange(rarely) == 0
                choices = 0, 1, 8, 1 << 47, 1 << 60, (1 << 64) - 1, address + offset, random.choice(seen)
                words[address + offset] = random.choice(choices) if is_damaged else -1
            if words[address + offset] >= 0:
                data[offset : offset + 8] = words[address + offset].to_bytes(8, "little")
        seen.append(address)
        return bytes(data)

    return read_damaged


def forged(memory: AsyncioMemory) -> list[InterpretedTask]:
    runtime = Cpython(read_debug_offsets(memory.read(RUNTIME, 800), "little"), RUNTIME, "little")
    for start, content in memory.segments:
        runtime.add_segment(start, content)
    runtime.walk([ThreadKey(7)])
    runtime.task_tables = [memory.table]
    reader = runtime.locate_tasks(memory.read)
    assert reader.has_tasks
    reader.read(runtime.thread_states())
    assert not reader.problems
    return reader.tasks(runtime.tids([ThreadKey(7)]), runtime.stacks([ThreadKey(7)], memory.read))


def names_of(task: InterpretedTask) -> list[str]:
    return [frame.frame.function if frame.frame else frame.why for frame in task.frames]


def test_lists_of_threads_have_the_tasks() -> None:
    memory = AsyncioMemory()
    inner = memory.coroutine("inner", memory.object("_asyncio.FutureIter", memory.object("_asyncio.Future")))
    first = memory.task("first", memory.coroutine("outer", inner))
    second = memory.task("second", memory.coroutine("main", memory.object("_asyncio.FutureIter", first)))
    tasks = forged(memory)
    assert [(task.name, task.tid, names_of(task)) for task in tasks] == [
        ("first", 7, ["inner", "outer"]),
        ("second", 7, ["main"]),
    ]
    assert second
    assert (tasks[0].waits_for, tasks[0].awaited_by, tasks[1].awaits) == ("_asyncio.Future", ("second",), "first")


def test_coroutines_that_await_each_other_end_with_a_reason() -> None:
    memory = AsyncioMemory()
    inner = memory.coroutine("inner", TYPE)
    outer = memory.coroutine("outer", inner)
    memory.put(memory.awaited_field(inner), outer)
    memory.task("circular", outer)
    (task,) = forged(memory)
    assert (names_of(task), task.problem) == (["inner", "outer"], "its coroutines await each other in a cycle")


def test_a_list_that_never_ends_has_each_task_once() -> None:
    memory = AsyncioMemory()
    for name in ("first", "second"):
        task = memory.task(name, memory.coroutine(name, 0))
    memory.put(task + NODE, task + NODE)  # it never returns to its head
    assert {task.name for task in forged(memory)} <= {"first", "second"}


def test_wild_pointers_cost_one_task() -> None:
    memory = AsyncioMemory()
    memory.task("good", memory.coroutine("good", 0))
    memory.task("wild", 1 << 60)
    good, wild = forged(memory)[::-1]
    assert (good.name, good.problem, wild.name) == ("good", "", "")
    assert wild.problem.startswith("the task is not readable: the memory at 0x1000000000000008")
