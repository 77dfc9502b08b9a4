"""Print the tasks of asyncio: the coroutines that each one awaits, as text and as JSON."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser, Namespace
from typing import TYPE_CHECKING

from whence._base.errors import WrongUse
from whence._base.words import plain
from whence.cli import colour
from whence.cli.answers import coloured_frame
from whence.cli.main import ANSWERED, SOME_UNKNOWN

if TYPE_CHECKING:
    from whence.cli.stacks import About
    from whence.symbolize.tasks import Task, Tasks


def add_task_options(parser: ArgumentParser) -> None:
    parser.add_argument(
        "--async",
        dest="tasks",
        action="store_true",
        help="print the tasks of Python's asyncio and what each one awaits",
    )


def check_task_options(options: Namespace) -> None:
    """Raise WrongUse for options that do not fit --async."""
    given = {
        "--goroutines": options.goroutines,
        "--registers": options.registers,
        "--locals": options.locals,
        "--scan": options.scan,
        "--style": options.style != "whence",
        "--native-only": options.shown == "native",
        "--all-frames": options.shown == "all",
        "addresses": bool(options.addresses),
    }
    wrong = [name for name, is_given in given.items() if is_given]
    if options.tasks and wrong:
        raise WrongUse(f"--async can't be used with {', '.join(wrong)}: it lists tasks, not threads")


def show_tasks(about: About, tasks: Tasks, *, as_json: bool) -> int:
    """Print tasks, and problems on stderr. Return the exit code: 0 if there are tasks and all of them are complete."""
    if not as_json:
        print(about)
    for task in tasks.tasks:
        if as_json:
            print(json.dumps({**task_object(task), "process": about.as_object()}))
        else:
            colour.print_line("\n".join(task_lines(task)))
    for problem in tasks.problems:
        print(f"whence: {plain(problem)}", file=sys.stderr)
    if not tasks.tasks and not tasks.problems:
        print("whence: asyncio has no task", file=sys.stderr)
    complete = all(not task.problem for task in tasks.tasks)
    return ANSWERED if tasks.tasks and complete and not tasks.problems else SOME_UNKNOWN


def task_lines(task: Task) -> list[str]:
    """Return a line about a task, and one for each frame, innermost first."""
    parts = [f"task {plain(task.name) or '??'}", f"in thread {task.tid}" if task.tid else "in no running loop"]
    parts.append(str(task.state))
    if task.awaits:
        parts.append(f"awaits {plain(task.awaits)}")
    elif task.waits_for:
        parts.append(f"waits for a {plain(task.waits_for.rpartition('.')[2])}")
    if task.awaited_by:
        parts.append(f"awaited by {', '.join(map(plain, task.awaited_by))}")
    lines = [", ".join(parts)]
    for frame in task.frames:
        column = f":{frame.column}" if frame.column else ""
        lines.append(f"  {coloured_frame(frame)}{column}")
    if task.problem:
        lines.append(f"  Python: {plain(task.problem)}")
    return lines


def task_object(task: Task) -> dict[str, object]:
    """Return a task as a JSON object."""
    return {
        "task": task.name, "tid": task.tid, "state": str(task.state),
        "frames": [
            {
                "function": frame.function, "file": frame.file, "line": frame.line, "column": frame.column,
                "start_line": frame.start_line,
            }
            for frame in task.frames
        ],
        "awaits": task.awaits, "waits_for": task.waits_for, "awaited_by": list(task.awaited_by),
        "problem": task.problem,
    }  # fmt: skip
