"""The stacks of many samples of one process at once: registers, and a copy of the stack's bytes with each.

    found = stacks(code, X86_64, samples)
    for index in range(len(samples.pc)):
        print([hex(pc) for pc in found.frames(index)], found.why(index))

What is plain (most of it) is walked by a kernel; the unwinder takes the samples that are not, each with the very steps
that it takes for a thread of a core.
"""

from __future__ import annotations

from array import array
from collections import Counter
from typing import TYPE_CHECKING, NamedTuple

from whence._base.records import Record, field
from whence.kernels.columns import Column
from whence.unwind.kernels.walk import WALK_COMPLETE, WALK_FULL, WALK_MODULE, WALK_UNREADABLE
from whence.unwind.steps import End
from whence.unwind.unwinder import Unwinder
from whence.unwind.walking import PlainWalker

if TYPE_CHECKING:
    Numbers = array[int] | memoryview[int]
    from whence._base.window import ByteOrder
    from whence.unwind.modules import CoreCode
    from whence.unwind.registers import Machine

FRAMES_LIMIT = 4096  # of a sample: its copy of the stack has some KiB


class StackSamples(NamedTuple):
    """Columns of samples. `values` has a row for each: the registers whose DWARF numbers are in `numbers`.

    What is known of a sample's memory is `stack[stack_at:][:stack_size]`, from the address `stack_start` on.
    """

    pc: Numbers  # Q
    values: Numbers  # Q
    numbers: Numbers  # I
    stack_start: Numbers  # Q
    stack_at: Numbers  # Q
    stack_size: Numbers  # Q
    stack: bytes | memoryview


class SampleStacks(Record):
    """Frames of all samples in one column, innermost first; those of each end where `end` says."""

    end: array[int]
    how: bytearray
    pc: Column = field(default_factory=lambda: Column("Q"))
    details: dict[int, tuple[End, str]] = field(default_factory=dict)

    def frames(self, sample: int) -> list[int]:
        """The pcs of a sample's frames: the innermost is exact, others are return addresses."""
        first = self.end[sample - 1] if sample else 0
        return list(self.pc.numbers()[first : self.end[sample]])

    def ends(self) -> Counter[End]:
        """How many stacks end for each reason."""
        out = Counter(end for end, _ in self.details.values())
        for how, end in _ENDS.items():
            out[end] += self.how.count(how)
        return +out

    def why(self, sample: int) -> tuple[End, str]:
        """Why a sample's stack ends, and what exactly ended it."""
        return self.details.get(sample) or (_ENDS[self.how[sample]], "")


_ENDS = {WALK_COMPLETE: End.COMPLETE, WALK_UNREADABLE: End.UNREADABLE, WALK_FULL: End.LIMIT}


class _Memory:
    """What is known of the memory of a sample's process."""

    def __init__(self, code: CoreCode) -> None:
        self.code = code
        self.start = 0
        self.stack: memoryview | bytes = b""

    def read(self, address: int, size: int) -> bytes:
        at = address - self.start
        if at >= 0 and at + size <= len(self.stack):
            return bytes(self.stack[at : at + size])
        return self.code.read(address, size)

    def region(self, address: int) -> tuple[int, int] | None:
        end = self.start + len(self.stack)
        return (self.start, end) if self.start <= address < end else None


class SampleUnwinder:
    """Unwinds samples of one process. What it learnt of code stays from batch to batch."""

    def __init__(self, code: CoreCode, machine: Machine, order: ByteOrder = "little") -> None:
        self.machine = machine
        self._walker = PlainWalker(machine, order, code)
        self._memory = _Memory(code)
        self._unwinder = Unwinder(machine, code, self._memory, order, walker=self._walker)

    def stacks(self, samples: StackSamples) -> SampleStacks:
        """The stack of every sample. Never raises for what a sample or a file is; ValueError for columns that do not
        belong together."""
        found = SampleStacks(array("Q", bytes(8 * len(samples.pc))), bytearray(len(samples.pc)))
        walker, memory = self._walker, self._memory
        self._unwinder.allow(sum(samples.stack_size))
        stack = memoryview(samples.stack)
        first, count = 0, len(samples.pc)
        while (first := walker.kernel.walk_samples(samples, found, first, FRAMES_LIMIT)) < count:
            if found.how[first] == WALK_MODULE:
                walker.learn_mapping()
                continue
            memory.start, at = samples.stack_start[first], samples.stack_at[first]
            memory.stack = stack[at : at + samples.stack_size[first]]
            walker.set_stack(memory.start, memory.stack)
            width = len(samples.numbers)
            values = dict(zip(samples.numbers, samples.values[first * width : (first + 1) * width], strict=True))
            unwound = self._unwinder.unwind(samples.pc[first], values)
            found.pc.extend(array("Q", [frame.pc for frame in unwound.frames]))
            found.end[first] = len(found.pc)
            found.details[first] = unwound.end, unwound.detail
            first += 1
        return found


def stacks(code: CoreCode, machine: Machine, samples: StackSamples, order: ByteOrder = "little") -> SampleStacks:
    """The stack of every sample, as SampleUnwinder.stacks."""
    return SampleUnwinder(code, machine, order).stacks(samples)
