"""Tasks of asyncio in live processes and cores, and what each one awaits.

for task in whence.Process(1234).tasks().tasks:
    print(task.name, task.state, [frame.function for frame in task.frames])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from whence._base.model import Frame
from whence._base.source import Source

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

    from whence.interpreters.cpython_code import Read
    from whence.interpreters.model import InterpretedTask, TaskState, ThreadKey
    from whence.interpreters.process import Interpreters, ProcessTasks

UNREADABLE = Frame("", source=Source.PYTHON)


class Task(NamedTuple):
    """A task of asyncio that is not done, and its frames: the coroutines that it awaits, innermost first.

    A running task's frames include the functions that its coroutines call. `tid` is the thread that runs the task's
    event loop, 0 if none does. `awaits` is the name of the task that it awaits, `waits_for` the type of the future at
    the end of its chain; "" if unknown. `awaited_by` has the names of the tasks that wait for it. `problem` says
    why frames are missing or have no name, "" if none are.
    """

    name: str
    tid: int
    state: TaskState
    frames: tuple[Frame, ...]
    awaits: str = ""
    waits_for: str = ""
    awaited_by: tuple[str, ...] = ()
    problem: str = ""


class Tasks(NamedTuple):
    """The tasks of a process, in order of thread and name. `problems` says what could not be read."""

    tasks: list[Task]
    problems: list[str]


def named_tasks(
    interpreters: Interpreters,
    located: ProcessTasks,
    threads: Sequence[ThreadKey],
    read: Read,
    *,
    tids: Collection[int] | None,
    is_live: bool,
) -> Tasks:
    """Return the tasks that were read.

    Args:
        located: has read the tasks.
        threads: the threads that were walked.
        read: returns memory; raises Unreadable.
        tids: only tasks of these threads.
        is_live: the process has continued since then.
    """
    problems = [*interpreters.problems, *located.problems]
    if not interpreters.runtimes and not problems:
        problems.append("the process has no interpreter of CPython")
    elif not located.has_tasks and not problems:
        problems.append("the process has not imported asyncio")
    tasks = located.tasks(threads, interpreters.stacks(threads, read, is_live=is_live))
    return Tasks([_task(task) for task in tasks if tids is None or task.tid in tids], problems)


def _task(task: InterpretedTask) -> Task:
    problem = task.problem or next((frame.why for frame in task.frames if frame.frame is None), "")
    frames = tuple(frame.frame or UNREADABLE for frame in task.frames)
    return Task(task.name, task.tid, task.state, frames, task.awaits, task.waits_for, task.awaited_by, problem)
