"""Damaged memory of a CPython process: runtime, threads, frames and code objects, merged into a native stack.

An input is a list of records of RECORD bytes: a word of the memory that is not zero, and what is written there.
"""

from __future__ import annotations

import struct
from copy import copy
from functools import cache

from tests.forge.cpython import RUNTIME, STACK, CpythonMemory
from whence.interpreters.cpython import Cpython
from whence.interpreters.cpython_layout import UnknownLayout, read_debug_offsets
from whence.interpreters.merging import Merged, merge
from whence.interpreters.model import InterpretedStack, ThreadKey
from whence.unwind.steps import End, FoundBy, StackFrame, Unwound

TID = 7
NATIVE = Unwound(tuple(StackFrame(index, STACK + 0x100 * index, FoundBy.CFI) for index in range(0x80)), End.COMPLETE)
CHAINS = ("a|", "abc|d|ef|", "|a|", "abcdefghij|k|")
VERSIONS = (0x30D00F0, 0x30E00F0, 0x30F00F0)
RECORD = struct.Struct("<HBBq")  # index of the word, what is written, an unused byte, a number
LARGE = (0, 1, 7, 1 << 12, 1 << 20, 1 << 31, 1 << 47, 1 << 60, (1 << 63) - 1, 1 << 63, (1 << 64) - 8, (1 << 64) - 1)


def seeds() -> list[bytes]:
    number = RECORD.pack(40, 0, 0, 5) + RECORD.pack(90, 1, 0, 8)
    return [
        number,
        number * 3,
        RECORD.pack(120, 2, 0, 60) + RECORD.pack(130, 3, 0, -8),
        RECORD.pack(200, 1, 0, 130) * 2,
    ]


@cache
def whole(version: int, chain: str) -> tuple[CpythonMemory, list[int]]:
    """Return memory without damages, and the addresses of its words that are not zero."""
    memory = CpythonMemory(version)
    memory.chain(chain)
    words = [
        start + offset
        for start, area in memory.areas.items()
        for offset in range(0, len(area), 8)
        if any(area[offset : offset + 8])
    ]
    return memory, words


def damaged(data: bytes) -> CpythonMemory:
    """Return memory with these damages. The sum of the bytes selects the version and the chain of frames."""
    choice = sum(data)
    original, words = whole(VERSIONS[choice % len(VERSIONS)], CHAINS[choice // len(VERSIONS) % len(CHAINS)])
    memory = copy(original)
    memory.areas = {start: bytearray(area) for start, area in original.areas.items()}
    usable = len(data) - len(data) % RECORD.size
    for index, kind, _, number in RECORD.iter_unpack(data[:usable]):
        value = {
            0: number,
            1: words[number % len(words)],  # of something else
            2: LARGE[number % len(LARGE)],
            3: memory.word(words[index % len(words)]) + number % 64 - 32,
        }[kind % 4]
        memory.put(words[index % len(words)], value)
    return memory


def read_damaged(data: bytes) -> tuple[InterpretedStack, Merged] | None:
    """Return what is read of damaged memory; None if the runtime itself is refused."""
    memory = damaged(data)
    try:
        layout = read_debug_offsets(memory.read(RUNTIME, 900), "little")
    except UnknownLayout:
        return None
    runtime = Cpython(layout, RUNTIME, "little")
    for start, content in memory.segments:
        runtime.add_segment(start, content)
    threads = [ThreadKey(TID)]
    runtime.walk(threads)
    stack = runtime.stacks(threads, memory.read).get(TID, InterpretedStack(problem=runtime.problem))
    return stack, merge(NATIVE, stack, lambda pc: pc == 5)
