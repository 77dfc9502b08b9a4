"""Stacks of a live process's threads with names, taken once or repeatedly."""

from __future__ import annotations

import os
import time
from collections.abc import Collection, Iterator
from typing import TYPE_CHECKING

from whence._base.records import replaced
from whence.interpreters.model import ThreadKey
from whence.interpreters.process import Interpreters, NativeThread
from whence.procmap import maps
from whence.procmap.kernels.constants import READ, WRITE
from whence.procmap.process import visible_tid
from whence.procmap.snapshot import SnapshotMappings
from whence.symbolize.goroutines import name_goroutines
from whence.symbolize.process import Snapshot
from whence.symbolize.stacks import FrameVariables, NamedFrame, Stack, named, with_interpreter
from whence.symbolize.tasks import Tasks, named_tasks
from whence.unwind.kernels.stopped import CallingReader
from whence.unwind.live import STATUS_REGISTERS, LiveProcess, unseen_stacks
from whence.unwind.memory import PagedMemory
from whence.unwind.steps import End

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

    from whence.interpreters.process import InterpretedThread
    from whence.procmap.resolver import Resolver
    from whence.symbolize.goroutines import NamedGoroutines
    from whence.symbolize.process import ProcessView
    from whence.symbolize.symbolizer import Symbolizer
    from whence.types.decoding import Limits
    from whence.unwind.live import LiveStack


NEW_CODE = (End.NOT_CODE, End.NO_CFI)  # ends of stacks in code that was mapped after the mappings were read
PAUSES = (0.0, 0.001, 0.004, 0.016)  # seconds before a stack is taken again: a thread may wait for a processor
REFRESH = 1.0  # seconds before mappings are read again


class LiveStacks:
    """Takes the stacks of a process repeatedly. A context manager, which closes the files at the end."""

    def __init__(
        self, pid: int, resolver: Resolver, symbolizer: Symbolizer, *, scan: bool = False, interpreters: bool = True
    ) -> None:
        """Open a process.

        Args:
            scan: guess callers that no unwind table gives.
            interpreters: also read the frames of interpreters (CPython).
        """
        self._symbolizer, self._resolver = symbolizer, resolver
        self.shown = visible_tid(os.path.dirname(resolver.directory(pid)), pid)  # the pid by which names are looked up
        self._taken = time.monotonic()
        self._snapshot = SnapshotMappings.take(self.shown, resolver)
        directory = resolver.directory(self.shown)
        self._directory = directory
        self._live = LiveProcess(pid, directory, self._snapshot, symbolizer.locator, scan=scan)
        self._reads_interpreters = interpreters
        self._interpreters: Interpreters | None = None
        self.interpreted: dict[int, InterpretedThread] = {}  # by tid, of the last copies
        self._names: dict[int, str] = {}  # of threads of the last copies whose states were replaced
        self._unmatched: set[int] = set()  # threads that did not match when taken again

    def __repr__(self) -> str:
        return f"<LiveStacks of process {self.shown}>"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._live.close()

    def copies(self, tids: Collection[int] | None = None) -> list[LiveStack]:
        """Return the stacks without names. Raises OSError if the process has ended."""
        self.interpreters.begin()
        self._names = {}
        stacks = self._live.stacks(tids, self.interpreters.reader)
        self.interpreted = self._merged(stacks)
        stacks = self._again(stacks)
        if any(stack.unwound.end in NEW_CODE for stack in stacks) and time.monotonic() - self._taken > REFRESH:
            self._resolver.invalidate(self.shown)  # it may have mapped something since then
            self._taken = time.monotonic()
            self._snapshot = SnapshotMappings.take(self.shown, self._resolver)
            self._live.update(self._snapshot)
            self._names |= self._thread_names(stacks)
            self._interpreters = None
        return stacks

    @property
    def interpreters(self) -> Interpreters:
        """The interpreters of the process."""
        if self._interpreters is None:
            self._interpreters = Interpreters([], [])
            machine = self._live.machine if self._reads_interpreters else None
            if machine is not None and machine.bits == 64:
                offset = machine.thread_pointer_offset
                self._interpreters = Interpreters.find(
                    self._live.modules,
                    self._live.memory.read_now,
                    writable_ranges(self._directory),
                    machine.order,
                    -1 if offset is None else offset - STATUS_REGISTERS[machine.bits],
                )
        return self._interpreters

    def _merged(self, stacks: list[LiveStack]) -> dict[int, InterpretedThread]:
        """Read the frames of interpreters that belong to these stacks."""
        threads = [NativeThread(stack.tid, stack.thread_pointer, stack.unwound) for stack in stacks]
        return self.interpreters.merged(threads, self._live.memory.read_now, is_live=True)

    def _again(self, stacks: list[LiveStack]) -> list[LiveStack]:
        """Take the stacks again of threads that do not match, or have frames without names.

        An interpreter sets up a frame in several instructions, and frees code objects that are read after the threads
        were released. Threads that never match are not tried again.
        """
        tids = {tid for tid, thread in self.interpreted.items() if not thread.is_complete}
        self._unmatched &= tids
        tids -= self._unmatched
        for pause in PAUSES if tids else ():
            time.sleep(pause)
            self._names |= self._thread_names(stacks)
            self.interpreters.begin()
            again = {stack.tid: stack for stack in self._live.stacks(tids, self.interpreters.reader)}
            interpreted = self._merged(list(again.values()))
            stacks = [again.get(stack.tid, stack) for stack in stacks]
            others = {tid: thread for tid, thread in self.interpreted.items() if tid not in again}
            self.interpreted = others | interpreted
            tids = {tid for tid, thread in interpreted.items() if not thread.is_complete}
            if not tids:
                break
        self._unmatched |= tids
        return stacks

    def process_view(self) -> int | ProcessView:
        """Return the process for a symbolizer: its pid, or its last mappings if it has ended."""
        self._resolver.invalidate(self.shown)  # cached mappings do not tell that it has ended
        try:
            if self._resolver.require(self.shown):
                return self.shown
        except OSError:
            pass
        return Snapshot.of(self._snapshot)

    def take(self, tids: Collection[int] | None = None) -> list[Stack]:
        """Return the stacks with names. Raises OSError if the process has ended."""
        return self.name(self.copies(tids))

    def take_with_variables(self, tids: Collection[int] | None = None, limits: Limits | None = None) -> list[Stack]:
        """Return the stacks with names, and the variables of each frame. Raises OSError if the process has ended.

        Variables on the stacks are those of the moment at which the threads were stopped; what they point to is read
        afterwards.
        """
        from whence.symbolize.values import OpenedValues

        self.interpreters.begin()
        self._names = {}
        recorded = self._live.recorded(tids, self.interpreters.reader)
        self.interpreted = self._merged([stack for stack, _ in recorded])
        variables: list[FrameVariables] = []
        opened: dict[int, OpenedValues] = {}
        try:
            for stack, thread in recorded:
                if thread is None:
                    variables.append([])
                    continue
                if id(thread.code) not in opened:
                    opened[id(thread.code)] = OpenedValues(
                        thread.machine, "little", thread.code, self._live.memory, self._symbolizer.locator,
                        limits=limits,
                    )  # fmt: skip
                variables.append(opened[id(thread.code)].values.of(stack.unwound, thread.states))
        finally:
            for each in opened.values():
                each.close()
        return self.name([stack for stack, _ in recorded], variables)

    def tasks(self, tids: Collection[int] | None = None) -> Tasks:
        """Return the tasks of asyncio, read while the threads (or `tids`) are stopped.

        Raises OSError if the process has ended.
        """
        memory = PagedMemory(self._live.memory.read_now)
        located = self.interpreters.tasks(memory.read)

        def read() -> None:
            memory.clear()
            located.read()

        last = CallingReader(read)
        self.interpreters.begin()
        stacks = self._live.stacks(tids, self.interpreters.reader_before(last))
        if last.error is not None:
            raise last.error
        threads = [ThreadKey(stack.tid, stack.thread_pointer) for stack in stacks]
        read_now = self._live.memory.read_now
        return named_tasks(self.interpreters, located, threads, read_now, tids=tids, is_live=True)

    def goroutines(self, *, system: bool = False) -> NamedGoroutines:
        """Return the goroutines of a Go program with names. Raises OSError if the process has ended."""
        return name_goroutines(self.process_view(), self._live.goroutines(), self._symbolizer, system=system)

    def explain(self, tid: int) -> tuple[Stack, list[str]] | None:
        """Return a thread's stack and the rule that found each frame's caller; None for an unknown tid.

        Raises OSError if the process has ended.
        """
        explained = self._live.explain(tid)
        if explained is None:
            return None
        (stack,) = self.name([explained[0]])
        return stack, explained[1]

    def _thread_names(self, stacks: list[LiveStack]) -> dict[int, str]:
        """Return the names that the program gave to the threads that were walked last."""
        keys = [ThreadKey(stack.tid, stack.thread_pointer) for stack in stacks]
        return self.interpreters.thread_names(keys, PagedMemory(self._live.memory.read_now).read)

    def name(self, stacks: list[LiveStack], variables: list[FrameVariables] | None = None) -> list[Stack]:
        """Return stacks with names."""
        frames = named(self.process_view(), [stack.unwound for stack in stacks], self._symbolizer, variables)
        names = self._names | self._thread_names(stacks)
        return [
            replaced(
                with_interpreter(_stack(stack, of_stack), stack.unwound, self.interpreted.get(stack.tid)),
                python_name=names.get(stack.tid, ""),
            )
            for stack, of_stack in zip(stacks, frames, strict=True)
        ]


def writable_ranges(directory: str) -> Iterator[tuple[int, int]]:
    """Yield [start, end) of writable memory that is mapped from files. Raises OSError if the process has ended."""
    for mapping in maps.parse(maps.read(directory), directory, READ).mappings:
        if mapping.permissions & WRITE and mapping.kind.has_file:
            yield mapping.start, mapping.limit


def denied(directory: str, tids: Collection[int] | None) -> list[Stack]:
    """Return the threads, without frames, of a process that may not be read. Raises OSError if it has ended."""
    return [_stack(stack, ()) for stack in unseen_stacks(directory, tids)]


def _stack(stack: LiveStack, frames: tuple[NamedFrame, ...]) -> Stack:
    unwound = stack.unwound
    return Stack(
        stack.tid, None, stack.registers, frames, unwound.end, unwound.detail, unwound.skipped, stack.name, stack.state,
        stack.stopped_seconds, stack.why,
    )  # fmt: skip
