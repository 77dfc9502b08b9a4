"""The memory of a CPython process: runtime, threads, frames and code objects, merged into a native stack."""

from __future__ import annotations

from contextlib import suppress

from tests.forge.cpython import RUNTIME, STACK, AsyncioMemory, CpythonMemory
from whence.interpreters.cpython import Cpython
from whence.interpreters.cpython_layout import UnknownLayout, read_debug_offsets
from whence.interpreters.merging import merge
from whence.interpreters.model import InterpretedStack, ThreadKey
from whence.unwind.memory import Unreadable
from whence.unwind.steps import End, FoundBy, StackFrame, Unwound

TID = 7
NATIVE = Unwound(tuple(StackFrame(index, STACK + 0x100 * index, FoundBy.CFI) for index in range(0x80)), End.COMPLETE)


def seeds() -> list[bytes]:
    made = []
    for chain in ("a|", "abc|d|ef|", "|a|"):
        memory = CpythonMemory()
        memory.chain(chain)
        made.append(b"".join(bytes(area) for area in memory.areas.values()))
    asyncio = AsyncioMemory()
    asyncio.task("task", asyncio.coroutine("outer", asyncio.coroutine("inner", 0)))
    made.append(b"".join(bytes(area) for area in asyncio.areas.values()))
    return made


def target(data: bytes) -> None:
    memory = CpythonMemory()
    for index, (start, area) in enumerate(memory.areas.items()):
        memory.areas[start] = bytearray(data[index * len(area) : (index + 1) * len(area)].ljust(len(area), b"\0"))
    with suppress(UnknownLayout, Unreadable):
        runtime = Cpython(read_debug_offsets(memory.read(RUNTIME, 800), "little"), RUNTIME, "little")
        for start, content in memory.segments:
            runtime.add_segment(start, content)
        threads = [ThreadKey(TID)]
        runtime.walk(threads)
        stack = runtime.stacks(threads, memory.read).get(TID, InterpretedStack())
        runtime.task_tables = [AsyncioMemory.table]
        tasks = runtime.locate_tasks(memory.read)
        tasks.read(runtime.thread_states())
        tasks.tasks(runtime.tids(threads), {TID: stack})
        merged = merge(NATIVE, stack, lambda pc: pc == 5)
        native = [frame.native for frame in merged.frames if frame.interpreted is None]
        assert native == [*range(len(NATIVE.frames))]
