"""What is in a trace: counts, spans, clocks, sizes. One pass over it, batches counted on all cores."""

from __future__ import annotations

from array import array
from collections import Counter
from typing import TYPE_CHECKING

from whence._base.records import Record, field
from whence.gotrace.batches import Run
from whence.gotrace.columnar import ColumnReader, Columns, places
from whence.gotrace.kernels import columns as columns_kernel
from whence.gotrace.kernels.constants import END_OF_GENERATION, EXPERIMENTAL_BATCH
from whence.gotrace.specs import NO_THREAD, Version, spec_table
from whence.gotrace.tables import Tables

if TYPE_CHECKING:
    from whence.gotrace.feed import Source

NAMES_A_GOROUTINE = ("GoCreate", "GoCreateSyscall", "GoCreateBlocked", "GoStatus", "GoStatusStack")


class GenerationInfo(Record):
    """One generation. Times are in clock units, `frequency` of them a second; `wall` in seconds since 1970."""

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

    @property
    def seconds(self) -> float:
        """How long the generation is; 0 when its clock's frequency is unknown."""
        return (self.end - self.start) / self.frequency if self.frequency else 0.0


class TraceInfo(Record):
    """A whole trace. `events` counts each kind, structural ones included."""

    version: Version
    size: int = 0
    generations: list[GenerationInfo] = field(default_factory=list)
    events: Counter[str] = field(default_factory=Counter)

    @property
    def threads(self) -> set[int]:
        return set().union(*(g.threads for g in self.generations))

    @property
    def goroutines(self) -> set[int]:
        return set().union(*(g.goroutines for g in self.generations))

    @property
    def seconds(self) -> float:
        """From the first event to the last, as each generation's clock has it."""
        if not self.generations or not self.generations[0].frequency:
            return 0.0
        first, last = self.generations[0], self.generations[-1]
        return (max(last.end, first.end) - first.start) / first.frequency


class _Survey:
    """Takes in runs and blocks, in file order."""

    def __init__(self, version: Version) -> None:
        self.info = TraceInfo(version)
        self._by_number: dict[int, GenerationInfo] = {}  # the first of each number
        self._tables: Tables | None = None  # of the last generation
        self.counts = array("Q", bytes(8 * 256))
        named = {version.specs[name].type for name in NAMES_A_GOROUTINE if name in version.specs}
        self._goroutines = bytes(
            place if kind in named else 255 for kind, place in enumerate(places(version, "new_g", "g"))
        )

    def generation(self, number: int) -> GenerationInfo:
        known = self.info.generations
        if not known or known[-1].number != number:
            known.append(GenerationInfo(number))
            self._by_number.setdefault(number, known[-1])
        return known[-1]

    def summarize_tables(self) -> None:
        """What the tables of the last generation say, once they are complete."""
        tables, into = self._tables, self.info.generations[-1] if self.info.generations else None
        if tables is None or into is None:
            return
        into.frequency = tables.frequency
        if tables.clock is not None:
            into.wall = tables.clock.seconds + tables.clock.nanoseconds / 1e9
        into.strings, into.stacks, into.samples = len(tables.strings), len(tables.stacks), len(tables.samples)
        into.string_bytes = sum(map(len, tables.strings.values()))
        into.frames = sum(map(len, tables.stacks.values()))

    def run(self, run: Run, tables: Tables) -> None:
        if tables is not self._tables:
            self.summarize_tables()
            self._tables = tables
        into, events = self.generation(run.generation), self.info.events
        for batch in run.batches:
            into.size += batch.end - batch.start
            if batch.kind == END_OF_GENERATION:
                events["EndOfGeneration"] += 1
                continue
            into.batches += 1
            if batch.kind == EXPERIMENTAL_BATCH:
                events["ExperimentalBatch"] += 1
                continue
            events["EventBatch"] += 1
            if batch.timed and batch.thread != NO_THREAD:
                into.threads.add(batch.thread)
            into.start = min(into.start or batch.time, batch.time)
            into.end = max(into.end, batch.time)

    def block(self, block: Columns) -> None:
        into = self._by_number[block.tables[0].generation]
        columns_kernel.tally(block.type, self.counts)
        into.events += len(block)
        out = array("Q", bytes(8 * len(block)))
        rows = columns_kernel.pick(block.type, block.args, self._goroutines, out, True)
        into.goroutines |= set(out[:rows])
        for row in [*block.batch_row[1:], len(block)]:
            if row:
                into.end = max(into.end, block.time[row - 1])


def info(source: Source, *, threads: int | None = None) -> TraceInfo:
    """Survey a wire trace. Raises TraceError where it is broken."""
    with ColumnReader(source, threads=threads) as reader:
        survey = _Survey(reader.version)
        reader.watch = survey.run
        for block in reader:
            survey.block(block)
        survey.summarize_tables()
        found = survey.info
        for spec in spec_table(reader.version):
            if survey.counts[spec.type]:
                found.events[spec.name] += survey.counts[spec.type]
        found.events.update(reader.structural)
        found.size = reader.size
    return found
