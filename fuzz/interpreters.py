"""The memory of a CPython process: runtime, threads, frames and code objects, merged into a native stack."""

from __future__ import annotations

from contextlib import suppress

from tests.hostile.inputs.interpreters import NATIVE, read_damaged, seeds
from whence.unwind.memory import Unreadable

__all__ = ["seeds", "target"]


def target(data: bytes) -> None:
    with suppress(Unreadable):
        result = read_damaged(data)
        if result is not None:
            stack, merged = result
            native = [frame.native for frame in merged.frames if frame.interpreted is None]
            assert native == [*range(len(NATIVE.frames))]
            assert all((frame.frame is None) == bool(frame.why) for frame in stack.frames)
