"""Stacks of threads with names, of cores and live processes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from whence._base.records import Record

if TYPE_CHECKING:
    from whence._base.reasons import Missing
    from whence.symbolize.process import ProcessView
    from whence.symbolize.symbolized import Symbolized
    from whence.symbolize.symbolizer import Symbolizer
    from whence.unwind import End, FoundBy, Signal, Unwound


class NamedFrame(NamedTuple):
    """A frame of a stack: the program counter, how it was found, and its `place`, inlined calls first.

    `sp` is the stack pointer of the frame; `is_trampoline` marks the code that a signal handler returns to.
    """

    pc: int
    sp: int
    found_by: FoundBy
    is_trampoline: bool
    place: Symbolized


class Stack(Record, frozen=True):
    """The stack of a thread, innermost frame first, and why it ends: a word, and details.

    `signal` is the signal of the thread, if any; `registers` are the innermost frame's by name. `skipped` is the number
    of frames between the innermost 4,096 and the outermost ones that were not kept.

    A thread of a live process has a `name` and a `state` (proc_pid_stat(5)), `held` is the number of seconds for which
    it was stopped, at most, and `missing` says why it was not stopped, if so.
    """

    tid: int
    signal: Signal | None
    registers: dict[str, int]
    frames: tuple[NamedFrame, ...]
    end: End
    detail: str = ""
    skipped: int = 0
    name: str = ""
    state: str = ""
    held: float = 0.0
    missing: Missing | None = None


def named(
    process: int | ProcessView, stacks: Sequence[Unwound], symbolizer: Symbolizer
) -> list[tuple[NamedFrame, ...]]:
    """Return the frames of each stack with their names, by one search."""
    wanted = list(dict.fromkeys(frame.lookup for stack in stacks for frame in stack.frames))
    place_of = dict(zip(wanted, symbolizer.symbolize(process, wanted), strict=True))
    after_call = {lookup: place.after() for lookup, place in place_of.items()}
    found = []
    for stack in stacks:
        frames = []
        for frame in stack.frames:
            lookup = frame.lookup
            place = (place_of if lookup == frame.pc else after_call)[lookup]
            frames.append(NamedFrame(frame.pc, frame.sp, frame.found_by, frame.is_trampoline, place))
        found.append(tuple(frames))
    return found
