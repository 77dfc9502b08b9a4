"""damage.py CORE [N]: damage the words of a core that CPython's frames are read from, N times (20,000), and read them.

Each time one to four words get other values: pointers to something else, small numbers, huge ones. Every stack must keep
all native frames, and every Python frame must have a name or a reason. Prints how many stacks were whole, had a problem,
or were refused because their runtime was damaged.
"""

from __future__ import annotations

import random
import resource
import struct
import sys
import time
from collections import Counter

from whence._base.records import replaced
from whence.dumps.core import read_core
from whence.unwind.core import core_dump
from whence.dumps.process import MemoryRange
from whence import Locator
from whence.interpreters.process import Interpreters, NativeThread
from whence.objects.elf import ElfFile
from whence.unwind.core import stacks_with_reads
from whence.unwind.memory import Unreadable

LARGE = (0, 1, 8, 1 << 12, 1 << 31, 1 << 47, 1 << 60, (1 << 63) - 1, 1 << 63, (1 << 64) - 8, (1 << 64) - 1)


class DamagedMemory:
    """Memory of a core with other words at some addresses."""

    def __init__(self, original, words: dict[int, int]) -> None:
        self._original, self._words = original, words

    def read(self, address: int, size: int) -> bytes:
        data = bytearray(self._original.read(address, size))
        for start, word in self._words.items():
            for index, byte in enumerate(struct.pack("<Q", word)):
                if address <= start + index < address + size:
                    data[start + index - address] = byte
        return bytes(data)


def main() -> int:
    path, count = sys.argv[1], int(sys.argv[2]) if sys.argv[2:] else 20_000
    dice = random.Random(1)
    results: Counter[str] = Counter()
    elf = ElfFile.open(path)
    dump = core_dump(elf, read_core(elf))
    longest = 0.0
    with Locator() as locator, stacks_with_reads(dump, locator) as (opened, recorded):
        threads = [NativeThread(each.tid, each.thread_pointer, each.unwound) for each in opened.stacks]
        result = Interpreters.of_dump(dump, opened)
        recorded.reads.clear()
        result.walk(threads, record=True)
        full = result.merged(threads, recorded.read)
        words = sorted(
            {
                address
                for start, end in [*result.recorded_reads(), *recorded.reads]
                for address in range(start & -8, end, 8)
                if is_stored(opened.memory, address)
            }
        )
        print(f"{', '.join(result.titles)}: {len(full)} threads, {len(words):,} words")
        for _ in range(count):
            damage = {}
            for _ in range(dice.randrange(1, 5)):
                value = dice.choice([dice.choice(LARGE), dice.choice(words), dice.getrandbits(64), None])
                address = dice.choice(words)
                if value is None:
                    value = int.from_bytes(opened.memory.read(address, 8), "little") + dice.randrange(-64, 64)
                damage[address] = value & (1 << 64) - 1
            began = time.process_time()
            read(dump, opened, threads, damage, results)
            longest = max(longest, time.process_time() - began)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"{count:,} damaged cores, stacks: {dict(results)}; at most {longest:.2f} s each, {peak} MiB")
    return 0


def is_stored(memory, address: int) -> bool:
    try:
        return len(memory.read(address, 8)) == 8
    except Unreadable:
        return False


def read(dump, opened, threads: list[NativeThread], damage: dict[int, int], results: Counter[str]) -> None:
    memory = DamagedMemory(opened.memory, damage)
    pieces = []
    for piece in dump.memory:
        end = piece.start + len(piece.data)
        inside = {address: word for address, word in damage.items() if piece.start <= address and address + 8 <= end}
        content = piece.data
        if inside:
            changed = bytearray(content)
            for address, word in inside.items():
                changed[address - piece.start : address - piece.start + 8] = struct.pack("<Q", word)
            content = memoryview(changed)
        pieces.append(MemoryRange(piece.start, content))
    result = Interpreters.of_dump(replaced(dump, memory=pieces), opened._replace(memory=memory))
    result.walk(threads)
    merged = result.merged(threads, memory.read)
    for thread in threads:
        stack = merged.get(thread.tid)
        if stack is None:
            results["native only"] += 1
            continue
        native = [frame.native for frame in stack.merged.frames if frame.interpreted is None]
        assert native == [*range(len(thread.unwound.frames))]
        assert all((frame.frame is None) == bool(frame.why) for frame in stack.stack.frames)
        has_problem = stack.merged.problem or any(frame.why for frame in stack.stack.frames)
        results["problem" if has_problem else "whole"] += 1
    results["refused"] += not result.runtimes


if __name__ == "__main__":
    sys.exit(main())
