"""Merge the frames of an interpreter into a native stack.

A native frame occupies the stack from its stack pointer to that of its caller. The evaluation whose mark is there
belongs to it: its frames replace the native frame, or precede it if evaluations are shown.

    native     PyObject_Vectorcall   _PyEval_EvalFrameDefault   list_sort   _PyEval_EvalFrameDefault   main
    marks                            evaluation 0                           evaluation 1
    merged     PyObject_Vectorcall   key                        list_sort   work   <module>            main

Evaluations without marks (CPython 3.7 to 3.9) are matched with the native frames of the evaluating function, one to
one. If the native stack ends early, evaluations above its last frame follow at its end. Evaluations that match nothing
are listed apart, with the reason: nothing is guessed.
"""

from __future__ import annotations

from bisect import bisect_right
from typing import TYPE_CHECKING, NamedTuple

from whence._base.words import counted
from whence.unwind.steps import End

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from whence.interpreters.model import Evaluation, InterpretedFrame, InterpretedStack
    from whence.unwind.steps import Unwound


class MergedFrame(NamedTuple):
    """A frame of a merged stack: a native frame by its index, or a frame of the interpreter in native frame `native`.

    `is_evaluation`: the native frame runs frames of the interpreter, which are shown in its place.
    """

    native: int
    interpreted: InterpretedFrame | None = None
    is_evaluation: bool = False


class Merged(NamedTuple):
    """A merged stack, innermost first, and evaluations that have no place in it, with the reason in `problem`.

    `after_end` is the number of frames at the end that follow the last native frame, because the native stack ended
    early.
    """

    frames: tuple[MergedFrame, ...]
    apart: tuple[Evaluation, ...] = ()
    problem: str = ""
    after_end: int = 0


def merge(unwound: Unwound, stack: InterpretedStack, is_evaluation: Callable[[int], bool]) -> Merged:
    """Return the merged stack of a thread.

    Args:
        unwound: the native stack.
        stack: the frames of the interpreter.
        is_evaluation: returns True for a runtime address in the function that evaluates frames, by its name.
    """
    native = unwound.frames
    evaluations = stack.evaluations
    if any(evaluation.mark for evaluation in evaluations):
        placed, late, apart = _by_marks(unwound, evaluations)
    else:
        placed, late, apart = _by_names(unwound, evaluations, is_evaluation)
    problem = stack.problem
    if apart:
        why = f"{counted(len(apart), 'evaluation')} of the interpreter match no native frame"
        problem = f"{why}; {problem}" if problem else why
        return Merged(tuple(MergedFrame(index) for index in range(len(native))), evaluations, problem)
    frames: list[MergedFrame] = []
    for index in range(len(native)):
        for evaluation in placed.get(index, ()):
            frames += [MergedFrame(index, frame) for frame in evaluation.frames]
        shown = native[index]
        runs = index in placed or (bool(evaluations) and is_evaluation(shown.lookup))
        frames.append(MergedFrame(index, None, runs))
    last = len(native) - 1
    after = [MergedFrame(last, frame) for evaluation in late for frame in evaluation.frames]
    return Merged((*frames, *after), (), problem, len(after))


Placed = dict[int, list["Evaluation"]]


def _by_marks(unwound: Unwound, evaluations: Sequence[Evaluation]) -> tuple[Placed, list[Evaluation], list[Evaluation]]:
    """Return evaluations by native frame, those above the last frame of a stack that ends early, and the others."""
    native = unwound.frames
    placed: Placed = {}
    late: list[Evaluation] = []
    apart: list[Evaluation] = []
    order = sorted(range(len(native)), key=lambda index: native[index].sp)
    starts = [native[index].sp for index in order]
    complete = unwound.end is End.COMPLETE and not unwound.skipped
    for evaluation in evaluations:
        position = bisect_right(starts, evaluation.mark) - 1
        if not evaluation.mark:
            if evaluation.frames:
                apart.append(evaluation)
        elif 0 <= position < len(starts) - 1:
            placed.setdefault(order[position], []).append(evaluation)
        elif position < 0 or complete:  # the outermost frame of a whole stack calls no interpreter
            apart.append(evaluation)
        else:
            late.append(evaluation)
    return placed, late, apart


def _by_names(
    unwound: Unwound, evaluations: Sequence[Evaluation], is_evaluation: Callable[[int], bool]
) -> tuple[Placed, list[Evaluation], list[Evaluation]]:
    """Match evaluations with the native frames of the evaluating function, outermost first."""
    native = unwound.frames
    named = [index for index, frame in enumerate(native) if is_evaluation(frame.lookup)]
    if len(named) == len(evaluations):
        return {index: [evaluation] for index, evaluation in zip(named, evaluations, strict=True)}, [], []
    complete = unwound.end is End.COMPLETE and not unwound.skipped
    if complete and len(named) == len(evaluations) + 1 and named[0] <= 1:  # a call that has not entered its frame yet
        return {index: [evaluation] for index, evaluation in zip(named[1:], evaluations, strict=True)}, [], []
    if not complete and len(named) < len(evaluations):
        inner = {index: [evaluation] for index, evaluation in zip(named, evaluations, strict=False)}
        return inner, list(evaluations[len(named) :]), []
    return {}, [], list(evaluations)
