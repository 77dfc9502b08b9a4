"""Goroutines with names, selected as in Go's own tracebacks.

for goroutine in whence.Core("core").goroutines().shown():
    print(goroutine.goid, goroutine.state, [name.function for name in goroutine.calls])
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from whence.symbolize.stacks import NamedFrame, named
from whence.unwind.steps import End, FoundBy, StackFrame, Unwound

if TYPE_CHECKING:
    from whence._base.model import Frame
    from whence.symbolize.process import ProcessView
    from whence.symbolize.symbolizer import Symbolizer
    from whence.unwind.goroutines import Goroutines, GoroutineStack

RUNTIME = "runtime."
METHODS_COUNT = 23  # the release since which exported methods of the runtime are shown
FINALIZING = ("runtime.runfinq", "runtime.runFinalizers", "runtime.runCleanups")  # system, unless they call the program
OF_THE_PROGRAM = ("runtime.main", "runtime.corostart", "runtime.handleAsyncEvent")
ALWAYS_SHOWN_SINCE = 25  # the release since which FINALIZING are shown
PANICS = ("runtime.gopanic", "runtime.sigpanic", "runtime.panicwrap")  # whose wrappers are shown


class Goroutine(NamedTuple):
    """A goroutine: its number, its state in Go's words, and its stack, innermost frame first.

    `calls` are the functions that Go's traceback shows, `frames` all. `created_by` is the go statement that made it,
    in goroutine `parent` (0: not known). `wait_since` is in nanoseconds of the monotonic clock (0: not known).
    """

    goid: int
    state: str
    is_locked: bool
    is_system: bool
    wait_since: int
    parent: int
    created_by: Frame | None
    calls: tuple[Frame, ...]
    frames: tuple[NamedFrame, ...]
    end: End
    detail: str = ""


class NamedGoroutines(NamedTuple):
    """The goroutines of a process. `version` is Go's in its own words; `problems` says what could not be read."""

    version: str
    goroutines: list[Goroutine]
    problems: list[str]

    def shown(self, *, system: bool = False) -> list[Goroutine]:
        """Return the goroutines in Go's traceback: without the runtime's own, unless `system`."""
        return [goroutine for goroutine in self.goroutines if system or not goroutine.is_system]


def name_goroutines(
    process: int | ProcessView, unnamed: Goroutines, symbolizer: Symbolizer, *, system: bool = False
) -> NamedGoroutines:
    """Return the goroutines with names, by one search. With `system` all frames are among the calls."""
    stacks = [stack.unwound for stack in unnamed.stacks]
    for pc in ("created_pc", "start_pc"):
        stacks += [_place(getattr(stack, pc), exact=pc == "start_pc") for stack in unnamed.stacks]
    names = named(process, stacks, symbolizer)
    count = len(unnamed.stacks)
    goroutines = [
        _goroutine(unnamed, stack, names[index], names[count + index], names[2 * count + index], system)
        for index, stack in enumerate(unnamed.stacks)
    ]
    return NamedGoroutines(unnamed.version, goroutines, unnamed.problems)


def _place(pc: int, *, exact: bool) -> Unwound:
    return Unwound((StackFrame(pc, 0, FoundBy.GO, exact),) if pc else (), End.COMPLETE)


def _goroutine(
    unnamed: Goroutines,
    stack: GoroutineStack,
    frames: tuple[NamedFrame, ...],
    creator: tuple[NamedFrame, ...],
    start: tuple[NamedFrame, ...],
    system: bool,
) -> Goroutine:
    calls = _calls(unnamed, frames, system) or _calls(unnamed, frames, True)
    began = start[0].place.frames[-1].function if start and start[0].place.frames else ""
    is_system = began.startswith(RUNTIME) and began not in OF_THE_PROGRAM
    if is_system and began in FINALIZING:
        is_system = all(call.function.startswith(RUNTIME) for call in calls)
    caller = creator[0].place.frames[-1] if creator and creator[0].place.frames and stack.goid != 1 else None
    if caller is not None and not (system or is_shown(caller.function, unnamed.release)):
        caller = None
    return Goroutine(
        stack.goid, stack.state, stack.is_locked, is_system, stack.wait_since, stack.parent, caller, calls, frames,
        stack.unwound.end, stack.unwound.detail,
    )  # fmt: skip


def _calls(unnamed: Goroutines, frames: tuple[NamedFrame, ...], every: bool) -> tuple[Frame, ...]:
    """Return the functions in Go's traceback: without the runtime's own and the compiler's wrappers."""
    calls: list[Frame] = []
    callee = ""
    for frame in frames:
        functions = frame.place.frames
        for index, call in enumerate(functions):
            is_wrapper = frame.pc in unnamed.wrappers and index == len(functions) - 1 and callee not in PANICS
            callee = call.function
            is_panic = call.function == PANICS[0] and bool(calls)
            if every or (not is_wrapper and (is_panic or is_shown(call.function, unnamed.release))):
                calls.append(call)
    return tuple(calls)


def is_shown(function: str, release: int) -> bool:
    """Return True if Go's traceback shows a function: those of packages, and exported ones of the runtime."""
    if "." not in function:
        return False
    if not function.startswith(RUNTIME):
        return True
    if function in FINALIZING and release >= ALWAYS_SHOWN_SINCE:
        return True
    receiver, _, name = function.removeprefix(RUNTIME).rpartition(".")
    if release < METHODS_COUNT:
        return function[len(RUNTIME) : len(RUNTIME) + 1].isupper()
    receiver = receiver.removeprefix("(*").removesuffix(")")
    return name[:1].isupper() and (not receiver or receiver[0].isupper())
