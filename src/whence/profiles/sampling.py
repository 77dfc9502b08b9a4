"""A profile of a live process: the stacks of its threads, sampled at regular intervals.

    profile = profiles.sample(1234, every=0.01, seconds=10)
    profile.write("wall.pb.gz")

Each sample of a thread counts 1, and the time between samples as wall-clock time; if the thread was running (state R of
proc_pid_stat(5)), as processor time too. Sleeping threads are sampled like running threads.
"""

from __future__ import annotations

import time
from array import array
from threading import Event
from typing import TYPE_CHECKING

from whence._base.errors import WhenceError
from whence._base.model import Frame
from whence.profiles.profile import Profile
from whence.samples.model import NO_MAPPING, Label, Mapping, SampleType, Timeline
from whence.symbolize.live import Process
from whence.symbolize.live_stacks import LiveStacks
from whence.symbolize.symbolizer import Symbolizer
from whence.unwind.unwinder import INNER_KEPT

if TYPE_CHECKING:
    from whence import procmap
    from whence.unwind import Unwound
    from whence.unwind.live import LiveStack

NANOSECONDS = 10**9  # of a second
WALL = SampleType("wall", "nanoseconds")
TYPES = (SampleType("samples", "count"), WALL, SampleType("cpu", "nanoseconds"))
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
) -> Profile:
    """Sample the stacks of all threads of a process.

    If taking a sample needs more time than `every`, there are fewer samples, and each counts for more; the first is
    always taken.

    Args:
        process: a pid or a Process.
        every: seconds between samples, at least 0.0001.
        seconds: duration; None until the process ends.
        symbolizer: names the frames at the end (default: a new one).
        stop: ends sampling when it is set, by another thread or a signal handler.

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
            return sample(process, every=every, seconds=seconds, symbolizer=own, stop=stop)
    target = process if isinstance(process, Process) else Process(process)
    with target.live_stacks(symbolizer) as live:
        sampler = Sampler(live, target.pid, symbolizer)
        sampler.run(every, seconds, stop or Event())
        return sampler.profile()


class Sampler:
    """Takes samples, then makes a profile of them."""

    def __init__(self, live: LiveStacks, pid: int, symbolizer: Symbolizer) -> None:
        self._live, self._pid, self._symbolizer = live, pid, symbolizer
        self._profile = Profile(list(TYPES), default_type=1)
        self._mappings: dict[tuple[int, str], int] = {}
        self._locations: dict[int, int] = {}  # by lookup address
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
            try:
                stacks = self._live.copies()
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
            self._add(stacks, int(now * NANOSECONDS))
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

    def _add(self, stacks: list[LiveStack], when: int) -> None:
        for stack in stacks:
            if not stack.unwound.frames:
                continue
            numbers = Label("pid", number=self._pid), Label("tid", number=stack.tid)
            key = self._stack(stack.unwound), (Label("comm", stack.name), *numbers, Label("state", stack.state))
            index = self._index.setdefault(key, len(self._index))
            self._events.append((index, when, stack.state == "R"))

    def _stack(self, unwound: Unwound) -> tuple[int, ...]:
        """Return the locations of a stack, innermost first, with one for all frames that were skipped."""
        locations = [self._location(frame.lookup) for frame in unwound.frames]
        if unwound.skipped:
            if self._left_out < 0:
                self._left_out = self._profile.location(NO_MAPPING, 0, (LEFT_OUT,))
            locations.insert(INNER_KEPT, self._left_out)
        return tuple(locations)

    def _location(self, address: int) -> int:
        if address not in self._locations:
            self._locations[address] = self._profile.location(NO_MAPPING, address)
        return self._locations[address]

    def _name(self) -> None:
        """Set the mapping of each location, and its frames or the reason why it has none."""
        profile = self._profile
        for answer in self._symbolizer.symbolize(self._live.process_view(), list(self._locations)):
            location = self._locations[answer.address]
            if answer.mapping is not None:
                profile.mapping[location] = self._mapping(answer.mapping)
            profile.frames[location] = answer.frames
            if answer.reason is not None:
                profile.reasons[location] = answer.reason.word

    def _mapping(self, mapping: procmap.Mapping) -> int:
        key = mapping.start, mapping.path
        if key not in self._mappings:
            self._mappings[key] = len(self._profile.mappings)
            path = mapping.path or f"[{mapping.kind.value}]"
            self._profile.mappings.append(Mapping(mapping.start, mapping.limit, mapping.offset, path, mapping.build_id))
        return self._mappings[key]
