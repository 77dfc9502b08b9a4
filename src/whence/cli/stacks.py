"""Print stacks as text, as gdb does, and as JSON."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from time import localtime, strftime
from typing import TYPE_CHECKING, NamedTuple

from whence._base.records import replaced
from whence._base.streams import complain
from whence._base.words import plain
from whence.cli import colour
from whence.cli.answers import as_lines, as_object, coloured_frame, report_remedies
from whence.cli.main import ANSWERED, SOME_UNKNOWN
from whence.procmap import process as proc
from whence.symbolize import Core, NamedFrame, Reason, Stack
from whence.symbolize.stacks import ending, gdb_lines, with_gap
from whence.unwind import End, FoundBy

if TYPE_CHECKING:
    from whence._base.model import Frames
    from whence.types.model import Variable

REGISTERS_A_LINE = 3


def add_stack_options(parser: ArgumentParser) -> None:
    """Add the options that select and format stacks."""
    parser.add_argument("--thread", metavar="TID", default="all", help='print the stack of one thread (default: "all")')
    parser.add_argument("--registers", action="store_true", help="also print the registers of each thread")
    parser.add_argument("--locals", action="store_true", help="also print arguments and local variables of each frame")
    parser.add_argument("--scan", action="store_true", help="guess missing callers from words on the stack")
    parser.add_argument(
        "--style",
        choices=("whence", "gdb", "token"),
        default="whence",
        help="form of the text; token: short, to be named later",
    )
    frames = parser.add_mutually_exclusive_group()
    frames.add_argument(
        "--python-only", dest="shown", action="store_const", const="python", help="print only the Python frames"
    )
    frames.add_argument(
        "--native-only", dest="shown", action="store_const", const="native", help="print only the native frames"
    )
    frames.add_argument(
        "--all-frames",
        dest="shown",
        action="store_const",
        const="all",
        help="also print the native frames that evaluate Python frames",
    )
    parser.set_defaults(shown="merged")


def selected_tids(command: str, thread: str, tids: Sequence[int], whose: str) -> list[int] | None:
    """Return the thread of --thread, None for all. If it does not exist, report it and return []."""
    if thread == "all":
        return None
    selected = [tid for tid in tids if str(tid) == thread]
    if not selected:
        threads = ", ".join(map(str, tids)) or "none"
        complain(f"{whose} has no thread {thread} (threads: {threads})", f"whence {command}")
    return selected


class About(NamedTuple):
    """The process of the stacks. `command` is its name, `written` when its core was written, in seconds since 1970.

    `interpreters` are their names and versions.
    """

    pid: int
    command: str
    arguments: str
    executable: str
    written: float | None = None
    interpreters: tuple[str, ...] = ()

    @property
    def time(self) -> str:
        return "" if self.written is None else strftime("%Y-%m-%d %H:%M:%S", localtime(self.written))

    def __str__(self) -> str:
        parts = [
            f"process {self.pid}",
            plain(self.arguments or self.command),
            plain(self.executable),
            self.time,
            *self.interpreters,
        ]
        return ", ".join(filter(None, parts))

    def as_object(self) -> dict[str, object]:
        fields: dict[str, object] = {
            "pid": self.pid,
            "command": self.command,
            "arguments": self.arguments,
            "executable": self.executable,
        }
        if self.interpreters:
            fields["interpreters"] = list(self.interpreters)
        return fields if self.written is None else {**fields, "written": self.time}

    @classmethod
    def core(cls, core: Core) -> About:
        return cls(core.pid, core.command, core.arguments, core.executable, core.written)

    @classmethod
    def process(cls, pid: int, directory: str) -> About:
        """Return what is readable of a live process."""
        arguments = executable = ""
        with suppress(OSError):
            arguments = proc.read_text(f"{directory}/cmdline").rstrip("\0").replace("\0", " ")
        with suppress(OSError):
            executable = os.readlink(f"{directory}/exe")
        return cls(pid, proc.command(directory), arguments, executable)


def selected_frames(stack: Stack, shown: str) -> Stack:
    """Return a stack with the frames of --python-only, --native-only or --all-frames, or else the merged ones."""
    if shown == "python":
        return replaced(stack, frames=stack.python_frames, apart=())
    return replaced(stack, frames=stack.all_frames) if shown == "all" else stack


def show_stacks(
    about: About, stacks: Sequence[Stack], *, as_json: bool, style: str, registers: bool, shown: str = "merged"
) -> int:
    """Print stacks, and remedies on stderr. Return 0 if all stacks are complete and all frames named, else 1."""
    stacks = [selected_frames(stack, shown) for stack in stacks]
    if style == "token" and not as_json:
        for stack in stacks:
            print(stack.token())
        return ANSWERED
    if not as_json:
        print(about)
    lines = StackLines()
    for stack in stacks:
        if as_json:
            import json

            print(json.dumps({**stack_object(stack, registers), "process": about.as_object()}))
            continue
        print(title(stack) + (f" {stack.signal}" if stack.signal is not None else ""))
        if registers:
            print("\n".join(register_lines(stack)))
        if style == "gdb":
            print("\n".join(gdb_lines(stack)))
            continue
        colour.print_line("\n".join(lines.of(stack)))
    report_remedies([frame.place for stack in stacks for frame in stack.frames])
    for remedy, count in Counter(stack.missing.remedy for stack in stacks if stack.missing is not None).items():
        print(f"whence: {count} x {Reason.NOT_TRACEABLE.word}: {remedy}", file=sys.stderr)
    complete = all(
        (stack.end is End.COMPLETE or (shown == "python" and stack.frames))
        and not stack.interpreter_problem
        and all(frame.place for frame in stack.frames)
        for stack in stacks
    )
    return ANSWERED if complete else SOME_UNKNOWN


def title(stack: Stack) -> str:
    """Return the first line of a stack: the thread's name, and for a live one its state and how long it was stopped.

    For a thread of an interpreter also whether it holds the GIL, and what it waits for.
    """
    words = [f"thread {stack.tid}", plain(stack.name)]
    if stack.python_name and stack.python_name != stack.name:
        words.append(f'"{plain(stack.python_name)}"')
    if stack.state:
        words.append(f"({stack.state}, stopped for {stack.held * 1000:.1f} ms)" if stack.held else f"({stack.state})")
    if stack.python_frames:
        if stack.has_gil:
            words.append("holds the GIL")
        if stack.waits_for and stack.state != "R":
            words.append(f"waits for {stack.waits_for}")
    return " ".join(filter(None, words))


class StackLines:
    """Stacks as text. Lines of equal frames are made once for all threads."""

    def __init__(self) -> None:
        self._lines: dict[tuple[int, int, FoundBy], tuple[str, list[str]]] = {}
        self._interpreted: dict[Frames, str] = {}

    def of(self, stack: Stack) -> Iterator[str]:
        """Yield number, address, location, method and functions of each frame, and why the stack ends."""
        number = 0
        for frame in with_gap(stack):
            if isinstance(frame, str):
                yield f"  {frame}"
                number += stack.skipped
                continue
            if frame.is_interpreted:
                named = frame.place.frames
                if not named:
                    yield interpreted_line(frame)
                    continue
                if named not in self._interpreted:
                    self._interpreted[named] = interpreted_line(frame)
                yield self._interpreted[named]
                continue
            key = frame.pc, frame.place.address, frame.found_by
            if key not in self._lines:
                self._lines[key] = frame_lines(frame)
            head, functions = self._lines[key]
            yield f"  #{number:<2} {head}"
            for index, line in enumerate(functions):
                yield line
                if index < len(frame.variables):
                    yield from variable_lines(frame.variables[index])
            number += 1
        yield f"  end: {ending(stack)}"
        if stack.interpreter_problem:
            yield f"  Python: {plain(stack.interpreter_problem)}"
        if stack.apart:
            yield "  Python frames:"
            for frame in stack.apart:
                yield f"  {interpreted_line(frame)}"


def interpreted_line(frame: NamedFrame) -> str:
    """Return function, file, line and column of a Python frame, or why it has none."""
    for function in frame.place.frames:
        column = f":{function.column}" if function.column else ""
        return f"  {coloured_frame(function)}{column} [{function.source}]"
    return f"  ?? {Reason.UNREADABLE_FRAME.word}: {plain(frame.place.detail)} [python]"


def frame_lines(frame: NamedFrame) -> tuple[str, list[str]]:
    """Return address, location and method of a frame in a line, and an indented line for each function."""
    head, *functions = as_lines(frame.place)
    guess = ", a guess" if frame.found_by is FoundBy.SCAN else ""
    return f"{head} [{frame.found_by}{guess}]", [f"  {line}" for line in functions]


def variable_lines(variables: Sequence[Variable]) -> Iterator[str]:
    """Yield arguments, then local variables, a line each: name, type and value."""
    for variable in sorted(variables, key=lambda each: not each.is_argument):
        mark = "argument " if variable.is_argument else ""
        yield f"        {mark}{plain(variable.name)}: {plain(variable.type)} = {plain(str(variable.value))}"


def register_lines(stack: Stack) -> Iterator[str]:
    """Yield the registers, REGISTERS_A_LINE to a line."""
    shown = [f"{name:<4}0x{value:016x}" for name, value in stack.registers.items()]
    for index in range(0, len(shown), REGISTERS_A_LINE):
        yield "  " + "  ".join(shown[index : index + REGISTERS_A_LINE])
    if not shown:
        yield "  registers: unknown"


def stack_object(stack: Stack, registers: bool) -> dict[str, object]:
    """Return a thread as a JSON object, with a frame for each function. Inlined calls have their caller's address."""
    signal = stack.signal
    fields: dict[str, object] = {"tid": stack.tid, "signal": 0 if signal is None else signal.number}
    if signal is not None:
        fields["signal_name"], fields["cause"] = signal.name, signal.cause
        if signal.address is not None:
            fields["fault_address"] = hex(signal.address)
    if registers:
        fields["registers"] = {name: hex(value) for name, value in stack.registers.items()}
    frames: list[dict[str, object]] = []
    for frame in stack.frames:
        variables = [[variable.as_object() for variable in function] for function in frame.variables]
        location = as_object(frame.place)
        functions = location.pop("frames")
        assert isinstance(functions, list)
        head = {"found_by": str(frame.found_by), "sp": hex(frame.sp), "signal_trampoline": frame.is_trampoline}
        head["guess"] = frame.found_by is FoundBy.SCAN
        unnamed = {"function": "", "file": "", "line": 0, "start_line": 0, "inlined": False, "source": ""}
        named = [{**function, **location, **head} for function in functions or [unnamed]]
        for entry, of_function in zip(named, variables, strict=False):
            entry["variables"] = of_function
        frames += named
    fields["frames"] = frames
    fields["end"], fields["detail"], fields["skipped"] = str(stack.end), stack.detail, stack.skipped
    if stack.python_frames or stack.interpreter_problem:
        fields["gil"], fields["waits_for"] = stack.has_gil, stack.waits_for
        fields["python_name"], fields["python_problem"] = stack.python_name, stack.interpreter_problem
        fields["python_apart"] = [as_object(frame.place)["frames"] for frame in stack.apart]
    if stack.name or stack.state:
        fields["name"] = stack.name
    if stack.state:
        fields["state"], fields["stopped_ms"] = stack.state, round(stack.held * 1000, 3)
    if stack.missing is not None:
        fields["reason"], fields["remedy"] = stack.missing.reason.word, stack.missing.remedy
    return fields
