"""A profile of a live process: the stacks of its threads, sampled at regular intervals.

    profile = profiles.sample(1234, every=0.01, seconds=10)
    profile.write("wall.pb.gz")

Each sample of a thread counts 1, and the time between samples as wall-clock time; if the thread was running (state R of
proc_pid_stat(5)), as processor time too. Sleeping threads are sampled like running threads.
"""

from __future__ import annotations

import os
import time
from array import array
from contextlib import ExitStack, suppress
from threading import Event
from typing import TYPE_CHECKING

from whence._base.errors import WhenceError
from whence._base.model import Frame
from whence._base.source import Source
from whence.procmap.process import descendants
from whence.profiles.profile import Profile
from whence.samples.model import NO_MAPPING, Label, Mapping, SampleType, Timeline
from whence.symbolize.live import Process
from whence.symbolize.live_stacks import LiveStacks
from whence.symbolize.symbolizer import Symbolizer
from whence.unwind.unwinder import INNER_KEPT

if TYPE_CHECKING:
    from whence import procmap
    from whence.interpreters.model import InterpretedFrame
    from whence.interpreters.process import InterpretedThread
    from whence.unwind import Unwound
    from whence.unwind.live import LiveStack

NANOSECONDS = 10**9  # of a second
WALL = SampleType("wall", "nanoseconds")
TYPES = (SampleType("samples", "count"), WALL, SampleType("cpu", "nanoseconds"))
UNREADABLE = Frame("[unreadable Python frame]", source=Source.PYTHON)
CHILDREN_INTERVAL = 0.2  # seconds between searches for child processes
CHILDREN_LIMIT = 1000
LEFT_OUT = Frame("[frames left out]")  # of a stack with more frames than are kept
ENDED = "ZXx"  # states of threads that have ended
MIN_INTERVAL = 0.0001  # seconds between samples: stopping threads needs that long


def sample(
    process: int | Process,
    *,
    every: float = 0.01,
    seconds: float | None = None,
    symbolizer: Symbolizer | None = None,
    stop: Event | None = None,
    interpreters: bool = True,
    gil: bool = False,
    idle: bool = True,
    children: bool = False,
) -> Profile:
    """Sample the stacks of all threads of a process.

    If taking a sample needs more time than `every`, there are fewer samples, and each counts for more; the first is
    always taken. Python frames are in their places; `Profile.notes` says how many stacks lack them.

    Args:
        process: a pid or a Process.
        every: seconds between samples, at least 0.0001.
        seconds: duration; None until the process ends.
        symbolizer: names the frames at the end (default: a new one).
        stop: ends sampling when it is set, by another thread or a signal handler.
        interpreters: also read the frames of CPython.
        gil: only sample threads that hold a global interpreter lock.
        idle: also sample threads that are not running.
        children: also sample the child processes, and theirs.

    Raises:
        ProcessLookupError: the process does not exist.
        PermissionError: the process may not be read.
        WhenceError: no thread could be stopped.
        ValueError: a time is too short.
    """
    if not every >= MIN_INTERVAL:
        raise ValueError(f"every={every} is too short: at least {MIN_INTERVAL} seconds are needed")
    if seconds is not None and not seconds > 0:
        raise ValueError(f"seconds={seconds} is not positive")
    if symbolizer is None:
        with Symbolizer() as own:
            return sample(
                process, every=every, seconds=seconds, symbolizer=own, stop=stop, interpreters=interpreters, gil=gil,
                idle=idle, children=children,
            )  # fmt: skip
    target = process if isinstance(process, Process) else Process(process)
    with ExitStack() as opened:
        live = opened.enter_context(target.live_stacks(symbolizer, interpreters=interpreters or gil))
        sampler = Sampler(live, target.pid, symbolizer, gil=gil, idle=idle)
        if children:
            sampler.children = Children(target, symbolizer, opened, interpreters=interpreters or gil)
        sampler.run(every, seconds, stop or Event())
        return sampler.profile()


class SampledProcess:
    """A process that is sampled: its stacks, and the locations of its addresses in the profile."""

    def __init__(self, live: LiveStacks, pid: int) -> None:
        self.live, self.pid = live, pid
        self.locations: dict[int, int] = {}  # by lookup address
        self.mappings: dict[tuple[int, str], int] = {}
        self.has_ended = False


class Children:
    """Opens the descendants of a process as they appear."""

    def __init__(self, target: Process, symbolizer: Symbolizer, opened: ExitStack, *, interpreters: bool) -> None:
        self._target, self._symbolizer, self._opened = target, symbolizer, opened
        self._interpreters = interpreters
        self._seen = {target.pid}
        self._next = 0.0

    def new(self, now: float) -> list[SampledProcess]:
        """Return the descendants that appeared since the last search; searches at most every CHILDREN_INTERVAL."""
        if now < self._next:
            return []
        self._next = now + CHILDREN_INTERVAL
        samples = []
        root = os.path.dirname(self._target.directory)
        for pid in descendants(root, self._target.pid):
            if pid not in self._seen and len(self._seen) < CHILDREN_LIMIT:
                self._seen.add(pid)
                with suppress(OSError, WhenceError):  # it has ended, or may not be read
                    process = Process(pid, proc_root=root)
                    live = process.live_stacks(self._symbolizer, interpreters=self._interpreters)
                    samples.append(SampledProcess(self._opened.enter_context(live), pid))
        return samples


class Sampler:
    """Takes samples, then makes a profile of them."""

    def __init__(
        self, live: LiveStacks, pid: int, symbolizer: Symbolizer, *, gil: bool = False, idle: bool = True
    ) -> None:
        self._pid, self._symbolizer = pid, symbolizer
        self._gil, self._idle = gil, idle
        self._processes = [SampledProcess(live, pid)]
        self.children: Children | None = None
        self._profile = Profile(list(TYPES), default_type=1)
        self._interpreted: dict[tuple[str, str, int], int] = {}  # locations of Python frames
        self.stacks, self.unmatched = 0, 0  # with Python frames; incomplete ones among them
        self._problem = ""
        self._left_out = -1
        self._index: dict[tuple[tuple[int, ...], tuple[Label, ...]], int] = {}
        self._events: list[tuple[int, int, bool]] = []  # sample, time, whether the thread was running
        self.rounds = 0

    def run(self, every: float, seconds: float | None, stop: Event) -> None:
        """Take samples. Raises OSError if the first sample fails."""
        start = time.monotonic()
        self._profile.time_ns = time.time_ns()
        tick = 0
        while seconds is None or tick * every < seconds:
            if stop.wait(max(0.0, start + tick * every - time.monotonic())):
                break
            now = time.monotonic()
            if seconds is not None and now - start >= seconds and self.rounds:
                break
            first = self._processes[0]
            try:
                stacks = first.live.copies()
            except (ProcessLookupError, FileNotFoundError):
                if not self.rounds:
                    raise
                break
            if all(stack.state in ENDED for stack in stacks):  # a zombie
                break
            missing = stacks[0].why
            if missing is not None and not any(stack.registers for stack in stacks) and not self.rounds:
                problem = f"no thread of process {self._pid} could be stopped: {missing.detail}"
                raise WhenceError(problem).with_hint(missing.remedy)
            self._add(first, stacks, int(now * NANOSECONDS))
            if self.children is not None:
                self._processes += self.children.new(now)
                for process in self._processes[1:]:
                    self._sample_child(process, int(now * NANOSECONDS))
            self.rounds += 1
            tick = max(tick + 1, int((time.monotonic() - start) / every))
        self._profile.duration_ns = int((time.monotonic() - start) * NANOSECONDS)
        self._profile.period, self._profile.period_type = int(every * NANOSECONDS), WALL

    def profile(self) -> Profile:
        """Return the profile; equal stacks of a thread in one state are one sample."""
        profile, events = self._profile, self._events
        wall = profile.duration_ns // max(1, self.rounds)
        values = [[(1, wall, wall * running)[kind] for _, _, running in events] for kind in range(len(TYPES))]
        totals = [[0] * len(TYPES) for _ in self._index]
        for kind, column in enumerate(values):
            for (index, _, _), value in zip(events, column, strict=True):
                totals[index][kind] += value
        for (stack, labels), index in self._index.items():
            profile.samples.add(list(stack), totals[index], labels)
        profile.samples.timeline = Timeline(
            array("I", [index for index, _, _ in events]),
            array("q", [when for _, when, _ in events]),
            [array("q", column) for column in values],
        )
        self._name()
        return profile

    def _sample_child(self, process: SampledProcess, when: int) -> None:
        if not process.has_ended:
            try:
                stacks = process.live.copies()
                process.has_ended = all(stack.state in ENDED for stack in stacks)
                self._add(process, stacks, when)
            except OSError:
                process.has_ended = True

    def _add(self, process: SampledProcess, stacks: list[LiveStack], when: int) -> None:
        interpreted = process.live.interpreted
        for stack in stacks:
            thread = interpreted.get(stack.tid)
            if not stack.unwound.frames or not (self._idle or stack.state == "R"):
                continue
            if self._gil and not (thread is not None and thread.stack.has_lock):
                continue
            numbers = Label("pid", number=process.pid), Label("tid", number=stack.tid)
            labels = (Label("comm", stack.name), *numbers, Label("state", stack.state))
            key = self._stack(process, stack.unwound, thread), labels
            index = self._index.setdefault(key, len(self._index))
            self._events.append((index, when, stack.state == "R"))

    def _stack(self, process: SampledProcess, unwound: Unwound, thread: InterpretedThread | None) -> tuple[int, ...]:
        """Return the locations of a stack, innermost first, with one for all frames that were skipped."""
        if thread is None:
            locations = [self._location(process, frame.lookup) for frame in unwound.frames]
        else:
            self.stacks += 1
            if thread.merged.problem:
                self.unmatched += 1
                self._problem = self._problem or thread.merged.problem
            native = unwound.frames
            locations = [
                self._location(process, native[number].lookup) if interpreted is None else self._named(interpreted)
                for number, interpreted, is_evaluation in thread.merged.frames
                if not is_evaluation
            ]
        if unwound.skipped or (thread is not None and thread.stack.skipped):
            if self._left_out < 0:
                self._left_out = self._profile.location(NO_MAPPING, 0, (LEFT_OUT,))
            locations.insert(INNER_KEPT, self._left_out)
        return tuple(locations)

    def _location(self, process: SampledProcess, address: int) -> int:
        if address not in process.locations:
            process.locations[address] = self._profile.location(NO_MAPPING, address)
        return process.locations[address]

    def _named(self, interpreted: InterpretedFrame) -> int:
        """Return the location of a Python frame; columns are left out, to have one location for a line."""
        frame = interpreted.frame
        key = (UNREADABLE.function, "", 0) if frame is None else (frame.function, frame.file, frame.line)
        location = self._interpreted.get(key)
        if location is None:
            frames = (UNREADABLE if frame is None else frame._replace(column=0),)
            location = self._interpreted[key] = self._profile.location(NO_MAPPING, 0, frames)
        return location

    def _name(self) -> None:
        """Set the mapping of each location, and its frames or the reason why it has none."""
        profile = self._profile
        for process in self._processes:
            view = process.live.process_view()
            for answer in self._symbolizer.symbolize(view, list(process.locations)):
                location = process.locations[answer.address]
                if answer.mapping is not None:
                    profile.mapping[location] = self._mapping(process, answer.mapping)
                profile.frames[location] = answer.frames
                if answer.reason is not None:
                    profile.reasons[location] = answer.reason.word
        if self.unmatched:
            profile.notes.append(
                f"{self.unmatched:,} of {self.stacks:,} stacks with Python frames lack some: {self._problem}"
            )

    def _mapping(self, process: SampledProcess, mapping: procmap.Mapping) -> int:
        key = mapping.start, mapping.path
        if key not in process.mappings:
            process.mappings[key] = len(self._profile.mappings)
            path = mapping.path or f"[{mapping.kind.value}]"
            self._profile.mappings.append(Mapping(mapping.start, mapping.limit, mapping.offset, path, mapping.build_id))
        return process.mappings[key]
