"""Part of a trace as a trace: by generation, time, goroutine and kind of event, so that Go's parser takes what is left.

Not every event can be left out of a valid trace. What runs where (processors, goroutines, system calls) is the skeleton
that the rest hangs on, and stays; a range (a stop of the world, a collection, a sweep, an assist) stays or goes with
its whole family, for its end must find its beginning. So:

    by generation   whole generations, which must follow each other
    by time         generations that begin and end outside go; in those that stay, so do measurements, user tasks and
                    logs, labels and CPU samples outside
    by goroutine    the same, and user regions, of other goroutines
    by event        kinds and families that are not named go, if they are not of the skeleton

A table of events (`whence trace events`) has no such bounds: there a filter leaves out everything else.
"""

from __future__ import annotations

from array import array
from math import isnan
from typing import TYPE_CHECKING

from whence._base.errors import TraceError, WhenceError
from whence._base.records import Record, field
from whence.gotrace.batches import BatchReader, Run
from whence.gotrace.faults import wire_fault
from whence.gotrace.kernels import filter as filter_kernel
from whence.gotrace.kernels.constants import (
    BY_GOROUTINE,
    BY_TIME,
    CPU_SAMPLES,
    DROP,
    END_OF_GENERATION,
    EXPERIMENTAL_BATCH,
    FINE,
    IF_HERE,
    KINDS,
    LEAVES,
    STAYS,
)
from whence.gotrace.kernels.event import Event
from whence.gotrace.specs import Version, layout
from whence.gotrace.tables import Tables, events_of

if TYPE_CHECKING:
    from whence.gotrace.batches import Batch
    from whence.gotrace.convert import Sink
    from whence.gotrace.feed import Source

FREE = ("HeapAlloc", "HeapGoal", "GoLabel", "UserTaskBegin", "UserTaskEnd", "UserLog")
FAMILIES = (
    ("UserRegionBegin", "UserRegionEnd"),
    ("STWBegin", "STWEnd"),
    ("GCActive", "GCBegin", "GCEnd"),
    ("GCSweepActive", "GCSweepBegin", "GCSweepEnd"),
    ("GCMarkAssistActive", "GCMarkAssistBegin", "GCMarkAssistEnd"),
)
# Which goroutine an event leaves running on its thread: its argument after dt, none, or a GoStatus's if it is here.
STARTS = {"GoStart": 0, "GoSwitch": 0, "GoSwitchDestroy": 0, "GoCreateSyscall": 0}
STOPS = ("GoStop", "GoBlock", "GoDestroy", "GoDestroySyscall", "GoSyscallEndBlocked")

END_OF_TIME = (1 << 64) - 1


def moves(version: Version) -> bytes:
    """For each type, what it does to the goroutine that runs on its thread."""
    table = bytearray([STAYS]) * KINDS
    for name, spec in version.specs.by_name.items():
        if name in STARTS:
            table[spec.type] = STARTS[name]
        elif name in STOPS:
            table[spec.type] = LEAVES
        elif name in ("GoStatus", "GoStatusStack"):
            table[spec.type] = IF_HERE
    return bytes(table)


class Filter(Record, frozen=True):
    """What is wanted. Empty sets and None want everything. Times are in seconds from the trace's first batch.

    ValueError for a time that is no number.
    """

    generations: frozenset[int]
    since: float | None
    until: float | None
    goroutines: frozenset[int]
    events: frozenset[str]

    def __init__(
        self,
        generations: frozenset[int] = frozenset(),
        since: float | None = None,
        until: float | None = None,
        goroutines: frozenset[int] = frozenset(),
        events: frozenset[str] = frozenset(),
    ) -> None:
        if any(time is not None and isnan(time) for time in (since, until)):
            raise ValueError("a time is a number of seconds")
        super().__init__(generations, since, until, goroutines, events)

    def check(self, version: Version) -> None:
        """TraceError for a name that no event of the version has."""
        for name in sorted(self.events):
            if name not in version.specs.by_name:
                raise TraceError("filter", None, f"an event's name is one of {version.label}", name)

    def rules(self, version: Version) -> bytes:
        """For each type, whether it stays."""
        table = bytearray(KINDS)
        timely = BY_TIME if self.since is not None or self.until is not None else 0
        mine = BY_GOROUTINE if self.goroutines else 0
        for name, spec in version.specs.by_name.items():
            family = next((names for names in FAMILIES if name in names), None)
            free = name in FREE or spec.experimental
            if self.events and (free or family) and not self.events & set(family or (name,)):
                table[spec.type] = DROP
            elif free:
                table[spec.type] = timely | mine
            elif name.startswith("UserRegion"):
                table[spec.type] = mine
        return bytes(table)


class Span(Record):
    """A generation as a first look at a trace finds it."""

    number: int
    start: int
    end: int
    frequency: int = 0


def spans(source: Source) -> list[Span]:
    """The generations of a trace: first and last batch time, and clock."""
    found: list[Span] = []
    with BatchReader(source) as reader:
        tables: Tables | None = None
        for run in reader:
            if tables is None or tables.generation != run.generation:
                tables = Tables(reader.version, run.generation)
                found.append(Span(run.generation, END_OF_TIME, 0))
            for batch in run.batches:
                if batch.kind not in (END_OF_GENERATION, EXPERIMENTAL_BATCH):
                    found[-1].start = min(found[-1].start, batch.time)
                    found[-1].end = max(found[-1].end, batch.time)
                tables.add(run, batch)
            found[-1].frequency = tables.frequency
    return found


class FilterResult(Record):
    """What was kept and dropped."""

    generations: int = 0
    kept: int = 0
    dropped: int = 0


class _Filter(Record):
    version: Version
    wanted: Filter
    generations: frozenset[int]
    since: int
    until: int
    out: Sink
    count: FilterResult = field(default_factory=FilterResult)
    running: dict[int, int] = field(default_factory=dict)  # thread -> goroutine

    def run(self, run: Run) -> None:
        if run.generation not in self.generations:
            return
        goroutines = array("Q", sorted(self.wanted.goroutines))
        kernel = filter_kernel.EventFilter(
            layout(self.version),
            self.wanted.rules(self.version),
            moves(self.version),
            goroutines,
            self.since,
            self.until,
        )
        for batch in run.batches:
            if batch.kind == CPU_SAMPLES:
                self.samples(run, batch)
            elif not batch.timed:
                self.out.write(run.data[batch.start : batch.end])
            else:
                room = bytearray(batch.end - batch.body + 16)
                running = self.running.get(batch.thread, 0)
                size, kept, dropped, self.running[batch.thread], fault, position = kernel.copy(
                    run.data, batch.body, batch.end, batch.time, batch.thread, running, room
                )
                if fault != FINE:
                    raise wire_fault(fault, run.offset + position, self.version)
                self.count.kept += kept
                self.count.dropped += dropped
                if kept:
                    header = [batch.generation, batch.thread, batch.time, size]
                    self.out.write(memoryview(Event(self.version, "EventBatch", header).encode()))
                    self.out.write(memoryview(room)[:size])

    def samples(self, run: Run, batch: Batch) -> None:
        wanted, kept = self.wanted, []
        for event in events_of(run, batch, self.version):
            if event.type == CPU_SAMPLES + 1:
                mine = not wanted.goroutines or event["g"] in wanted.goroutines
                timely = self.since <= event["time"] < self.until
                named = not wanted.events or event.name in wanted.events
                if not (mine and timely and named):
                    self.count.dropped += 1
                    continue
                self.count.kept += 1
            kept.append(event.encode())
        if len(kept) > 1:
            body = b"".join(kept)
            header = [batch.generation, batch.thread, batch.time, len(body)]
            self.out.write(memoryview(Event(self.version, "EventBatch", header).encode() + body))


def clock_at(seconds: float, zero: int, frequency: int) -> int:
    """The clock, within its 64 bits, at a time after `zero`.

    >>> clock_at(0.5, 100, 1000), clock_at(float("inf"), 100, 1000) == END_OF_TIME, clock_at(-1, 100, 1000)
    (600, True, 0)
    """
    most = float(END_OF_TIME)
    return min(max(zero + int(min(max(seconds * frequency, -most), most)), 0), END_OF_TIME)


def filter(source: Source, out: Sink, wanted: Filter) -> FilterResult:
    """Write the part of a wire trace that a filter wants. The source is a path or bytes: it is read twice."""
    found = spans(source)
    if not found:
        raise TraceError("wire", None, "a trace has batches", "none")
    frequency = next((span.frequency for span in found if span.frequency), 10**9)
    zero = min(span.start for span in found)
    since = 0 if wanted.since is None else clock_at(wanted.since, zero, frequency)
    until = END_OF_TIME if wanted.until is None else clock_at(wanted.until, zero, frequency)
    stays = [
        span.number
        for span, end in zip(found, [span.start for span in found[1:]] + [END_OF_TIME])
        if (not wanted.generations or span.number in wanted.generations) and span.start < until and end > since
    ]
    numbers = [span.number for span in found]
    if not stays:
        raise WhenceError(f"nothing is left: of generations {numbers[0]} to {numbers[-1]} none is wanted")
    if numbers.index(stays[-1]) - numbers.index(stays[0]) + 1 != len(stays):
        raise WhenceError(f"generations that stay follow each other (found {', '.join(map(str, stays))})")
    with BatchReader(source) as reader:
        wanted.check(reader.version)
        out.write(memoryview(reader.version.header))
        part = _Filter(reader.version, wanted, frozenset(stays), since, until, out, FilterResult(len(stays)))
        for run in reader:
            part.run(run)
    return part.count


def parse_numbers(text: str) -> frozenset[int]:
    """Numbers and ranges as a command line has them.

    >>> sorted(parse_numbers("1,3-5"))
    [1, 3, 4, 5]
    """
    found: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        low, high = int(first), int(last if dash else first)
        if not 0 <= low <= high < min(low + 10**6, 1 << 64):
            raise ValueError(f"not numbers or ranges of them: {text!r}")
        found.update(range(low, high + 1))
    return frozenset(found)
