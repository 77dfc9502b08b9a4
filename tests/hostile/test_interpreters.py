"""Hostile memory of CPython: cycles, wild pointers, strings of 2**60 bytes, wrong code objects, endless lists."""

from __future__ import annotations

import random

from tests.forge.cpython import CODES, HEAP, INTERPRETER, RUNTIME, THREAD, TYPE, CpythonMemory
from tests.forge.mutations import mutated
from tests.hostile import bounded
from tests.hostile.inputs.interpreters import NATIVE, read_damaged, seeds
from whence.interpreters.cpython import Cpython
from whence.interpreters.cpython_layout import read_debug_offsets
from whence.interpreters.model import InterpretedStack, ThreadKey

TID = 7


def mutants(seed: int, count: int) -> dict[str, int]:
    """Read damaged memory. Return how many stacks are whole, and how many have a problem; native stacks are whole."""
    dice = random.Random(seed)
    counts = {"whole": 0, "problem": 0, "refused": 0}
    for _ in range(count):
        data = dice.choice(seeds())
        for _ in range(dice.randrange(1, 5)):
            data = mutated(data, dice)
        result = read_damaged(data)
        if result is None:
            counts["refused"] += 1
            continue
        stack, merged = result
        assert [frame.native for frame in merged.frames if frame.interpreted is None] == [*range(len(NATIVE.frames))]
        assert all((frame.frame is None) == bool(frame.why) for frame in stack.frames)
        is_whole = not merged.problem and not any(frame.why for frame in stack.frames)
        counts["whole" if is_whole else "problem"] += 1
    return counts


def test_mutated_memory_has_frames_or_reasons() -> None:
    outcome = bounded(mutants, 1, 2000, seconds=60, megabytes=100)
    assert outcome.error == ""
    assert min(outcome.answer.values()) > 10, outcome.answer


def stack_of(memory: CpythonMemory) -> InterpretedStack:
    runtime = Cpython(read_debug_offsets(memory.read(RUNTIME, 800), "little"), RUNTIME, "little")
    for start, area in memory.segments:
        runtime.add_segment(start, area)
    threads = [ThreadKey(TID)]
    runtime.walk(threads)
    return runtime.stacks(threads, memory.read).get(TID, InterpretedStack(problem=runtime.problem))


def answers(made: str) -> list[str]:
    """The functions of frames, or why they have no name, and the problem of the thread."""
    memory = CpythonMemory()
    memory.chain("abc|")
    frame = HEAP + 0x4040  # of b
    code = memory.word(frame + memory.fields["interpreter_frame.executable"])
    name = memory.word(code + memory.fields["code_object.qualname"])
    table = memory.word(code + memory.fields["code_object.linetable"])
    if made == "string":
        memory.field(name, "unicode_object.length", 1 << 60)
    elif made == "width":
        memory.field(name, "unicode_object.state", 1 << 5 | 7 << 2)
    elif made == "table":
        memory.field(table, "bytes_object.ob_size", 1 << 60)
    elif made == "negative":
        memory.field(table, "bytes_object.ob_size", -1)
    elif made == "type":
        memory.field(code, "pyobject.ob_type", CODES)
    elif made == "itself":
        memory.field(code, "code_object.qualname", code)
    elif made == "cycle":
        memory.field(frame, "interpreter_frame.previous", HEAP + 0x4080)
    elif made == "state":
        memory.field(THREAD, "thread_state.next", THREAD)
        memory.field(INTERPRETER, "interpreter_state.next", INTERPRETER)
    elif made == "wild":
        memory.field(frame, "interpreter_frame.previous", (1 << 64) - 1)
    elif made == "tp_name":
        memory.put(TYPE + memory.fields["type_object.tp_name"], 1 << 60)
    stack = stack_of(memory)
    return [each.frame.function if each.frame else each.why for each in stack.frames] + [stack.problem]


def test_one_bad_object_costs_one_frame() -> None:
    for made, expected in {
        "string": "has 1152921504606846976 characters",
        "width": "has characters of 7 bytes",
        "type": "is not a code object",
        "itself": "the names of the code object are not readable",
    }.items():
        outcome = bounded(answers, made, seconds=10, megabytes=60)
        assert outcome.error == ""
        a, b, c, problem = outcome.answer
        assert (a, c, problem) == ("a", "c", "")
        assert expected in b, made


def test_a_bad_table_costs_lines_only() -> None:
    for made in ("table", "negative"):
        outcome = bounded(answers, made, seconds=10, megabytes=60)
        assert (outcome.error, outcome.answer) == ("", ["a", "b", "c", ""])


def test_bad_chains_and_lists_end() -> None:
    for made, count, expected in (
        ("cycle", 3, "form a cycle"),
        ("state", 3, ""),
        ("wild", 2, "is not readable"),
        ("tp_name", 3, ""),
    ):
        outcome = bounded(answers, made, seconds=20, megabytes=100)
        assert outcome.error == ""
        assert expected in outcome.answer[-1], made
        assert len(outcome.answer) >= count + 1
