"""Stacks of a live process's threads with names: once, or many times."""

from __future__ import annotations

import os
import time
from collections.abc import Collection
from typing import TYPE_CHECKING

from whence.procmap.process import visible_tid
from whence.procmap.snapshot import SnapshotMappings
from whence.symbolize.goroutines import name_goroutines
from whence.symbolize.process import Snapshot
from whence.symbolize.stacks import NamedFrame, Stack, named
from whence.unwind.live import LiveProcess, unseen_stacks
from whence.unwind.steps import End

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from whence.procmap.resolver import Resolver
    from whence.symbolize.goroutines import NamedGoroutines
    from whence.symbolize.process import ProcessView
    from whence.symbolize.symbolizer import Symbolizer
    from whence.unwind.live import LiveStack


NEW_CODE = (End.NOT_CODE, End.NO_CFI)  # how stacks end in code that was mapped after the mappings were read
REFRESH = 1.0  # seconds for which mappings are not read again


class LiveStacks:
    """The stacks of a process as often as they are asked for. A context manager: it holds files open."""

    def __init__(self, pid: int, resolver: Resolver, symbolizer: Symbolizer, *, scan: bool = False) -> None:
        self._symbolizer, self._resolver = symbolizer, resolver
        self.shown = visible_tid(os.path.dirname(resolver.directory(pid)), pid)  # the pid to ask for names
        self._taken = time.monotonic()
        self._snapshot = SnapshotMappings.take(self.shown, resolver)
        directory = resolver.directory(self.shown)
        self._live = LiveProcess(pid, directory, self._snapshot, symbolizer.locator, scan=scan)

    def __repr__(self) -> str:
        return f"<LiveStacks of process {self.shown}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.close()

    def copies(self, tids: Collection[int] | None = None) -> list[LiveStack]:
        """The stacks without names. Raises OSError when the process is gone."""
        found = self._live.stacks(tids)
        if any(one.unwound.end in NEW_CODE for one in found) and time.monotonic() - self._taken > REFRESH:
            self._resolver.invalidate(self.shown)  # it may have mapped something since then
            self._taken = time.monotonic()
            self._snapshot = SnapshotMappings.take(self.shown, self._resolver)
            self._live.update(self._snapshot)
        return found

    def whose(self) -> int | ProcessView:
        """What a symbolizer is to be asked about: the process, or what it had mapped, if it is gone."""
        self._resolver.invalidate(self.shown)  # what it had mapped a moment ago does not say whether it is there
        try:
            if self._resolver.require(self.shown):
                return self.shown
        except OSError:
            pass
        return Snapshot.of(self._snapshot)

    def take(self, tids: Collection[int] | None = None) -> list[Stack]:
        """The stacks with names. Raises OSError when the process is gone."""
        return self.name(self.copies(tids))

    def goroutines(self, *, system: bool = False) -> NamedGoroutines:
        """The goroutines of a Go program with names. Raises OSError when the process is gone."""
        found = self._live.goroutines()
        return name_goroutines(self.whose(), found, self._symbolizer, system=system)

    def explain(self, tid: int) -> tuple[Stack, list[str]] | None:
        """One thread, and by which rule the caller of each frame was found; None for no such thread. Raises OSError."""
        found = self._live.explain(tid)
        if found is None:
            return None
        (stack,) = self.name([found[0]])
        return stack, found[1]

    def name(self, found: list[LiveStack]) -> list[Stack]:
        """The same stacks with names."""
        frames = named(self.whose(), [one.unwound for one in found], self._symbolizer)
        return [_stack(one, places) for one, places in zip(found, frames, strict=True)]


def denied(directory: str, tids: Collection[int] | None) -> list[Stack]:
    """The threads of a process that may not be looked into. Raises OSError when it is gone."""
    return [_stack(one, ()) for one in unseen_stacks(directory, tids)]


def _stack(one: LiveStack, frames: tuple[NamedFrame, ...]) -> Stack:
    end, detail, skipped = one.unwound.end, one.unwound.detail, one.unwound.skipped
    return Stack(
        one.tid, None, one.registers, frames, end, detail, skipped, one.name, one.state, one.stopped_seconds, one.why
    )  # fmt: skip
