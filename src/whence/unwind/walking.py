"""Walks of plain frames by the kernel, with the mappings and tables that it requests on the way.

A `PlainWalker` describes the code and memory of a process to the kernel. The unwinder passes it a frame and takes over
where the walk stops: at a frame that is not plain.
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
    """The (pc, sp) of walked frames, and the frame where the walk stopped; `is_complete`: the stack ends there."""

    frames: list[tuple[int, int]]
    is_complete: bool
    pc: int
    cfa_before: int
    registers: dict[int, int]


class PlainWalker:
    """Walks threads of one process. `memory` is its segments, (start, bytes) in order of address."""

    def __init__(
        self,
        machine: Machine,
        order: ByteOrder,
        code: CoreCode,
        memory: Iterable[tuple[int, memoryview | bytes]] = (),
    ) -> None:
        self.kernel = Walker(machine, order)
        self._code = code
        covered = 0
        for start, end in code.ranges():  # they overlap in damaged cores: the first one wins
            covered, start = max(covered, end), max(covered, start)
            self.kernel.add_mapping(start, covered)
        for start, data in memory:
            self.kernel.add_segment(start, data)

    def walk(
        self, pc: int, is_exact: bool, after_signal: bool, cfa_before: int, registers: dict[int, int], most: int
    ) -> Walked | None:
        """Walk at most `most` frames from a frame; None if that frame is not plain."""
        kernel = self.kernel
        if not kernel.begin(pc, is_exact, after_signal, cfa_before, registers):
            return None
        frames: list[tuple[int, int]] = []
        while True:
            how, more = kernel.resume(most - len(frames))
            frames += more
            if how != WALK_MODULE:
                break
            self.learn_mapping()
        if not frames:
            return None
        return Walked(frames, how == WALK_COMPLETE, *kernel.frame())  # reached by a return

    def set_stack(self, start: int, data: memoryview | bytes) -> None:
        """Set the stack of the thread that is walked next, for memory outside the segments."""
        self.kernel.set_stack(start, data)

    def learn_mapping(self) -> None:
        """Load the tables of the mapping that the kernel requested."""
        mapping = self.kernel.mapping
        self.kernel.set_module(mapping, *self._code.tables(mapping))
