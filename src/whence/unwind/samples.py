"""Unwind many samples at once, each with registers and a copy of the stack's bytes.

    samples = StackSamples(pc, values, numbers, stack_start, stack_at, stack_size, stack)
    result = stacks(code, X86_64, samples)
    result.frames(0), result.why(0)

The kernel (kernels/walk.py) walks plain frames; the Python unwinder takes over at others.
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

FRAMES_LIMIT = 4096  # per sample


class StackSamples(NamedTuple):
    """Samples as columns.

    `values` has a row per sample: the registers with the DWARF numbers `numbers`. A sample's memory is
    `stack[stack_at:][:stack_size]`, at address `stack_start`. Columns are arrays of "Q", `numbers` of "I".
    """

    pc: Numbers  # Q
    values: Numbers  # Q
    numbers: Numbers  # I
    stack_start: Numbers  # Q
    stack_at: Numbers  # Q
    stack_size: Numbers  # Q
    stack: bytes | memoryview


class SampleStacks(Record):
    """The frames of all samples in one column `pc`, innermost first; `end` is where each sample's frames end.

    `how` is the kernel's WALK_* result; `details` has the reasons of stacks that the Python unwinder ended.
    """

    end: array[int]
    how: bytearray
    pc: Column = field(default_factory=lambda: Column("Q"))
    details: dict[int, tuple[End, str]] = field(default_factory=dict)

    def frames(self, sample: int) -> list[int]:
        """Return the pcs of a sample's frames: the innermost is exact, the others are return addresses."""
        first = self.end[sample - 1] if sample else 0
        return list(self.pc.numbers()[first : self.end[sample]])

    def ends(self) -> Counter[End]:
        """Count the stacks by the reason why they end."""
        counts = Counter(end for end, _ in self.details.values())
        for how, end in _ENDS.items():
            counts[end] += self.how.count(how)
        return +counts

    def why(self, sample: int) -> tuple[End, str]:
        """Return why a sample's stack ends, and the detail."""
        return self.details.get(sample) or (_ENDS[self.how[sample]], "")


_ENDS = {WALK_COMPLETE: End.COMPLETE, WALK_UNREADABLE: End.UNREADABLE, WALK_FULL: End.LIMIT}


class _SampleMemory:
    """The memory of a sample's process: its stack, and its code."""

    def __init__(self, code: CoreCode) -> None:
        self.code = code
        self.start = 0
        self.stack: memoryview | bytes = b""

    def read(self, address: int, size: int) -> bytes:
        offset = address - self.start
        if offset >= 0 and offset + size <= len(self.stack):
            return bytes(self.stack[offset : offset + size])
        return self.code.read(address, size)

    def region(self, address: int) -> tuple[int, int] | None:
        end = self.start + len(self.stack)
        return (self.start, end) if self.start <= address < end else None


class SampleUnwinder:
    """Unwinds samples of one process. What it learns about code serves later batches."""

    def __init__(self, code: CoreCode, machine: Machine, order: ByteOrder = "little") -> None:
        self.machine = machine
        self._walker = PlainWalker(machine, order, code)
        self._memory = _SampleMemory(code)
        self._unwinder = Unwinder(machine, code, self._memory, order, walker=self._walker)

    def stacks(self, samples: StackSamples) -> SampleStacks:
        """Return the stack of every sample. A damaged sample or file ends its stack with a reason.

        Raises:
            ValueError: columns have inconsistent lengths.
        """
        result = SampleStacks(array("Q", bytes(8 * len(samples.pc))), bytearray(len(samples.pc)))
        walker, memory = self._walker, self._memory
        self._unwinder.allow(sum(samples.stack_size))
        stack = memoryview(samples.stack)
        first, count = 0, len(samples.pc)
        while (first := walker.kernel.walk_samples(samples, result, first, FRAMES_LIMIT)) < count:
            if result.how[first] == WALK_MODULE:
                walker.learn_mapping()
                continue
            memory.start, offset = samples.stack_start[first], samples.stack_at[first]
            memory.stack = stack[offset : offset + samples.stack_size[first]]
            walker.set_stack(memory.start, memory.stack)
            width = len(samples.numbers)
            values = dict(zip(samples.numbers, samples.values[first * width : (first + 1) * width], strict=True))
            unwound = self._unwinder.unwind(samples.pc[first], values)
            result.pc.extend(array("Q", [frame.pc for frame in unwound.frames]))
            result.end[first] = len(result.pc)
            result.details[first] = unwound.end, unwound.detail
            first += 1
        return result


def stacks(code: CoreCode, machine: Machine, samples: StackSamples, order: ByteOrder = "little") -> SampleStacks:
    """Return the stack of every sample of one process.

    Args:
        code: the executable memory of the process.
        machine: one of registers.MACHINES.
        samples: columns of registers and stacks.
        order: byte order of the process.

    Raises:
        ValueError: columns have inconsistent lengths.
    """
    return SampleUnwinder(code, machine, order).stacks(samples)
