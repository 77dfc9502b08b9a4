"""Count what is in a trace: events, time spans, clocks, sizes; in one pass, on all cores."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import TYPE_CHECKING

from whence._base.records import Record, field
from whence.gotrace.batches import Run
from whence.gotrace.columnar import NO_ARGUMENT, ColumnReader, Columns, argument_indexes
from whence.gotrace.kernels import columns as columns_kernel
from whence.gotrace.kernels.constants import END_OF_GENERATION, EXPERIMENTAL_BATCH
from whence.gotrace.specs import NO_THREAD, Version, spec_table
from whence.gotrace.tables import Tables

if TYPE_CHECKING:
    from whence.gotrace.feed import Source

NAMES_A_GOROUTINE = ("GoCreate", "GoCreateSyscall", "GoCreateBlocked", "GoStatus", "GoStatusStack")


class GenerationInfo(Record):
    """A generation. Times are in clock units, `frequency` per second; `wall` is in seconds since 1970."""

    number: int
    batches: int = 0
    size: int = 0
    events: int = 0
    start: int = 0
    end: int = 0
    frequency: int = 0
    wall: float | None = None
    strings: int = 0
    string_bytes: int = 0
    stacks: int = 0
    frames: int = 0
    samples: int = 0
    threads: set[int] = field(default_factory=set)
    goroutines: set[int] = field(default_factory=set)

    def __repr__(self) -> str:
        size = f"{self.events:,} events of {len(self.threads):,} threads and {len(self.goroutines):,} goroutines"
        return f"<gotrace.GenerationInfo {self.number}: {size}, {self.seconds:.3f} s>"

    @property
    def seconds(self) -> float:
        """Duration of the generation; 0 if the frequency of its clock is unknown."""
        return (self.end - self.start) / self.frequency if self.frequency else 0.0


class TraceInfo(Record):
    """A whole trace. `events` counts each kind, structural events included."""

    version: Version
    size: int = 0
    generations: list[GenerationInfo] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)

    def __repr__(self) -> str:
        size = f"{self.events.total():,} events in {len(self.generations):,} generations"
        return f"<gotrace.TraceInfo of Go 1.{int(self.version)}: {size}, {self.seconds:.3f} s>"

    @property
    def threads(self) -> set[int]:
        return set().union(*(g.threads for g in self.generations))

    @property
    def goroutines(self) -> set[int]:
        return set().union(*(g.goroutines for g in self.generations))

    @property
    def seconds(self) -> float:
        """Time from the first event to the last, by each generation's clock."""
        if not self.generations or not self.generations[0].frequency:
            return 0.0
        first, last = self.generations[0], self.generations[-1]
        return (max(last.end, first.end) - first.start) / first.frequency


class _Survey:
    """Counts runs and blocks, in file order."""

    def __init__(self, version: Version) -> None:
        self.info = TraceInfo(version)
        self._by_number: dict[int, GenerationInfo] = {}  # the first of each number
        self._tables: Tables | None = None  # of the last generation
        self.counts = array("Q", bytes(8 * 256))
        named = {version.specs[name].type for name in NAMES_A_GOROUTINE if name in version.specs}
        self._goroutines = bytes(
            index if kind in named else NO_ARGUMENT
            for kind, index in enumerate(argument_indexes(version, "new_g", "g"))
        )

    def generation(self, number: int) -> GenerationInfo:
        generations = self.info.generations
        if not generations or generations[-1].number != number:
            generations.append(GenerationInfo(number))
            self._by_number.setdefault(number, generations[-1])
        return generations[-1]

    def summarize_tables(self) -> None:
        """Record sizes of the tables of the last generation, once they are complete."""
        tables, generation = self._tables, self.info.generations[-1] if self.info.generations else None
        if tables is None or generation is None:
            return
        generation.frequency = tables.frequency
        if tables.clock is not None:
            generation.wall = tables.clock.seconds + tables.clock.nanoseconds / 1e9
        generation.strings, generation.stacks, generation.samples = (
            len(tables.strings),
            len(tables.stacks),
            len(tables.samples),
        )
        generation.string_bytes = sum(map(len, tables.strings.values()))
        generation.frames = sum(map(len, tables.stacks.values()))

    def run(self, run: Run, tables: Tables) -> None:
        if tables is not self._tables:
            self.summarize_tables()
            self._tables = tables
        generation, events = self.generation(run.generation), self.info.events
        for batch in run.batches:
            generation.size += batch.end - batch.start
            if batch.kind == END_OF_GENERATION:
                events["EndOfGeneration"] += 1
                continue
            generation.batches += 1
            if batch.kind == EXPERIMENTAL_BATCH:
                events["ExperimentalBatch"] += 1
                continue
            events["EventBatch"] += 1
            if batch.timed and batch.thread != NO_THREAD:
                generation.threads.add(batch.thread)
            generation.start = min(generation.start or batch.time, batch.time)
            generation.end = max(generation.end, batch.time)

    def block(self, block: Columns) -> None:
        generation = self._by_number[block.tables[0].generation]
        columns_kernel.tally(block.type, self.counts)
        generation.events += len(block)
        out = array("Q", bytes(8 * len(block)))
        rows = columns_kernel.pick(block.type, block.args, self._goroutines, out, True)
        generation.goroutines |= set(out[:rows])
        for row in [*block.batch_row[1:], len(block)]:
            if row:
                generation.end = max(generation.end, block.time[row - 1])


def info(source: Source, *, threads: int | None = None) -> TraceInfo:
    """Return counts, time spans and sizes of a binary trace.

    Args:
        source: a path, a binary file or pipe, or bytes.
        threads: number of decoding threads; default: the number of cores.

    Raises:
        TraceError: the trace is malformed.
    """
    with ColumnReader(source, threads=threads) as reader:
        survey = _Survey(reader.version)
        reader.watch = survey.run
        for block in reader:
            survey.block(block)
        survey.summarize_tables()
        trace = survey.info
        for spec in spec_table(reader.version):
            if survey.counts[spec.type]:
                trace.events[spec.name] += survey.counts[spec.type]
        trace.events.update(reader.structural)
        trace.size = reader.size
    return trace
