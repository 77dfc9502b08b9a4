"""What a trace must have for Go's parser to take it: sizes, limits, ids that lead somewhere, generations in order.

All of a trace is looked at: a problem is noted and the next thing is looked at, up to MAX_PROBLEMS.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING

from whence._base.errors import TraceError, shown, worded
from whence._base.records import Record, field
from whence.gotrace.batches import Batch, Run
from whence.gotrace.columnar import ColumnReader, Columns, places
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
"""The code of the problem that a batch's size is not what its events take: the only one that can be mended."""


class Problem(Record, frozen=True):
    """Something that is not as it must be. `offset` is in bytes of the file; None: a generation as a whole."""

    rule: str
    found: str
    offset: int | None = None
    generation: int = 0
    fault: str = ""  # what is wrong, where plainer words are possible
    code: str = ""  # for programs, where something can be done

    def __str__(self) -> str:
        if self.fault:
            return self.fault
        prefix = f"at {self.offset:#x}: " if self.offset is not None else ""
        return f"generation {self.generation}: {prefix}{worded(self.rule, self.found)}"


def wrong_sizes(source: Source) -> list[Problem]:
    """Batches whose size is not what their events take, found by walking the events."""
    problems: list[Problem] = []
    with Feed(source) as feed:
        version = usable(read_wire_header(feed))
        for offset, piece in Framed(feed, version):
            header = header_of(piece, version)
            if header.type in (EXPERIMENTAL_BATCH, END_OF_GENERATION):
                continue
            if header.name != "EventBatch":
                problems.append(Problem("a batch header comes before all events", header.name, offset))
                continue
            size = len(piece) - len(header.encode())
            if size != header["size"]:
                rule = f"a batch's size is what its events take, {size} here"
                problems.append(Problem(rule, str(header["size"]), offset, header["gen"], code=BATCH_SIZE))
            if len(problems) >= MAX_PROBLEMS:
                break
    return problems


class _Generation(Record):
    """What is noted of a generation until all its blocks have come."""

    tables: Tables
    clocks: int = 0  # batches that record its clock
    stacks: set[int] = field(default_factory=set)  # ids that events use
    strings: set[int] = field(default_factory=set)


class _Checker:
    """Takes in runs, and the blocks of their events somewhat later; checks a generation when it is complete."""

    def __init__(self, version: Version) -> None:
        self.version = version
        self.problems: list[Problem] = []
        self.waiting: list[_Generation] = []
        self.seen: set[int] = set()  # generations
        self.last: int | None = None
        self.ended = True
        self._places = [places(version, "stack"), places(version, "new_stack")]
        self._words = [places(version, ending="_string", nth=nth) for nth in (0, 1)]

    def note(self, generation: int, rule: str, found: object, offset: int | None = None) -> None:
        if len(self.problems) < MAX_PROBLEMS:
            self.problems.append(Problem(rule, str(found), offset, generation))

    def run(self, run: Run, tables: Tables) -> None:
        """Check the batches of a run, before its events come."""
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
                self.note(number, "EndOfGeneration is a generation's last", "a batch after it", offset)
                self.ended = False
            if batch.end - batch.body > MAX_BATCH_SIZE:
                self.note(number, f"a batch has at most {MAX_BATCH_SIZE} bytes", batch.end - batch.body, offset)
            if batch.kind in (STRINGS, STACKS):
                self.table(run, batch)

    def begin(self, run: Run, tables: Tables) -> None:
        """Check how a generation follows the one before."""
        number, offset, last = tables.generation, run.offset + run.batches[0].start, self.last
        if number == 0:
            self.note(number, "generations count from 1", 0, offset)
        if number in self.seen:
            self.note(number, "the batches of a generation stand together", f"{number} again", offset)
        elif last is not None and number != last + 1:
            self.note(number, f"generation {last + 1} follows generation {last}", number, offset)
        if not self.ended and self.version >= Version.GO1_26:
            self.note(last or 0, "EndOfGeneration ends a generation", "none", offset)
        self.seen.add(number)
        self.last, self.ended = number, False
        self.waiting.append(_Generation(tables))

    def table(self, run: Run, batch: Batch) -> None:
        """Check the limits of a table's entries, and that no id comes twice in its batch."""
        ids: set[int] = set()
        for event in events_of(run, batch, self.version):
            number, offset, name = run.generation, run.offset + batch.start, event.name.lower()
            if event.type == batch.kind:
                continue
            if event.type != batch.kind + 1:
                self.note(number, "a table holds entries of one kind", event.name, offset)
                continue
            if event["id"] in ids:
                self.note(number, f"a {name} has an id of its own", event["id"], offset)
            ids.add(event["id"])
            if event.data is not None and len(event.data) > MAX_STRING_SIZE:
                self.note(number, f"a string has at most {MAX_STRING_SIZE} bytes", len(event.data), offset)
            if event.spec.is_stack and event["nframes"] > MAX_FRAMES:
                self.note(number, f"a stack has at most {MAX_FRAMES} frames", event["nframes"], offset)

    def block(self, block: Columns) -> None:
        """Note which ids events use. Generations before this one have had all their blocks."""
        while self.waiting[0].tables is not block.tables[0]:
            self.finish(self.waiting.pop(0))
        into, out = self.waiting[0], array("Q", bytes(8 * len(block)))
        for used, tables in ((into.stacks, self._places), (into.strings, self._words)):
            for wanted in tables:
                rows = columns_kernel.pick(block.type, block.args, wanted, out, True)
                used.update(out[:rows])

    def finish(self, generation: _Generation) -> None:
        """Check a generation as a whole."""
        tables = generation.tables
        for frames in tables.stacks.values():
            for frame in frames:
                generation.strings.update((frame.function, frame.file))
        generation.stacks.update(sample.stack for sample in tables.samples)
        for what, missing in (
            ("stack", generation.stacks - tables.stacks.keys() - {0}),
            ("string", generation.strings - tables.strings.keys() - {0}),
        ):
            if missing:
                some = ", ".join(map(str, sorted(missing)[:5])) + (", ..." if len(missing) > 5 else "")
                self.note(tables.generation, f"a {what} that an event names is in the generation's table", some)
        if not tables.frequency:
            self.note(tables.generation, "a generation records its clock's frequency", "none")
        if self.version >= Version.GO1_25 and tables.clock is None:
            self.note(tables.generation, "a generation has a snapshot of the clocks", "none")
        if generation.clocks > 1:
            self.note(tables.generation, "a generation records its clock once", f"{generation.clocks} batches")

    def end(self) -> None:
        """Check what is left when the trace ends."""
        while self.waiting:
            self.finish(self.waiting.pop(0))
        if not self.ended and self.version >= Version.GO1_26:
            self.note(self.last or 0, "EndOfGeneration ends a generation", "the end of the trace")


def verify(source: Source, *, threads: int | None = None) -> list[Problem]:
    """What is wrong with a wire trace; [] when nothing is. The source is a path or bytes: it may be read twice."""
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
        return problems or [
            Problem(
                error.rule, "otherwise" if error.found is None else shown(error.found), error.offset, fault=error.fault
            )
        ]
