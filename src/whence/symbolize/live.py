"""A live process: its mappings and threads, and the stacks of these with names.

with whence.Process(1234) as process:
    for stack in process.stacks():
        print(stack.tid, stack.name, [frame.place.frames for frame in stack.frames])
"""

from __future__ import annotations

import os
import sys
from collections.abc import Collection
from typing import TYPE_CHECKING

from whence._base.closing import Closing
from whence._base.errors import Unsupported
from whence.procmap import snapshot as record
from whence.procmap.mapping import Mapping
from whence.procmap.resolver import Resolver
from whence.procmap.threads import threads
from whence.symbolize.live_stacks import LiveStacks, denied
from whence.symbolize.process import LivePid, Snapshot
from whence.symbolize.symbolizer import Symbolizer

if TYPE_CHECKING:
    from whence.procmap.threads import Thread
    from whence.symbolize.goroutines import NamedGoroutines
    from whence.symbolize.live_stacks import LiveStacks
    from whence.symbolize.stacks import Stack


def on_linux() -> bool:
    """Return True on Linux, which has /proc."""
    return sys.platform == "linux"


class Process(LivePid, Closing):
    """A live process. A context manager; it keeps what it read of the process until it is closed.

    `resolver` is one to share with others; by default the process has its own, over `proc_root`. Nothing is read before
    it is asked for.
    """

    def __init__(
        self, pid: int, *, proc_root: str | os.PathLike[str] = "/proc", resolver: Resolver | None = None
    ) -> None:
        if not on_linux() and resolver is None and os.fspath(proc_root) == "/proc":
            raise Unsupported("live processes are read from /proc, which only Linux has: use a snapshot or a core file")
        self.pid = pid
        self._resolver = resolver or Resolver(proc_root)

    def __reduce__(self) -> tuple[object, ...]:
        return _process, (self.pid, os.path.dirname(self._resolver.directory(self.pid)))

    def close(self) -> None:
        """Drop what was read of the process. It stays usable."""
        self._resolver.invalidate(self.pid)

    @property
    def directory(self) -> str:
        """The directory /proc/PID."""
        return self._resolver.directory(self.pid)

    def mappings(self) -> list[Mapping]:
        """Return the executable mappings with their build-ids, in order of address.

        Raises ProcessLookupError, PermissionError.
        """
        return list(self._resolver.require(self.pid))

    def build_id(self, mapping: Mapping) -> str:
        """The build-id of the very file that is mapped; "" when it has none or can't be reached."""
        return mapping.build_id or self._resolver.build_id_of(mapping)

    def threads(self) -> list[Thread]:
        """Where each thread is, without stopping it. Raises ProcessLookupError."""
        return list(threads(self.directory))

    def stacks(
        self, symbolizer: Symbolizer | None = None, *, tids: Collection[int] | None = None, scan: bool = False
    ) -> list[Stack]:
        """The stack of every thread, or of those of `tids`, by tid, with names.

        The threads are stopped together for as long as copying their registers and stacks takes, a few milliseconds
        (`Stack.held`), and unwound afterwards; with `scan` callers that no table gives are guessed. Files that the
        symbolizer's Locator finds help (default: a symbolizer of its own). A thread that could not be stopped has what
        is known without, and `Stack.missing` says why. Raises
        ProcessLookupError.
        """
        if symbolizer is None:
            with Symbolizer(resolver=self._resolver) as own:
                return self.stacks(own, tids=tids, scan=scan)
        try:
            with self.live_stacks(symbolizer, scan=scan) as live:
                return live.take(tids)
        except PermissionError:
            return denied(self.directory, tids)

    def goroutines(self, symbolizer: Symbolizer | None = None, *, system: bool = False) -> NamedGoroutines:
        """All goroutines of a Go program (1.17 to 1.27), also those that no thread runs, in the order of their making.

        Threads are stopped as by `stacks`; goroutines that none of them runs are read right after that. With `system`
        the runtime's own functions are among the calls of each. Raises OSError.
        """
        if symbolizer is None:
            with Symbolizer(resolver=self._resolver) as own:
                return self.goroutines(own, system=system)
        with self.live_stacks(symbolizer) as live:
            return live.goroutines(system=system)

    def explain_stack(self, tid: int, symbolizer: Symbolizer, *, scan: bool = False) -> tuple[Stack, list[str]] | None:
        """A thread's stack as `stacks` has it, and by which rule the caller of each frame was found; None for no such
        thread. Raises ProcessLookupError, PermissionError."""
        with self.live_stacks(symbolizer, scan=scan) as live:
            return live.explain(tid)

    def live_stacks(self, symbolizer: Symbolizer, *, scan: bool = False) -> LiveStacks:
        """Its stacks as often as they are asked for: what is learnt of its files is kept in between.

        Raises ProcessLookupError, PermissionError.
        """
        return LiveStacks(self.pid, self._resolver, symbolizer, scan=scan)

    def snapshot(self) -> Snapshot:
        """What has to be kept to name the process's addresses later, or elsewhere.

        Raises ProcessLookupError, PermissionError.
        """
        return Snapshot.of(record.SnapshotMappings.take(self.pid, self._resolver))


def _process(pid: int, proc_root: str) -> Process:
    return Process(pid, proc_root=proc_root)
