"""Read a binary trace as batches, by the sizes in their headers.

Go's full parser does this first, and so does every tool here that inspects a trace. Batches are grouped in runs of one
generation, in file order, with their bytes. A run has at most about a MiB, so memory does not depend on the length of
the trace.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from whence._base.closing import Closing
from whence._base.errors import TraceError, naming
from whence._base.records import Record
from whence.gotrace.faults import cut_short, wire_fault
from whence.gotrace.feed import Feed
from whence.gotrace.header import read_wire_header
from whence.gotrace.kernels import batches as batches_kernel
from whence.gotrace.kernels.constants import (
    CPU_SAMPLES,
    CUT,
    END_OF_GENERATION,
    EXPERIMENTAL_BATCH,
    FINE,
    FREQUENCY,
    FULL,
    OUT_OF_BATCH,
    STACKS,
    STRINGS,
    SYNC,
)
from whence.gotrace.specs import Version, layout, usable

if TYPE_CHECKING:
    from whence.gotrace.feed import Source

CAPACITY = 256
STRUCTURAL = frozenset({STRINGS, STACKS, CPU_SAMPLES, FREQUENCY, SYNC, EXPERIMENTAL_BATCH, END_OF_GENERATION})


class TraceBatch(Record, frozen=True):
    """A batch: offsets in the data of its run, [start, end) with the header and [body, end) without.

    `kind` is the type of its first event (0 if the batch is empty), ExperimentalBatch or EndOfGeneration.
    """

    kind: int
    start: int
    body: int
    end: int
    generation: int
    thread: int
    time: int

    @property
    def timed(self) -> bool:
        """True for a batch of timed events of a thread, False for a table or a clock."""
        return self.kind not in STRUCTURAL


class Run(Record, frozen=True):
    """Consecutive batches of one generation; `offset` is the offset in the file of data[0]."""

    data: memoryview
    offset: int
    batches: list[TraceBatch]

    @property
    def generation(self) -> int:
        return self.batches[0].generation


class BatchReader(Closing):
    """An iterator over the runs of a binary trace.

    Raises TraceError where sizes and bytes do not agree, after the runs before.
    """

    def __init__(self, source: Source | Feed, *, block: int = 1 << 20) -> None:
        self.feed = source if isinstance(source, Feed) else Feed(source, block)
        try:
            with naming(self.feed.name):
                self.version: Version = usable(read_wire_header(self.feed))
        except BaseException:
            self.feed.close()
            raise
        self.block = block
        self.generation = 0  # of the last batch

    def __iter__(self) -> Iterator[Run]:
        with naming(self.feed.name):
            yield from self._runs()

    def _runs(self) -> Iterator[Run]:
        feed = self.feed
        events, columns = layout(self.version), batches_kernel.BatchColumns(CAPACITY)
        while True:
            stop = min(feed.stop, feed.start + self.block) if feed.ended else feed.stop
            offset, rows, fault, position = batches_kernel.scan(feed.data, feed.start, stop, events, columns)
            if rows:
                yield from self._split(feed.start, offset, columns, rows)
                feed.use(offset)
            if fault not in (FINE, CUT, FULL):
                if fault == OUT_OF_BATCH:
                    problem = f"found event type {feed.data[position]} instead of a batch; a size before it is wrong"
                    error = TraceError("wire", feed.offset(position), problem)
                    raise error.with_hint("run whence trace wire --fix-sizes to correct the sizes in batch headers")
                raise wire_fault(fault, feed.offset(position), self.version)
            if rows or fault == FULL:
                continue
            if fault == CUT and stop < feed.stop:
                self.block *= 2
            elif not feed.more():
                if fault == CUT:
                    raise cut_short(feed.offset(feed.stop), "a batch")
                return

    def _split(self, start: int, stop: int, columns: batches_kernel.BatchColumns, rows: int) -> Iterator[Run]:
        data = memoryview(bytes(memoryview(self.feed.data)[start:stop]))
        offset = self.feed.offset(start)
        batches: list[TraceBatch] = []
        for row in range(rows):
            kind, generation = columns.kind[row], columns.generation[row]
            if kind == END_OF_GENERATION:
                generation = self.generation
            if batches and generation != self.generation:
                yield Run(data, offset, batches)
                batches = []
            self.generation = generation
            header, body, end = (column[row] - start for column in (columns.start, columns.body, columns.end))
            batches.append(TraceBatch(kind, header, body, end, generation, columns.thread[row], columns.time[row]))
        if batches:
            yield Run(data, offset, batches)

    def close(self) -> None:
        self.feed.close()
