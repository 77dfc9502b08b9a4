"""Stacks of threads with names, of cores and live processes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, NamedTuple

from whence._base.model import Frame
from whence._base.reasons import Reason
from whence._base.records import Record, replaced
from whence._base.source import Source
from whence._base.words import counted, plain
from whence.stack_token import token_of
from whence.symbolize.symbolized import Symbolized
from whence.symbolize.waiting import waits_for
from whence.unwind import End, FoundBy, StackFrame
from whence.unwind.unwinder import INNER_KEPT

if TYPE_CHECKING:
    from whence._base.reasons import Missing
    from whence.interpreters.model import InterpretedFrame, InterpretedStack
    from whence.interpreters.process import InterpretedThread
    from whence.symbolize.process import ProcessView
    from whence.symbolize.symbolizer import Symbolizer
    from whence.types.model import Variable
    from whence.unwind import Signal, Unwound


FrameVariables = list[tuple[tuple["Variable", ...], ...]]  # of the frames of a stack, of each function there


class NamedFrame(NamedTuple):
    """A frame of a stack: the program counter, how it was found, and its `place`, inlined calls first.

    `sp` is the stack pointer of the frame; `is_trampoline` marks the code that a signal handler returns to. `variables`
    has the arguments and local variables of each function of `place.frames`, if they were read and the file has debug
    info. Frames of an interpreter (FoundBy.INTERPRETER) have the pc and sp of the native frame that runs them, for
    which `is_evaluation` is true.
    """

    pc: int
    sp: int
    found_by: FoundBy
    is_trampoline: bool
    place: Symbolized
    variables: tuple[tuple[Variable, ...], ...] = ()
    is_evaluation: bool = False

    @property
    def is_interpreted(self) -> bool:
        return self.found_by is FoundBy.INTERPRETER

    def __repr__(self) -> str:
        return f"<whence.NamedFrame {self.pc:#x} by {self.found_by}: {self.place!r}>"


class Stack(Record, frozen=True):
    """The stack of a thread, innermost frame first, and why it ends: a word, and details.

    Python frames are in their places: `frames` has them instead of the native frames that evaluate them, `all_frames`
    has both, `native_frames` and `python_frames` have either.

    `signal` is the signal of the thread, if any; `registers` are the innermost frame's by name. `skipped` is the number
    of frames that were dropped, after the innermost 4,096.

    Of a thread of an interpreter, `has_gil` says whether it holds the global interpreter lock, None without a lock,
    and `interpreter_problem` why Python frames are missing or `apart` from the native ones, if so. `waits_for` is what
    a thread waits for, "" if nothing is recognized. `python_name` is the name that the program gave it before CPython
    3.14; since then, `name` is that name.

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
    every: tuple[NamedFrame, ...] = ()  # with the native frames that evaluate Python frames, if there are any
    apart: tuple[NamedFrame, ...] = ()
    interpreter_problem: str = ""
    has_gil: bool | None = None
    waits_for: str = ""
    gap: int = INNER_KEPT  # number of frames before the dropped ones
    python_name: str = ""

    @property
    def all_frames(self) -> tuple[NamedFrame, ...]:
        """Native and Python frames, with the native frames that evaluate Python frames."""
        return self.every or self.frames

    @property
    def native_frames(self) -> tuple[NamedFrame, ...]:
        """The native frames."""
        return tuple(frame for frame in self.all_frames if not frame.is_interpreted)

    @property
    def python_frames(self) -> tuple[NamedFrame, ...]:
        """The Python frames."""
        return self.apart or tuple(frame for frame in self.frames if frame.is_interpreted)

    def token(self) -> str:
        """Return the addresses as a stack token (docs/formats/stack-token.md)."""
        symbolized = (frame.place for frame in self.native_frames if not frame.is_trampoline)
        return token_of(
            (each.mapping.build_id, each.vaddr)
            if each.mapping is not None and each.mapping.build_id and each.vaddr is not None
            else ("", each.address)
            for each in symbolized
        )

    def __str__(self) -> str:
        """Return the thread and its backtrace in gdb's form, a line for each function."""
        words = [f"thread {self.tid}", plain(self.name), str(self.signal or "")]
        return "\n".join([" ".join(filter(None, words)), *gdb_lines(self)])

    def __repr__(self) -> str:
        return f"<whence.Stack of thread {self.tid}: {len(self.frames):,} frames, {self.end}>"

    def _repr_html_(self) -> str:
        """Return the backtrace as HTML, for notebooks."""
        from html import escape

        return f"<pre>{escape(str(self))}</pre>"


def named(
    process: int | ProcessView,
    stacks: Sequence[Unwound],
    symbolizer: Symbolizer,
    variables: Sequence[FrameVariables] | None = None,
) -> list[tuple[NamedFrame, ...]]:
    """Return the frames of each stack with their names, by one search, and with their variables if these were read."""
    lookups = list(dict.fromkeys(frame.lookup for stack in stacks for frame in stack.frames))
    place_of = dict(zip(lookups, symbolizer.symbolize(process, lookups), strict=True))
    after_call = {lookup: place.after() for lookup, place in place_of.items()}
    result = []
    for index, stack in enumerate(stacks):
        frames = []
        of_frames = iter(variables[index] if variables is not None else ())
        for frame in stack.frames:
            lookup = frame.lookup
            place = (place_of if lookup == frame.pc else after_call)[lookup]
            frames.append(
                NamedFrame(frame.pc, frame.sp, frame.found_by, frame.is_trampoline, place, next(of_frames, ()))
            )
        result.append(tuple(frames))
    return result


def with_gap(stack: Stack) -> Iterator[NamedFrame | str]:
    """Yield the frames, and one line for frames that were not kept."""
    for index, frame in enumerate(stack.frames):
        if stack.skipped and index == stack.gap:
            yield f"... {counted(stack.skipped, 'frame')}"
        yield frame


def ending(stack: Stack) -> str:
    """Return why the stack ends as text."""
    detail = f" ({plain(stack.detail)})" if stack.detail else ""
    return f"{stack.end}: {stack.end.sentence}{detail}"


def argument_text(argument: Variable) -> str:
    """Return an argument as in gdb's lines of frames: "..." for structures and arrays."""
    value = argument.value
    is_whole = value.fields or (value.kind == "string" and not value.text.startswith("0x"))
    return f"{plain(argument.name)}={'...' if is_whole else plain(value.text)}"


def gdb_lines(stack: Stack) -> Iterator[str]:
    """Yield lines like gdb's backtrace: numbered, inlined calls without an address, and why the stack ends early."""
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
        answer = frame.place
        if frame.is_interpreted:
            named_frame = answer.frames[0] if answer.frames else Frame("", source=Source.PYTHON)
            where = f" at {plain(named_frame.file)}:{named_frame.line}" if named_frame.file else ""
            yield f"#{number:<2} {plain(named_frame.function) or '??'} (){where} [{named_frame.source}]"
            number += 1
            continue
        guess = " (a guess)" if frame.found_by is FoundBy.SCAN else ""
        names = [
            (plain(function.function) or "??", f" at {plain(function.file)}:{function.line}" if function.file else "")
            for function in answer.frames
        ] or [("??", "")]
        if answer.mapping is not None and answer.mapping.path and not names[-1][1]:
            names[-1] = names[-1][0], f" from {plain(answer.mapping.path)}"
        address = f"0x{frame.pc:016x} in "
        for index, (function, where) in enumerate(names):
            variables = frame.variables[index] if index < len(frame.variables) else None
            arguments = "" if function.endswith(")") else " ()"
            if variables is not None:
                arguments = f" ({', '.join(argument_text(each) for each in variables if each.is_argument)})"
            yield f"#{number:<2} {address}{function}{arguments}{where}{guess}"
            for variable in variables or ():
                if not variable.is_argument:
                    yield f"        {plain(variable.name)} = {plain(variable.value.text)}"
            if variables is not None and all(variable.is_argument for variable in variables):
                yield "No locals."
            address = ""
            number += 1
    if stack.end is not End.COMPLETE:
        yield f"Backtrace stopped: {ending(stack)}"


def interpreted_frame(native: StackFrame, frame: InterpretedFrame) -> NamedFrame:
    """Return a frame of an interpreter, which a native frame runs."""
    if frame.frame is not None:
        symbolized = Symbolized(frame.address, (frame.frame,))
    else:
        symbolized = Symbolized(frame.address, (), Reason.UNREADABLE_FRAME, detail=frame.why)
    return NamedFrame(native.pc, native.sp, FoundBy.INTERPRETER, False, symbolized)


def with_interpreter(stack: Stack, unwound: Unwound, thread: InterpretedThread | None) -> Stack:
    """Return a stack of native frames with the frames of an interpreter in their places."""
    if thread is None:
        return replaced(stack, waits_for=waits_for(_functions(stack.frames)))
    merged, native = thread.merged, stack.frames
    every: list[NamedFrame] = []
    for number, interpreted, is_evaluation in merged.frames:
        if interpreted is None:
            every.append(native[number]._replace(is_evaluation=is_evaluation))
        else:
            every.append(interpreted_frame(unwound.frames[number], interpreted))
    frames = tuple(frame for frame in every if not frame.is_evaluation)
    outermost = unwound.frames[-1] if unwound.frames else StackFrame(0, 0, FoundBy.INTERPRETER)
    apart = [interpreted_frame(outermost, frame) for evaluation in merged.apart for frame in evaluation.frames]
    gap = stack.gap
    if stack.skipped:
        gap = sum(1 for frame in frames if frame.sp < native[INNER_KEPT].sp) if len(native) > INNER_KEPT else gap
    elif thread.stack.skipped:
        python = [index for index, frame in enumerate(frames) if frame.is_interpreted]
        gap = python[INNER_KEPT] if len(python) > INNER_KEPT else gap
    return replaced(
        stack, frames=frames, every=tuple(every), apart=tuple(apart), interpreter_problem=merged.problem,
        has_gil=thread.stack.has_lock, skipped=stack.skipped + thread.stack.skipped, gap=gap,
        waits_for=waits_for(_functions(frames)),
    )  # fmt: skip


def only_interpreted(stack: Stack, interpreted: InterpretedStack | None) -> Stack:
    """Return a stack without native frames with the frames of an interpreter."""
    if interpreted is None:
        return replaced(stack, detail="the thread runs no Python")
    native = StackFrame(0, 0, FoundBy.INTERPRETER)
    frames = tuple(interpreted_frame(native, frame) for frame in interpreted.frames)
    return replaced(
        stack, frames=frames, every=frames, interpreter_problem=interpreted.problem, has_gil=interpreted.has_lock,
        skipped=interpreted.skipped,
    )  # fmt: skip


def _functions(frames: Sequence[NamedFrame]) -> Iterator[str]:
    """Yield the functions of the native frames before the first Python frame."""
    for frame in frames:
        if frame.is_interpreted:
            return
        for function in frame.place.frames:
            yield function.function
