"""A trace as batches, by the sizes in their headers: what Go's full parser does first, and every tool here that looks
into a trace rather than copies it.

Batches come in runs of one generation, in file order, with the bytes they lie in. A run is at most about a MiB, so that
memory does not depend on the length of the trace.
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

ROOM = 256
STRUCTURAL = frozenset({STRINGS, STACKS, CPU_SAMPLES, FREQUENCY, SYNC, EXPERIMENTAL_BATCH, END_OF_GENERATION})


class Batch(Record, frozen=True):
    """One batch: where its header starts, and [body, end) of its events, in the bytes of its run.

    `kind` is the type of its first event (0: it is empty), ExperimentalBatch or EndOfGeneration.
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
        """Whether it holds what a thread did (not a table, not a clock)."""
        return self.kind not in STRUCTURAL


class Run(Record, frozen=True):
    """Batches of one generation that follow each other; `offset` is where in the file `data` starts."""

    data: memoryview
    offset: int
    batches: list[Batch]

    @property
    def generation(self) -> int:
        return self.batches[0].generation


class BatchReader(Closing):
    """Runs of batches of a wire trace. Raises TraceError where sizes and bytes do not fit, after all runs before."""

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
            yield from self._all()

    def _all(self) -> Iterator[Run]:
        feed = self.feed
        events, columns = layout(self.version), batches_kernel.BatchColumns(ROOM)
        while True:
            stop = min(feed.stop, feed.start + self.block) if feed.ended else feed.stop
            offset, rows, fault, position = batches_kernel.scan(feed.data, feed.start, stop, events, columns)
            if rows:
                yield from self._runs(feed.start, offset, columns, rows)
                feed.use(offset)
            if fault not in (FINE, CUT, FULL):
                if fault == OUT_OF_BATCH:
                    rule = "a batch follows the one before: sizes in batch headers are right"
                    error = TraceError("wire", feed.offset(position), rule, f"event type {feed.data[position]}")
                    raise error.with_hint("whence trace wire --fix-sizes makes them so")
                raise wire_fault(fault, feed.offset(position), self.version)
            if rows or fault == FULL:
                continue
            if fault == CUT and stop < feed.stop:
                self.block *= 2
            elif not feed.more():
                if fault == CUT:
                    raise cut_short(feed.offset(feed.stop), "a batch")
                return

    def _runs(self, start: int, stop: int, columns: batches_kernel.BatchColumns, rows: int) -> Iterator[Run]:
        data = memoryview(bytes(memoryview(self.feed.data)[start:stop]))
        offset = self.feed.offset(start)
        batches: list[Batch] = []
        for row in range(rows):
            kind, generation = columns.kind[row], columns.generation[row]
            if kind == END_OF_GENERATION:
                generation = self.generation
            if batches and generation != self.generation:
                yield Run(data, offset, batches)
                batches = []
            self.generation = generation
            header, body, end = (column[row] - start for column in (columns.start, columns.body, columns.end))
            batches.append(Batch(kind, header, body, end, generation, columns.thread[row], columns.time[row]))
        if batches:
            yield Run(data, offset, batches)

    def close(self) -> None:
        self.feed.close()
