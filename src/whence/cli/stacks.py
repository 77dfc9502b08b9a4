"""Stacks as text, as gdb prints them, and as JSON."""

from __future__ import annotations

import os
import sys
from argparse import ArgumentParser
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import suppress
from time import localtime, strftime
from typing import NamedTuple

from whence._base.streams import complain
from whence._base.words import plain
from whence.cli import colour
from whence.cli.answers import as_lines, as_object, report_remedies
from whence.cli.main import ANSWERED, SOME_UNKNOWN
from whence.procmap import process as proc
from whence.symbolize import Core, NamedFrame, Reason, Stack
from whence.unwind import End, FoundBy
from whence.unwind.unwinder import INNER_KEPT

REGISTERS_A_LINE = 3


def add_stack_options(parser: ArgumentParser) -> None:
    """Which stacks are printed, and how."""
    parser.add_argument("--thread", metavar="TID", default="all", help='the stack of one thread (default: "all")')
    parser.add_argument("--registers", action="store_true", help="print the registers of each thread, too")
    parser.add_argument("--scan", action="store_true", help="guess callers that no table gives, by words on the stack")
    parser.add_argument("--style", choices=("whence", "gdb"), default="whence", help="how stacks look")


def tids_wanted(command: str, thread: str, tids: Sequence[int], whose: str) -> list[int] | None:
    """The thread of --thread; None: all of them; [] where there is none such, which stderr says."""
    if thread == "all":
        return None
    wanted = [tid for tid in tids if str(tid) == thread]
    if not wanted:
        known = ", ".join(map(str, tids)) or "none"
        message = f"{whose} has no thread {thread} (it has {known})"
        complain(message, f"whence {command}")
    return wanted


class About(NamedTuple):
    """Whose stacks they are. `command` is the program's name, `written` when a core was, in seconds since 1970."""

    pid: int
    command: str
    arguments: str
    executable: str
    written: float | None = None

    @property
    def time(self) -> str:
        return "" if self.written is None else strftime("%Y-%m-%d %H:%M:%S", localtime(self.written))

    def __str__(self) -> str:
        words = [f"process {self.pid}", plain(self.arguments or self.command), plain(self.executable), self.time]
        return ", ".join(filter(None, words))

    def as_object(self) -> dict[str, object]:
        found: dict[str, object] = {
            "pid": self.pid,
            "command": self.command,
            "arguments": self.arguments,
            "executable": self.executable,
        }
        return found if self.written is None else {**found, "written": self.time}

    @classmethod
    def core(cls, core: Core) -> About:
        return cls(core.pid, core.command, core.arguments, core.executable, core.written)

    @classmethod
    def process(cls, pid: int, directory: str) -> About:
        """Of a live process, as far as it may be seen."""
        arguments = executable = ""
        with suppress(OSError):
            arguments = proc.read_text(f"{directory}/cmdline").rstrip("\0").replace("\0", " ")
        with suppress(OSError):
            executable = os.readlink(f"{directory}/exe")
        return cls(pid, proc.command(directory), arguments, executable)


def show_stacks(about: About, stacks: Sequence[Stack], *, as_json: bool, style: str, registers: bool) -> int:
    """Print stacks, remedies on stderr; returns the exit code: whether all of them are whole and all frames named."""
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
    whole = all(stack.end is End.COMPLETE and all(frame.place for frame in stack.frames) for stack in stacks)
    return ANSWERED if whole else SOME_UNKNOWN


def title(stack: Stack) -> str:
    """What a stack's text begins with: the thread's name, its state and for how long it was stopped, where it lives."""
    words = [f"thread {stack.tid}", plain(stack.name)]
    if stack.state:
        words.append(f"({stack.state}, stopped for {stack.held * 1000:.1f} ms)" if stack.held else f"({stack.state})")
    return " ".join(filter(None, words))


def with_gap(stack: Stack) -> Iterator[NamedFrame | str]:
    """The frames, and a line in the place of those that were counted and not kept."""
    for index, frame in enumerate(stack.frames):
        if stack.skipped and index == INNER_KEPT:
            yield f"... {stack.skipped:,} frames"
        yield frame


class StackLines:
    """Stacks as text. Many threads are at the same places, whose lines are made once."""

    def __init__(self) -> None:
        self._lines: dict[tuple[int, int, FoundBy], list[str]] = {}

    def of(self, stack: Stack) -> Iterator[str]:
        """Of each frame the address, where it lies, how it was found, and its functions; then why the stack ends."""
        for frame in with_gap(stack):
            if isinstance(frame, str):
                yield f"  {frame}"
                continue
            key = frame.pc, frame.place.address, frame.found_by
            if key not in self._lines:
                self._lines[key] = frame_lines(frame)
            yield from self._lines[key]
        yield f"  end: {ending(stack)}"


def frame_lines(frame: NamedFrame) -> list[str]:
    head, *functions = as_lines(frame.place)
    guess = ", a guess" if frame.found_by is FoundBy.SCAN else ""
    return [f"  {head} [{frame.found_by}{guess}]", *(f"  {line}" for line in functions)]


def ending(stack: Stack) -> str:
    """Why the stack ends, in words."""
    detail = f" ({plain(stack.detail)})" if stack.detail else ""
    return f"{stack.end}: {stack.end.sentence}{detail}"


def gdb_lines(stack: Stack) -> Iterator[str]:
    """As gdb's backtrace: numbered, inlined calls without an address. A stack that ends early says why."""
    number = 0
    for frame in with_gap(stack):
        if isinstance(frame, str):
            yield f"({frame})"
            number += stack.skipped
            continue
        if frame.is_trampoline:
            yield f"#{number:<2} <signal handler called>"
            number += 1
            continue
        place = frame.place
        guess = " (a guess)" if frame.found_by is FoundBy.SCAN else ""
        names = [
            (plain(one.function) or "??", f" at {plain(one.file)}:{one.line}" if one.file else "")
            for one in place.frames
        ] or [("??", "")]
        if place.mapping is not None and place.mapping.path and not names[-1][1]:
            names[-1] = names[-1][0], f" from {plain(place.mapping.path)}"
        address = f"0x{frame.pc:016x} in "
        for function, where in names:
            yield f"#{number:<2} {address}{function} (){where}{guess}"
            address = ""
            number += 1
    if stack.end is not End.COMPLETE:
        yield f"Backtrace stopped: {ending(stack)}"


def register_lines(stack: Stack) -> Iterator[str]:
    """Registers, some to a line."""
    shown = [f"{name:<4}0x{value:016x}" for name, value in stack.registers.items()]
    for index in range(0, len(shown), REGISTERS_A_LINE):
        yield "  " + "  ".join(shown[index : index + REGISTERS_A_LINE])
    if not shown:
        yield "  registers: not known"


def stack_object(stack: Stack, registers: bool) -> dict[str, object]:
    """A thread as JSON has it: a frame for each function, inlined calls with the address of what they are in."""
    signal = stack.signal
    found: dict[str, object] = {"tid": stack.tid, "signal": 0 if signal is None else signal.number}
    if signal is not None:
        found["signal_name"], found["cause"] = signal.name, signal.cause
        if signal.address is not None:
            found["fault_address"] = hex(signal.address)
    if registers:
        found["registers"] = {name: hex(value) for name, value in stack.registers.items()}
    frames: list[dict[str, object]] = []
    for frame in stack.frames:
        place = as_object(frame.place)
        functions = place.pop("frames")
        assert isinstance(functions, list)
        head = {"found_by": str(frame.found_by), "sp": hex(frame.sp), "signal_trampoline": frame.is_trampoline}
        head["guess"] = frame.found_by is FoundBy.SCAN
        unnamed = {"function": "", "file": "", "line": 0, "start_line": 0, "inlined": False, "source": ""}
        frames += [{**function, **place, **head} for function in functions or [unnamed]]
    found["frames"] = frames
    found["end"], found["detail"], found["skipped"] = str(stack.end), stack.detail, stack.skipped
    if stack.state:
        found["name"], found["state"], found["stopped_ms"] = stack.name, stack.state, round(stack.held * 1000, 3)
    if stack.missing is not None:
        found["reason"], found["remedy"] = stack.missing.reason.word, stack.missing.remedy
    return found
