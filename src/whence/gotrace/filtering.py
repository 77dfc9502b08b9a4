"""Write a part of a trace, by generation, time, goroutine and kind of event, as a trace that Go's parser accepts.

Not every event can be removed from a valid trace. Events that say what runs where (processors, goroutines, system
calls) are always kept. Events of a range (a stop of the world, a collection, a sweep, an assist) are kept or removed
together with their whole family, because a range's end needs its start. So:

    by generation   keeps complete generations, which must be consecutive
    by time         removes generations that are completely outside; in the others, removes measurements, user tasks
                    and logs, labels and CPU samples that are outside
    by goroutine    removes the same kinds, and user regions, of other goroutines
    by event        removes kinds and families that are not selected and not always kept

A table of events (`whence trace events`) has no such limits: there a filter removes every other event.
"""

from __future__ import annotations

from array import array
from math import isnan
from typing import TYPE_CHECKING, BinaryIO

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
    from whence.gotrace.batches import TraceBatch
    from whence.gotrace.feed import Source

FREE = ("HeapAlloc", "HeapGoal", "GoLabel", "UserTaskBegin", "UserTaskEnd", "UserLog")
FAMILIES = (
    ("UserRegionBegin", "UserRegionEnd"),
    ("STWBegin", "STWEnd"),
    ("GCActive", "GCBegin", "GCEnd"),
    ("GCSweepActive", "GCSweepBegin", "GCSweepEnd"),
    ("GCMarkAssistActive", "GCMarkAssistBegin", "GCMarkAssistEnd"),
)
# The index (after dt) of the argument with the goroutine that runs on the thread after an event
STARTS = {"GoStart": 0, "GoSwitch": 0, "GoSwitchDestroy": 0, "GoCreateSyscall": 0}
STOPS = ("GoStop", "GoBlock", "GoDestroy", "GoDestroySyscall", "GoSyscallEndBlocked")

END_OF_TIME = (1 << 64) - 1


def moves(version: Version) -> bytes:
    """Return for each event type its effect on the goroutine that runs on the event's thread."""
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
    """Selects events. Empty sets and None select everything.

    Args:
        generations: numbers of generations.
        since: start of the time range, in seconds since the first batch of the trace.
        until: end of the time range (exclusive), in seconds since the first batch.
        goroutines: numbers of goroutines.
        events: names of kinds of events.

    Raises:
        ValueError: a time is not a number.
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
            raise ValueError("a time is not a number of seconds")
        super().__init__(generations, since, until, goroutines, events)

    def check(self, version: Version) -> None:
        """Raise TraceError for a name that no event of the version has."""
        for name in sorted(self.events):
            if name not in version.specs.by_name:
                raise TraceError("", None, f"no event of {version.label} is named {name}")

    def rules(self, version: Version) -> bytes:
        """Return for each event type what happens to it: KEEP, DROP, or a combination of BY_TIME and BY_GOROUTINE."""
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
    """A generation: its number, first and last batch time, and clock frequency (0 if unknown)."""

    number: int
    start: int
    end: int
    frequency: int = 0


def spans(source: Source) -> list[Span]:
    """Return the generations of a trace with their times and clocks."""
    generations: list[Span] = []
    with BatchReader(source) as reader:
        tables: Tables | None = None
        for run in reader:
            if tables is None or tables.generation != run.generation:
                tables = Tables(reader.version, run.generation)
                generations.append(Span(run.generation, END_OF_TIME, 0))
            for batch in run.batches:
                if batch.kind not in (END_OF_GENERATION, EXPERIMENTAL_BATCH):
                    generations[-1].start = min(generations[-1].start, batch.time)
                    generations[-1].end = max(generations[-1].end, batch.time)
                tables.add(run, batch)
            generations[-1].frequency = tables.frequency
    return generations


class FilterResult(Record):
    """Counts of what was kept and dropped."""

    generations: int = 0
    kept: int = 0
    dropped: int = 0


class _Filter(Record):
    version: Version
    selection: Filter
    generations: frozenset[int]
    since: int
    until: int
    out: BinaryIO
    count: FilterResult = field(default_factory=FilterResult)
    running: dict[int, int] = field(default_factory=dict)  # thread -> goroutine

    def run(self, run: Run) -> None:
        if run.generation not in self.generations:
            return
        goroutines = array("Q", sorted(self.selection.goroutines))
        kernel = filter_kernel.EventFilter(
            layout(self.version),
            self.selection.rules(self.version),
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
                buffer = bytearray(batch.end - batch.body + 16)
                running = self.running.get(batch.thread, 0)
                size, kept, dropped, self.running[batch.thread], fault, position = kernel.copy(
                    run.data, batch.body, batch.end, batch.time, batch.thread, running, buffer
                )
                if fault != FINE:
                    raise wire_fault(fault, run.offset + position, self.version)
                self.count.kept += kept
                self.count.dropped += dropped
                if kept:
                    header = [batch.generation, batch.thread, batch.time, size]
                    self.out.write(memoryview(Event(self.version, "EventBatch", header).encode()))
                    self.out.write(memoryview(buffer)[:size])

    def samples(self, run: Run, batch: TraceBatch) -> None:
        selection, events = self.selection, []
        for event in events_of(run, batch, self.version):
            if event.type == CPU_SAMPLES + 1:
                mine = not selection.goroutines or event["g"] in selection.goroutines
                timely = self.since <= event["time"] < self.until
                named = not selection.events or event.name in selection.events
                if not (mine and timely and named):
                    self.count.dropped += 1
                    continue
                self.count.kept += 1
            events.append(event.encode())
        if len(events) > 1:
            body = b"".join(events)
            header = [batch.generation, batch.thread, batch.time, len(body)]
            self.out.write(memoryview(Event(self.version, "EventBatch", header).encode() + body))


def clock_at(seconds: float, zero: int, frequency: int) -> int:
    """Return the clock `seconds` after `zero`, limited to 64 bits.

    >>> clock_at(0.5, 100, 1000), clock_at(float("inf"), 100, 1000) == END_OF_TIME, clock_at(-1, 100, 1000)
    (600, True, 0)
    """
    limit = float(END_OF_TIME)
    return min(max(zero + int(min(max(seconds * frequency, -limit), limit)), 0), END_OF_TIME)


def filter(source: Source, out: BinaryIO, selection: Filter) -> FilterResult:
    """Write the part of a binary trace that a filter selects.

    Args:
        source: a path or bytes (the trace is read twice).
        out: a binary file.
        selection: the filter.

    Returns:
        Numbers of generations and events kept, and of events dropped.

    Raises:
        WhenceError: nothing is left, or the generations that are left are not consecutive.
    """
    all_spans = spans(source)
    if not all_spans:
        raise TraceError("", None, "the trace has no batches")
    frequency = next((span.frequency for span in all_spans if span.frequency), 10**9)
    zero = min(span.start for span in all_spans)
    since = 0 if selection.since is None else clock_at(selection.since, zero, frequency)
    until = END_OF_TIME if selection.until is None else clock_at(selection.until, zero, frequency)
    selected = [
        span.number
        for span, end in zip(all_spans, [span.start for span in all_spans[1:]] + [END_OF_TIME])
        if (not selection.generations or span.number in selection.generations) and span.start < until and end > since
    ]
    numbers = [span.number for span in all_spans]
    if not selected:
        raise WhenceError(f"nothing is left: none of the generations {numbers[0]} to {numbers[-1]} is selected")
    if numbers.index(selected[-1]) - numbers.index(selected[0]) + 1 != len(selected):
        raise WhenceError(f"the selected generations are not consecutive: {', '.join(map(str, selected))}")
    with BatchReader(source) as reader:
        selection.check(reader.version)
        out.write(memoryview(reader.version.header))
        part = _Filter(reader.version, selection, frozenset(selected), since, until, out, FilterResult(len(selected)))
        for run in reader:
            part.run(run)
    return part.count


def parse_numbers(text: str) -> frozenset[int]:
    """Parse numbers and ranges as a command line has them.

    >>> sorted(parse_numbers("1,3-5"))
    [1, 3, 4, 5]
    """
    numbers: set[int] = set()
    for part in text.split(","):
        first, dash, last = part.partition("-")
        low, high = int(first), int(last if dash else first)
        if not 0 <= low <= high < min(low + 10**6, 1 << 64):
            raise ValueError(f"not numbers or ranges of them: {text!r}")
        numbers.update(range(low, high + 1))
    return frozenset(numbers)
