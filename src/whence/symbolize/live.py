"""A live process: its mappings, its threads, and their stacks with names.

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
from whence.symbolize.process import LiveMemory, LivePid, Snapshot
from whence.symbolize.symbolizer import Symbolizer

if TYPE_CHECKING:
    from whence._base.window import ByteOrder
    from whence.procmap.threads import Thread
    from whence.symbolize.goroutines import NamedGoroutines
    from whence.symbolize.stacks import Stack
    from whence.symbolize.tasks import Tasks
    from whence.types.decoding import Limits


def on_linux() -> bool:
    """Return True on Linux, which has /proc."""
    return sys.platform == "linux"


class Process(LivePid, Closing):
    """A live process. A context manager; mappings are cached until it is closed. Nothing is read before first use.

    Args:
        pid: its ID in the namespace of `proc_root`.
        proc_root: the folder of processes.
        resolver: a resolver to share with other processes, in place of one over `proc_root`.

    Attributes:
        interpreter_problems: why interpreters could not be read, after `stacks`.
        interpreter_titles: names and versions of interpreters, after `stacks`.

    Raises Unsupported on systems without /proc.
    """

    def __init__(
        self, pid: int, *, proc_root: str | os.PathLike[str] = "/proc", resolver: Resolver | None = None
    ) -> None:
        if not on_linux() and resolver is None and os.fspath(proc_root) == "/proc":
            raise Unsupported("live processes are read from /proc, which only Linux has: use a snapshot or a core file")
        self.pid = pid
        self._resolver = resolver or Resolver(proc_root)
        self.interpreter_problems: tuple[str, ...] = ()
        self.interpreter_titles: tuple[str, ...] = ()

    def __reduce__(self) -> tuple[object, ...]:
        return _process, (self.pid, os.path.dirname(self._resolver.directory(self.pid)))

    def close(self) -> None:
        """Drop the cached mappings. The process stays usable."""
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
        """Return the build-id of the mapped file itself; "" if it has none or can't be read."""
        return mapping.build_id or self._resolver.build_id_of(mapping)

    def threads(self) -> list[Thread]:
        """Return the state of each thread without stopping it. Raises ProcessLookupError."""
        return list(threads(self.directory))

    def stacks(
        self,
        symbolizer: Symbolizer | None = None,
        *,
        tids: Collection[int] | None = None,
        scan: bool = False,
        variables: bool = False,
        limits: Limits | None = None,
        interpreters: bool = True,
    ) -> list[Stack]:
        """Return the stack of every thread, in order of tid, with names.

        The threads are stopped together while their registers and stacks are copied, a few milliseconds (`Stack.held`),
        and unwound afterwards. `Stack.missing` says why a thread could not be stopped.

        Args:
            symbolizer: names the frames; its Locator finds files. By default a new one.
            tids: only these threads.
            scan: guess callers that no unwind table gives.
            variables: read the arguments and local variables of each frame (`NamedFrame.variables`). What they point
                to outside the stacks is read after the threads were released.
            limits: how much of each variable is read.
            interpreters: put the frames of CPython in their places.

        Raises ProcessLookupError.
        """
        if symbolizer is None:
            with Symbolizer(resolver=self._resolver) as own:
                return self.stacks(
                    own, tids=tids, scan=scan, variables=variables, limits=limits, interpreters=interpreters
                )
        try:
            with self.live_stacks(symbolizer, scan=scan, interpreters=interpreters) as live:
                stacks = live.take_with_variables(tids, limits) if variables else live.take(tids)
                self.interpreter_problems = tuple(live.interpreters.problems)
                self.interpreter_titles = tuple(live.interpreters.titles)
                return stacks
        except PermissionError:
            return denied(self.directory, tids)

    def tasks(self, symbolizer: Symbolizer | None = None, *, tids: Collection[int] | None = None) -> Tasks:
        """Return the tasks of asyncio, with the coroutines that each one awaits.

        They are read while the threads (or only `tids`) are stopped, about 0.1 ms for each task. `problems` of the
        result says what could not be read. The symbolizer's Locator finds files. Raises OSError.
        """
        if symbolizer is None:
            with Symbolizer(resolver=self._resolver) as own:
                return self.tasks(own, tids=tids)
        with self.live_stacks(symbolizer) as live:
            return live.tasks(tids)

    def goroutines(self, symbolizer: Symbolizer | None = None, *, system: bool = False) -> NamedGoroutines:
        """Return all goroutines of a Go program (1.17 to 1.27), in the order of their creation.

        Threads are stopped as by `stacks`; goroutines that are not running are read immediately afterwards. With
        `system`, stacks include the runtime's own functions. Raises OSError.
        """
        if symbolizer is None:
            with Symbolizer(resolver=self._resolver) as own:
                return self.goroutines(own, system=system)
        with self.live_stacks(symbolizer) as live:
            return live.goroutines(system=system)

    def explain_stack(self, tid: int, symbolizer: Symbolizer, *, scan: bool = False) -> tuple[Stack, list[str]] | None:
        """Return a thread's stack and the rule that found each frame's caller; None for an unknown tid.

        Raises ProcessLookupError, PermissionError.
        """
        with self.live_stacks(symbolizer, scan=scan) as live:
            return live.explain(tid)

    def live_stacks(self, symbolizer: Symbolizer, *, scan: bool = False, interpreters: bool = True) -> LiveStacks:
        """Return an object that takes stacks repeatedly and caches what it read of the files.

        Raises ProcessLookupError, PermissionError.
        """
        return LiveStacks(self.pid, self._resolver, symbolizer, scan=scan, interpreters=interpreters)

    @property
    def title(self) -> str:
        """Its description, for people."""
        return self._memory.title

    def machine(self) -> tuple[int, int, ByteOrder]:
        """Return the number of its machine in ELF, its bits and its byte order. Raises OSError, ElfError."""
        return self._memory.machine()

    def read(self, address: int, size: int) -> bytes:
        """Return all `size` bytes of memory at an address.

        Raises OSError, which needs the right to trace the process, and MapsError if some bytes are not mapped.
        """
        return self._memory.read(address, size)

    @property
    def _memory(self) -> LiveMemory:
        return LiveMemory(self.pid, self.directory)

    def snapshot(self) -> Snapshot:
        """Return a snapshot, with which the process's addresses can be named later or on another machine.

        Raises ProcessLookupError, PermissionError.
        """
        return Snapshot.of(record.SnapshotMappings.take(self.pid, self._resolver))


def _process(pid: int, proc_root: str) -> Process:
    return Process(pid, proc_root=proc_root)
