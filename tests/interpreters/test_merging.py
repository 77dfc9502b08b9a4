"""Frames of an interpreter in their places in a native stack; made-up memory, whole and damaged."""

from __future__ import annotations

import random

import pytest

from tests.forge.cpython import HEAP, INTERPRETER, RUNTIME, STACK, THREAD, CpythonMemory
from whence._base.model import Frame
from whence.interpreters.cpython import Cpython
from whence.interpreters.cpython_layout import read_debug_offsets
from whence.interpreters.merging import Merged, merge
from whence.interpreters.model import Evaluation, InterpretedFrame, InterpretedStack, ThreadKey
from whence.unwind.steps import End, FoundBy, StackFrame, Unwound

TID = 7


def stack_of(memory: CpythonMemory) -> InterpretedStack:
    """Return what is read of the only thread."""
    layout = read_debug_offsets(memory.read(RUNTIME, 800), "little")
    runtime = Cpython(layout, RUNTIME, "little")
    for start, data in memory.segments:
        runtime.add_segment(start, data)
    threads = [ThreadKey(TID)]
    runtime.walk(threads)
    return runtime.stacks(threads, memory.read).get(TID, InterpretedStack(problem=runtime.problem))


def groups(stack: InterpretedStack) -> list[str]:
    return [
        "".join(frame.frame.function if frame.frame else "?" for frame in evaluation.frames)
        for evaluation in stack.evaluations
    ]


def native(*frames: tuple[int, int], end: End = End.COMPLETE) -> Unwound:
    return Unwound(tuple(StackFrame(pc, sp, FoundBy.CFI) for pc, sp in frames), end)


def evaluation(mark: int, names: str) -> Evaluation:
    return Evaluation(mark, tuple(InterpretedFrame(0x1000, Frame(name)) for name in names))


def text(merged: Merged) -> str:
    """Digits are native frames, in parentheses if they are evaluations; letters are frames of the interpreter."""
    words = []
    for frame in merged.frames:
        if frame.interpreted is not None:
            assert frame.interpreted.frame is not None
            words.append(frame.interpreted.frame.function)
        else:
            words.append(f"({frame.native})" if frame.is_evaluation else str(frame.native))
    return "".join(words)


def is_evaluation(pc: int) -> bool:
    return 0x100 <= pc < 0x200


def test_frames_are_grouped_by_entry_shims() -> None:
    memory = CpythonMemory()
    memory.chain("abc|d|ef|")
    stack = stack_of(memory)
    assert groups(stack) == ["abc", "d", "ef"]
    assert [each.mark for each in stack.evaluations] == [STACK + 0x6E00, STACK + 0x6F00, STACK + 0x7000]
    assert (stack.problem, stack.has_lock, stack.interpreters) == ("", True, (0,))
    frame = stack.frames[0].frame
    assert frame is not None
    assert (frame.file, frame.line, frame.column) == ("/app.py", 2, 5)


def test_evaluations_take_the_place_of_the_frames_with_their_marks() -> None:
    unwound = native((1, 0x10), (0x110, 0x40), (2, 0x80), (0x120, 0xA0), (3, 0xF0))
    stack = InterpretedStack((evaluation(0x60, "ab"), evaluation(0xA8, "c")))
    assert text(merge(unwound, stack, is_evaluation)) == "0ab(1)2c(3)4"


def test_an_evaluation_without_frames_is_hidden_by_its_name() -> None:
    unwound = native((0x110, 0x10), (1, 0x80), (0x120, 0xA0), (3, 0xF0))
    stack = InterpretedStack((evaluation(0xA8, "c"),))
    assert text(merge(unwound, stack, is_evaluation)) == "(0)1c(2)3"


def test_outer_evaluations_follow_a_native_stack_that_ends_early() -> None:
    unwound = native((1, 0x10), (0x110, 0x40), (2, 0x80), end=End.NO_CFI)
    stack = InterpretedStack((evaluation(0x60, "a"), evaluation(0xA8, "b"), evaluation(0xF8, "cd")))
    merged = merge(unwound, stack, is_evaluation)
    assert (text(merged), merged.after_end, merged.problem) == ("0a(1)2bcd", 3, "")


def test_marks_outside_of_the_stack_are_not_guessed() -> None:
    unwound = native((1, 0x100), (0x110, 0x140), (2, 0x180))
    for mark in (0x60, 0x1F0):
        merged = merge(unwound, InterpretedStack((evaluation(mark, "a"), evaluation(0x150, "b"))), is_evaluation)
        assert text(merged) == "012"
        assert [each.mark for each in merged.apart] == [mark, 0x150]
        assert merged.problem == "1 evaluation of the interpreter match no native frame"


def test_evaluations_without_marks_are_matched_by_name_if_their_numbers_agree() -> None:
    unwound = native((1, 0x10), (0x110, 0x40), (2, 0x80), (0x120, 0xA0), (3, 0xF0))
    two = InterpretedStack((evaluation(0, "a"), evaluation(0, "b")))
    assert text(merge(unwound, two, is_evaluation)) == "0a(1)2b(3)4"
    three = InterpretedStack((*two.evaluations, evaluation(0, "c")))
    merged = merge(unwound, three, is_evaluation)
    assert (text(merged), len(merged.apart)) == ("01234", 3)


@pytest.mark.parametrize(
    ("damage", "problem"),
    [
        (lambda m: m.field(HEAP + 0x4000, "interpreter_frame.previous", HEAP + 0x4040), "form a cycle"),
        (lambda m: m.field(HEAP + 0x4000, "interpreter_frame.previous", 0xDEAD0000), "is not readable"),
        (lambda m: m.field(HEAP + 0x4000, "interpreter_frame.previous", 0), "do not end as they must"),
        (lambda m: m.field(HEAP + 0x4000, "interpreter_frame.executable", 0), "do not end as they must"),
        (lambda m: m.field(THREAD, "thread_state.current_frame", 16), "is not readable"),
    ],
)
def test_damaged_chains_are_said_and_keep_their_inner_frames(damage: object, problem: str) -> None:
    memory = CpythonMemory()
    memory.chain("abc|")
    assert callable(damage)
    damage(memory)
    stack = stack_of(memory)
    assert problem in stack.problem


def test_damaged_lists_end() -> None:
    memory = CpythonMemory()
    memory.chain("a|")
    memory.field(INTERPRETER, "interpreter_state.next", INTERPRETER)
    memory.field(THREAD, "thread_state.next", THREAD)
    assert stack_of(memory).problem in {"", "there are more interpreters or threads than are read"}
    memory.field(THREAD, "thread_state.interp", 5)
    assert stack_of(memory).evaluations == ()


def test_one_bad_code_object_costs_one_frame() -> None:
    memory = CpythonMemory()
    memory.chain("abc|")
    memory.field(HEAP + 0x4040, "interpreter_frame.executable", HEAP + 8)
    stack = stack_of(memory)
    assert groups(stack) == ["a?c"]
    assert [frame.why for frame in stack.frames] == ["", "the frame's code is not a code object", ""]


def test_a_reused_thread_state_belongs_to_the_thread_that_has_it() -> None:
    memory = CpythonMemory(tid=7)
    memory.field(THREAD, "thread_state.thread_id", 0x7000)
    memory.chain("ab|")
    runtime = Cpython(read_debug_offsets(memory.read(RUNTIME, 800), "little"), RUNTIME, "little")
    for start, area in sorted(memory.areas.items()):
        runtime.add_segment(start, memoryview(area))
    threads = [ThreadKey(7, 0x7000), ThreadKey(8, 0x7000)]  # the second one started when the first one had ended
    runtime.walk(threads[:1])
    memory.field(THREAD, "thread_state.native_thread_id", 8)
    memory.chain("c|")
    runtime.walk(threads[1:])
    assert {tid: groups(stack) for tid, stack in runtime.stacks(threads, memory.read).items()} == {7: ["ab"], 8: ["c"]}


def test_code_that_the_interpreter_made_for_itself_is_hidden() -> None:
    memory = CpythonMemory()
    memory.chain("abc|")
    code = memory.word(HEAP + 0x4040 + memory.fields["interpreter_frame.executable"])  # of b
    for field in ("name", "filename"):
        memory.field(code, f"code_object.{field}", memory.word(code + memory.fields["code_object.qualname"]))
    assert groups(stack_of(memory)) == ["abc"]  # its table has lines
    memory.field(code, "code_object.linetable", memory.content(b""))
    assert groups(stack_of(memory)) == ["ac"]


def test_random_damage_never_raises() -> None:
    generator = random.Random(1)
    unwound = native(*((index, STACK + 0x100 * index) for index in range(0x80)))
    for _ in range(100):
        memory = CpythonMemory()
        memory.chain("abc|d|ef|")
        for _ in range(generator.randrange(1, 6)):
            area = generator.choice([INTERPRETER, THREAD, HEAP, HEAP + 0x4000, STACK + 0x6E00, STACK + 0x7000])
            value = generator.choice([0, 1, 1 << 60, HEAP + 0x4000, STACK + 0x7000, THREAD, generator.getrandbits(64)])
            memory.put(area + 8 * generator.randrange(40), value)
        merged = merge(unwound, stack_of(memory), is_evaluation)
        assert [frame.native for frame in merged.frames if frame.interpreted is None] == [*range(0x80)]
