"""Read the tables of a generation: strings, stacks, CPU samples, clocks. Ids are only valid in their generation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

from whence._base.records import Record, field
from whence.gotrace.batches import BatchReader, Run, TraceBatch
from whence.gotrace.faults import wire_fault
from whence.gotrace.kernels.constants import CPU_SAMPLES, CUT, EXPERIMENTAL_BATCH, FREQUENCY, STRINGS
from whence.gotrace.kernels.event import Event, Stream
from whence.gotrace.specs import Version, layout

if TYPE_CHECKING:
    from whence.gotrace.feed import Source


class TraceFrame(NamedTuple):
    """A frame of a stack; `function` and `file` are string ids of its generation."""

    pc: int
    function: int
    file: int
    line: int


class CpuSample(NamedTuple):
    """A CPU sample: time in clock units, thread, processor, goroutine (0 for none), stack id."""

    time: int
    thread: int
    processor: int
    goroutine: int
    stack: int


class Clock(NamedTuple):
    """Clocks read at one moment: trace time in clock units, monotonic nanoseconds, wall seconds and nanoseconds."""

    time: int
    monotonic: int
    seconds: int
    nanoseconds: int


class Tables(Record):
    """The tables of one generation; complete when the next generation starts, because the runtime writes them last."""

    version: Version
    generation: int
    strings: dict[int, bytes] = field(default_factory=dict)
    stacks: dict[int, tuple[TraceFrame, ...]] = field(default_factory=dict)
    samples: list[CpuSample] = field(default_factory=list)
    frequency: int = 0  # clock units per second, 0 when not recorded
    clock: Clock | None = None

    def __repr__(self) -> str:
        tables = f"{len(self.strings):,} strings, {len(self.stacks):,} stacks, {len(self.samples):,} CPU samples"
        return f"<gotrace.Tables of generation {self.generation}: {tables}>"

    def text(self, string: int) -> str:
        """Return a string by its id; "" for 0 and for an undefined id."""
        return self.strings.get(string, b"").decode("utf-8", "surrogateescape")

    def frames(self, stack: int) -> list[tuple[str, str, int]]:
        """Return (function, file, line) of a stack's frames, innermost first."""
        return [(self.text(f.function), self.text(f.file), f.line) for f in self.stacks.get(stack, ())]

    def add(self, run: Run, batch: TraceBatch, tally: Counter[str] | None = None) -> None:
        """Add the entries of a structural batch; other batches are ignored.

        `tally` counts the events by name.
        """
        if batch.kind == EXPERIMENTAL_BATCH or batch.timed:
            return
        for event in events_of(run, batch, self.version):
            kind, args, spec = event.type, event.args, event.spec
            if tally is not None:
                tally[spec.name] += 1
            if event.data is not None and kind == STRINGS + 1:
                self.strings[args[0]] = event.data
            elif spec.is_stack:
                self.stacks[args[0]] = tuple(TraceFrame(*frame) for frame in event.frames)
            elif kind == CPU_SAMPLES + 1:
                self.samples.append(CpuSample(*args))
            elif kind == FREQUENCY:
                self.frequency = args[0]
            elif spec.name == "ClockSnapshot":
                self.clock = Clock(batch.time + args[0], *args[1:])

    def nanoseconds(self, time: int) -> float:
        """Convert a time in clock units to nanoseconds of the monotonic clock.

        Without a snapshot of the clocks, the result counts from an unknown start.
        """
        scale = 1e9 / (self.frequency or 10**9)
        if self.clock is None:
            return time * scale
        return self.clock.monotonic + (time - self.clock.time) * scale


class _SliceFeed:
    """A feed for a stream: the bytes data[start:stop], where data[0] is at `offset` of a file."""

    def __init__(self, data: memoryview, start: int, stop: int, offset: int, version: Version) -> None:
        self.data, self.start, self.stop, self.offset, self.version = data, start, stop, offset, version

    def window(self, used: int, cut: bool) -> tuple[memoryview, int, int]:
        if cut:
            raise wire_fault(CUT, self.offset + self.stop, self.version)
        return self.data, max(used, self.start), self.stop

    def fail(self, fault: int, offset: int, kind: int) -> None:
        raise wire_fault(fault, self.offset + offset, self.version, kind)


def events_in(
    data: memoryview, start: int, stop: int, offset: int, version: Version, keep_padding: bool = False
) -> Iterator[Event]:
    """Return an iterator over the events in data[start:stop]; data[0] is at `offset` of the file, for errors."""
    return Stream(_SliceFeed(data, start, stop, offset, version), version, layout(version), keep_padding)


def events_of(run: Run, batch: TraceBatch, version: Version) -> Iterator[Event]:
    """Return an iterator over the events of a batch, without its header."""
    return events_in(run.data, batch.body, batch.end, run.offset, version)


def tables_of(source: Source) -> Iterator[Tables]:
    """Yield the complete tables of each generation, in file order, one generation in memory at a time."""
    with BatchReader(source) as reader:
        tables: Tables | None = None
        for run in reader:
            if tables is None or tables.generation != run.generation:
                if tables is not None:
                    yield tables
                tables = Tables(reader.version, run.generation)
            for batch in run.batches:
                tables.add(run, batch)
        if tables is not None:
            yield tables
