"""Stacks of a live process's threads with names: once, or many times."""

from __future__ import annotations

from collections.abc import Collection
from typing import TYPE_CHECKING

from whence.procmap.snapshot import SnapshotMappings
from whence.symbolize.stacks import NamedFrame, Stack, named
from whence.unwind.live import LiveProcess, unseen_stacks
from whence.unwind.stopping import tids_of

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from whence.procmap.resolver import Resolver
    from whence.symbolize.symbolizer import Symbolizer
    from whence.unwind.live import LiveStack


class LiveStacks:
    """The stacks of a process as often as they are asked for. A context manager: it holds files open."""

    def __init__(self, pid: int, resolver: Resolver, symbolizer: Symbolizer) -> None:
        self._symbolizer = symbolizer
        self._shown = _shown(pid, resolver)
        snapshot = SnapshotMappings.take(self._shown, resolver)
        self._live = LiveProcess(pid, resolver.directory(self._shown), snapshot, symbolizer.finds)

    def __repr__(self) -> str:
        return f"<LiveStacks of process {self._shown}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.close()

    def copies(self, tids: Collection[int] | None = None) -> list[LiveStack]:
        """The stacks without names. Raises OSError when the process is gone."""
        return self._live.stacks(tids)

    def take(self, tids: Collection[int] | None = None) -> list[Stack]:
        """The stacks with names. Raises OSError when the process is gone."""
        return self.name(self.copies(tids))

    def name(self, found: list[LiveStack]) -> list[Stack]:
        """The same stacks with names."""
        frames = named(self._shown, [one.unwound for one in found], self._symbolizer)
        return [_stack(one, places) for one, places in zip(found, frames, strict=True)]


def _shown(pid: int, resolver: Resolver) -> int:
    """The thread that shows the process's memory: the first one may have ended, while others live on."""
    for tid in [pid, *tids_of(resolver.directory(pid))]:
        try:
            with open(f"{resolver.directory(tid)}/maps", "rb") as file:
                if file.read(1):
                    return tid
        except OSError:
            continue
    return pid


def denied(directory: str, tids: Collection[int] | None) -> list[Stack]:
    """The threads of a process that may not be looked into. Raises OSError when it is gone."""
    return [_stack(one, ()) for one in unseen_stacks(directory, tids)]


def _stack(one: LiveStack, frames: tuple[NamedFrame, ...]) -> Stack:
    end, detail, skipped = one.unwound.end, one.unwound.detail, one.unwound.skipped
    return Stack(
        one.tid, None, one.registers, frames, end, detail, skipped, one.name, one.state, one.held, one.why
    )  # fmt: skip
