"""Walks of plain frames in a kernel, and what the Python unwinder is asked for on the way.

A `PlainWalker` knows the code and the memory of a process as the kernel wants them. The unwinder hands it a frame and
goes on where it stops: at a frame that is not plain.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from whence.unwind.kernels.walk import WALK_COMPLETE, WALK_MODULE, Walker

if TYPE_CHECKING:
    from collections.abc import Iterable

    from whence._base.window import ByteOrder
    from whence.unwind.modules import CoreCode
    from whence.unwind.registers import Machine


class Walked(NamedTuple):
    """Frames that a walk left behind, as (pc, sp), and the one that it is at. `is_complete`: there is no other."""

    frames: list[tuple[int, int]]
    is_complete: bool
    pc: int
    cfa_before: int
    registers: dict[int, int]


class PlainWalker:
    """Walks the threads of one process. `memory` is its segments, (start, bytes) in order of address."""

    def __init__(
        self,
        machine: Machine,
        order: ByteOrder,
        code: CoreCode,
        memory: Iterable[tuple[int, memoryview | bytes]] = (),
    ) -> None:
        self.kernel = Walker(machine, order)
        self._code = code
        behind = 0
        for start, end in code.ranges():  # in damaged cores they overlap: the first has the address then
            behind, start = max(behind, end), max(behind, start)
            self.kernel.add_mapping(start, behind)
        for start, data in memory:
            self.kernel.add_segment(start, data)

    def walk(
        self, pc: int, is_exact: bool, after_signal: bool, cfa_before: int, registers: dict[int, int], most: int
    ) -> Walked | None:
        """From a frame on, at most `most` frames; None where the first one is not plain."""
        kernel = self.kernel
        if not kernel.begin(pc, is_exact, after_signal, cfa_before, registers):
            return None
        frames: list[tuple[int, int]] = []
        while True:
            how, more = kernel.walk_on(most - len(frames))
            frames += more
            if how != WALK_MODULE:
                break
            self.learn_mapping()
        if not frames:
            return None
        return Walked(frames, how == WALK_COMPLETE, *kernel.frame())  # which is reached by a return

    def set_stack(self, start: int, data: memoryview | bytes) -> None:
        """The bytes of the stack whose thread is walked next, from an address on, where there are no segments."""
        self.kernel.set_stack(start, data)

    def learn_mapping(self) -> None:
        """Tell the kernel of the mapping that it met."""
        mapping = self.kernel.mapping
        self.kernel.set_module(mapping, *self._code.tables(mapping))
