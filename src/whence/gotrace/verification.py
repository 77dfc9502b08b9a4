"""Check what Go's parser requires of a trace: sizes, limits, defined ids, generations in order.

The check continues after a problem, up to MAX_PROBLEMS.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from whence._base.errors import TraceError
from whence._base.records import Record, field
from whence.gotrace.batches import Run, TraceBatch
from whence.gotrace.columnar import ColumnReader, Columns, argument_indexes
from whence.gotrace.feed import Feed
from whence.gotrace.header import read_wire_header
from whence.gotrace.kernels import columns as columns_kernel
from whence.gotrace.kernels.constants import END_OF_GENERATION, EXPERIMENTAL_BATCH, FREQUENCY, STACKS, STRINGS, SYNC
from whence.gotrace.sizes import Framed, header_of
from whence.gotrace.specs import MAX_BATCH_SIZE, MAX_FRAMES, MAX_STRING_SIZE, Version, usable
from whence.gotrace.tables import Tables, events_of

if TYPE_CHECKING:
    from whence.gotrace.feed import Source

MAX_PROBLEMS = 1000
BATCH_SIZE = "batch-size"
"""The code of a wrong batch size, which `whence trace wire --fix-sizes` corrects."""


class Problem(Record, frozen=True):
    """A violation of a rule of the format.

    `offset` is in bytes of the file (None: a generation as a whole); `generation` is unknown if None. `code` is
    BATCH_SIZE for a problem that can be fixed, else "".
    """

    message: str
    offset: int | None = None
    generation: int | None = None
    code: str = ""

    def __str__(self) -> str:
        if self.generation is None:
            return self.message
        offset = f"at {self.offset:#x}: " if self.offset is not None else ""
        return f"generation {self.generation}: {offset}{self.message}"


def wrong_sizes(source: Source) -> list[Problem]:
    """Return the batches whose size does not match their events, found by walking the events."""
    problems: list[Problem] = []
    with Feed(source) as feed:
        version = usable(read_wire_header(feed))
        for offset, piece in Framed(feed, version):
            header = header_of(piece, version)
            if header.type in (EXPERIMENTAL_BATCH, END_OF_GENERATION):
                continue
            if header.name != "EventBatch":
                problems.append(Problem(f"{header.name} at {offset:#x} is not in a batch", offset))
                continue
            size = len(piece) - len(header.encode())
            if size != header["size"]:
                message = f"the batch's size is {header['size']}, but its events have {size} bytes"
                problems.append(Problem(message, offset, header["gen"], BATCH_SIZE))
            if len(problems) >= MAX_PROBLEMS:
                break
    return problems


class _Generation(Record):
    """Facts about a generation, collected until all its blocks were checked."""

    tables: Tables
    clocks: int = 0  # batches that record its clock
    stacks: set[int] = field(default_factory=set)  # ids that events use
    strings: set[int] = field(default_factory=set)


class _Checker:
    """Checks runs, then the blocks of their events, and each generation when it is complete."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.problems: list[Problem] = []
        self.waiting: list[_Generation] = []
        self.seen: set[int] = set()  # generations
        self.last: int | None = None
        self.ended = True
        self._stacks = [argument_indexes(version, "stack"), argument_indexes(version, "new_stack")]
        self._strings = [argument_indexes(version, ending="_string", nth=nth) for nth in (0, 1)]

    def report(self, generation: int, message: str, offset: int | None = None) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(message, offset, generation))

    def run(self, run: Run, tables: Tables) -> None:
        """Check the batches of a run, before its events."""
        if not self.waiting or tables is not self.waiting[-1].tables:
            self.begin(run, tables)
        number = run.generation
        for batch in run.batches:
            offset = run.offset + batch.start
            self.waiting[-1].clocks += batch.kind in (FREQUENCY, SYNC)
            if batch.kind == END_OF_GENERATION:
                self.ended = True
                continue
            if self.ended and self.version >= Version.GO1_26:
                self.report(number, "a batch follows the EndOfGeneration of its generation", offset)
                self.ended = False
            if batch.end - batch.body > MAX_BATCH_SIZE:
                size = batch.end - batch.body
                self.report(number, f"the batch has {size} bytes, more than {MAX_BATCH_SIZE}", offset)
            if batch.kind in (STRINGS, STACKS):
                self.table(run, batch)

    def begin(self, run: Run, tables: Tables) -> None:
        """Check that a generation follows the one before."""
        number, offset, last = tables.generation, run.offset + run.batches[0].start, self.last
        if number == 0:
            self.report(number, "the generation's number is 0; generations count from 1", offset)
        if number in self.seen:
            self.report(number, "batches of another generation are between batches of this one", offset)
        elif last is not None and number != last + 1:
            self.report(number, f"follows generation {last}; expected generation {last + 1}", offset)
        if not self.ended and self.version >= Version.GO1_26:
            self.report(last or 0, "has no EndOfGeneration", offset)
        self.seen.add(number)
        self.last, self.ended = number, False
        self.waiting.append(_Generation(tables))

    def table(self, run: Run, batch: TraceBatch) -> None:
        """Check the limits of a table's entries, and that ids are unique within the batch."""
        ids: set[int] = set()
        for event in events_of(run, batch, self.version):
            number, offset, name = run.generation, run.offset + batch.start, event.name.lower()
            if event.type == batch.kind:
                continue
            if event.type != batch.kind + 1:
                self.report(number, f"{event.name} is in a table of another kind", offset)
                continue
            if event["id"] in ids:
                self.report(number, f"{name} id {event['id']} is defined twice", offset)
            ids.add(event["id"])
            if event.data is not None and len(event.data) > MAX_STRING_SIZE:
                self.report(number, f"a string has {len(event.data)} bytes, more than {MAX_STRING_SIZE}", offset)
            if event.spec.is_stack and event["nframes"] > MAX_FRAMES:
                self.report(number, f"a stack has {event['nframes']} frames, more than {MAX_FRAMES}", offset)

    def block(self, block: Columns) -> None:
        """Collect the ids that events use, and check the generations before this one: they are complete."""
        while self.waiting[0].tables is not block.tables[0]:
            self.finish(self.waiting.pop(0))
        generation, out = self.waiting[0], array("Q", bytes(8 * len(block)))
        for used, tables in ((generation.stacks, self._stacks), (generation.strings, self._strings)):
            for indexes in tables:
                rows = columns_kernel.pick(block.type, block.args, indexes, out, True)
                used.update(out[:rows])

    def finish(self, generation: _Generation) -> None:
        """Check a complete generation."""
        tables = generation.tables
        for frames in tables.stacks.values():
            for frame in frames:
                generation.strings.update((frame.function, frame.file))
        generation.stacks.update(sample.stack for sample in tables.samples)
        for kind, missing in (
            ("stack", generation.stacks - tables.stacks.keys() - {0}),
            ("string", generation.strings - tables.strings.keys() - {0}),
        ):
            if missing:
                some = ", ".join(map(str, sorted(missing)[:5])) + (", ..." if len(missing) > 5 else "")
                self.report(tables.generation, f"events use undefined {kind} ids: {some}")
        if not tables.frequency:
            self.report(tables.generation, "the frequency of the clock is missing")
        if self.version >= Version.GO1_25 and tables.clock is None:
            self.report(tables.generation, "the snapshot of the clocks is missing")
        if generation.clocks > 1:
            self.report(tables.generation, f"the clock is recorded {generation.clocks} times instead of once")

    def end(self) -> None:
        """Check the remaining generations at the end of the trace."""
        while self.waiting:
            self.finish(self.waiting.pop(0))
        if not self.ended and self.version >= Version.GO1_26:
            self.report(self.last or 0, "the trace ends without EndOfGeneration")


def verify(source: Source, *, threads: int | None = None) -> list[Problem]:
    """Return the problems of a binary trace; [] if Go's parser accepts it.

    Args:
        source: a path or bytes (the trace may be read twice).
        threads: number of decoding threads; default: the number of cores.
    """
    try:
        with ColumnReader(source, threads=threads) as reader:
            checker = _Checker(reader.version)
            reader.watch = checker.run
            for block in reader:
                checker.block(block)
            checker.end()
            return checker.problems
    except TraceError as error:
        try:
            problems = wrong_sizes(source)
        except TraceError:
            problems = []
        return problems or [Problem(error.message, error.offset)]
