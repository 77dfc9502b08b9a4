"""Stacks as text, as gdb prints them, and as JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime

from whence.cli.answers import as_lines, as_object, tell_remedies
from whence.cli.main import ANSWERED, SOME_UNKNOWN
from whence.cli.words import plain
from whence.symbolize import Core, NamedFrame, Stack
from whence.unwind import End
from whence.unwind.unwinder import INNER_KEPT

REGISTERS_A_LINE = 3


def show_stacks(core: Core, stacks: Sequence[Stack], *, as_json: bool, style: str, registers: bool) -> int:
    """Print stacks, remedies on stderr; gives the exit code: whether all of them are whole and all frames named."""
    if not as_json:
        print(process_line(core))
    any_cause = any(stack.signal is not None and stack.signal.cause for stack in stacks)
    for stack in stacks:
        if as_json:
            print(json.dumps({**stack_object(stack, registers), "process": process_object(core)}))
            continue
        # Linux notes the signal that ended a process with each of its threads, its cause with the one that got it.
        got = stack.signal is not None and (not any_cause or bool(stack.signal.cause))
        print(f"thread {stack.tid}" + (f" {stack.signal}" if got else ""))
        if registers:
            print("\n".join(register_lines(stack)))
        print("\n".join(gdb_lines(stack) if style == "gdb" else stack_lines(stack)))
    tell_remedies([frame.place for stack in stacks for frame in stack.frames])
    whole = all(stack.end is End.COMPLETE and all(frame.place for frame in stack.frames) for stack in stacks)
    return ANSWERED if whole else SOME_UNKNOWN


def process_line(core: Core) -> str:
    """Who left the core, and when it was written."""
    words = [f"process {core.pid}", plain(core.arguments or core.command), plain(core.executable), written(core)]
    return ", ".join(filter(None, words))


def process_object(core: Core) -> dict[str, object]:
    return {
        "pid": core.pid,
        "command": core.command,
        "arguments": core.arguments,
        "executable": core.executable,
        "written": written(core),
    }


def written(core: Core) -> str:
    return datetime.fromtimestamp(core.written).isoformat(" ", "seconds")


def with_gap(stack: Stack) -> Iterator[NamedFrame | str]:
    """The frames, and a line in the place of those that were counted and not kept."""
    for index, frame in enumerate(stack.frames):
        if stack.skipped and index == INNER_KEPT:
            yield f"... {stack.skipped:,} frames"
        yield frame


def stack_lines(stack: Stack) -> Iterator[str]:
    """For each frame the address, where it lies and how it was found, then its functions; then why the stack ends."""
    for frame in with_gap(stack):
        if isinstance(frame, str):
            yield f"  {frame}"
            continue
        head, *functions = as_lines(frame.place)
        yield f"  {head} [{frame.found_by}]"
        yield from (f"  {line}" for line in functions)
    yield f"  end: {ending(stack)}"


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
            yield f"#{number:<3}<signal handler called>"
            number += 1
            continue
        place = frame.place
        names = [
            (plain(one.function) or "??", f" at {plain(one.file)}:{one.line}" if one.file else "")
            for one in place.frames
        ] or [("??", "")]
        if place.mapping is not None and place.mapping.path and not names[-1][1]:
            names[-1] = names[-1][0], f" from {plain(place.mapping.path)}"
        address = f"0x{frame.pc:016x} in "
        for function, where in names:
            yield f"#{number:<3}{address}{function} (){where}"
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
        unnamed = {"function": "", "file": "", "line": 0, "start_line": 0, "inlined": False, "source": ""}
        frames += [{**function, **place, **head} for function in functions or [unnamed]]
    found["frames"] = frames
    found["end"], found["detail"], found["skipped"] = str(stack.end), stack.detail, stack.skipped
    return found
