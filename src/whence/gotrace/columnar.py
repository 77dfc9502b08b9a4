"""Events as columns: whole traces or part of one, without an object per event, batches decoded on all cores.

A row is a timed event. Its time is in the trace's clock units (Tables.frequency of them a second), summed up from its
batch's start; its arguments are the four after dt, 0 where it has fewer. Structural batches become Tables.
"""

from __future__ import annotations

import sys
from array import array
from collections import Counter, deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any

from whence._base import cores
from whence._base.closing import Closing
from whence._base.errors import TraceError, naming
from whence._base.records import Record
from whence.gotrace.batches import BatchReader, Run
from whence.gotrace.faults import wire_fault
from whence.gotrace.kernels import columns as columns_kernel
from whence.gotrace.kernels.constants import FINE, FULL
from whence.gotrace.specs import Version, layout, spec_table
from whence.gotrace.tables import Tables

if TYPE_CHECKING:
    from whence.gotrace.feed import Source

ARGS = 4
BLOCK = 1 << 19  # bytes of a trace decoded at a time
ROWS = BLOCK // 4
SMALL = 1 << 13  # bytes of events that are decoded at once, on this thread
NONE = 255


@cache
def places(version: Version, *names: str, ending: str = "", nth: int = 0) -> bytes:
    """For each event type the place (from 0, after dt) of an argument: one of `names`, or the nth with an ending."""
    found = bytearray([NONE]) * 256
    for spec in spec_table(version):
        if not spec.timed:
            continue
        fits = [i for i, name in enumerate(spec.args[1:]) if name in names or (ending and name.endswith(ending))]
        fits.sort(key=lambda i: names.index(spec.args[1 + i]) if spec.args[1 + i] in names else len(names))
        if len(fits) > nth:
            found[spec.type] = fits[nth]
    return bytes(found)


class Columns(Record, frozen=True):
    """Rows in file order: by batch, not by time. All columns are memoryviews of unsigned numbers (numpy takes them).

    `type` (8 bits), `time` (64), `args` (64, four for each row, row by row); `tables` of the generations they are of.
    Batches are columns of their own: the row each starts at, its generation, its thread (2^64-1: none).
    """

    version: Version
    tables: tuple[Tables, ...]
    type: memoryview
    time: memoryview
    args: memoryview
    batch_row: array[int]
    batch_generation: array[int]
    batch_thread: array[int]

    def __len__(self) -> int:
        return len(self.type)

    def _spread(self, values: array[int]) -> memoryview:
        out = memoryview(columns_kernel.fresh(8 * len(self))).cast("Q")
        columns_kernel.spread(self.batch_row, values, out)
        return out

    def _pick(self, wanted: bytes) -> memoryview:
        out = memoryview(columns_kernel.fresh(8 * len(self))).cast("Q")
        columns_kernel.pick(self.type, self.args, wanted, out, False)
        return out

    @property
    def generation(self) -> memoryview:
        """The generation of each row."""
        return self._spread(self.batch_generation)

    @property
    def thread(self) -> memoryview:
        """The thread (M) of each row, 2^64-1 where there is none."""
        return self._spread(self.batch_thread)

    @property
    def stack(self) -> memoryview:
        """The id of each row's own stack, 0 where it has none."""
        return self._pick(places(self.version, "stack"))

    @property
    def string(self) -> memoryview:
        """The id of each row's first string, 0 where it has none."""
        return self._pick(places(self.version, ending="_string"))

    @property
    def second_string(self) -> memoryview:
        """The id of each row's second string (a log's value), 0 where it has none."""
        return self._pick(places(self.version, ending="_string", nth=1))

    def argument(self, *names: str) -> memoryview:
        """The argument that has one of these names in each row's spec, 0 where there is none."""
        return self._pick(places(self.version, *names))

    def to_numpy(self) -> dict[str, Any]:
        """Columns by name as numpy arrays: views of these where they are stored, `args` as (rows, 4)."""
        import numpy

        named = {name: numpy.asarray(getattr(self, name)) for name in NAMES}
        return {**named, "args": numpy.asarray(self.args).reshape(-1, ARGS)}

    def to_arrow(self) -> Any:
        """A pyarrow Table: event (its name), generation, thread, time, arg1 to arg4, stack, string, second_string."""
        import numpy
        import pyarrow

        columns = self.to_numpy()
        names = {spec.type: spec.name for spec in spec_table(self.version)}
        columns.pop("type")
        numbers = bytearray(256)  # of each type's name in the dictionary, which has each name once, as pandas wants
        for number, type_ in enumerate(names):
            numbers[type_] = number
        indices = numpy.frombuffer(bytes(self.type).translate(numbers), numpy.uint8)
        event = pyarrow.DictionaryArray.from_arrays(pyarrow.array(indices), pyarrow.array(list(names.values())))
        args = columns.pop("args")
        split = {f"arg{i + 1}": numpy.ascontiguousarray(args[:, i]) for i in range(ARGS)}
        return pyarrow.table({"event": event, **columns, **split})


NAMES = ("type", "generation", "thread", "time", "stack", "string", "second_string")


Room = tuple[bytearray, bytearray, bytearray]


class _Rooms:
    """Memory for columns, taken again once nobody looks at it: new memory costs more than filling it does."""

    def __init__(self, most: int) -> None:
        self._rooms: list[Room] = []
        self._most = most
        self._unused = self._references(self.new(1))

    @staticmethod
    def new(rows: int) -> Room:
        return columns_kernel.fresh(rows), columns_kernel.fresh(8 * rows), columns_kernel.fresh(8 * ARGS * rows)

    @staticmethod
    def _references(room: Room) -> list[int]:
        return [sys.getrefcount(room[0]), sys.getrefcount(room[1]), sys.getrefcount(room[2])]

    def take(self, rows: int) -> Room:
        """Room for that many rows. It is in use as long as a view of it lives."""
        for room in self._rooms:
            if len(room[0]) >= rows and self._references(room) == self._unused:
                return room
        room = self.new(rows)
        if len(self._rooms) < self._most:
            self._rooms.append(room)
        return room


def _decode(
    run: Run, version: Version, tables: Tables, kinds: bytearray, stamps: bytearray, args: bytearray
) -> list[Columns]:
    """The timed batches of a run; more than one piece only where events are unusually small."""
    batches = [batch for batch in run.batches if batch.timed]
    if not batches:
        return []
    bodies, ends, times = (array("Q", (getattr(b, name) for b in batches)) for name in ("body", "end", "time"))
    generations = array("Q", (batch.generation for batch in batches))
    threads = array("Q", (batch.thread for batch in batches))
    decoder = columns_kernel.Decoder(layout(version), run.data, bodies, ends, times)
    pieces: list[Columns] = []
    fault = FULL
    while fault == FULL:
        if pieces:
            kinds, stamps, args = (columns_kernel.fresh(len(column)) for column in (kinds, stamps, args))
        times_view, args_view = memoryview(stamps).cast("Q"), memoryview(args).cast("Q")
        first_rows = array("Q", bytes(8 * len(batches)))
        first = decoder.batch
        rows, fault = decoder.decode(kinds, times_view, args_view, first_rows)
        last = min(decoder.batch + 1, len(batches))
        piece = slice(first, last)
        pieces.append(
            Columns(
                version, (tables,), memoryview(kinds)[:rows], times_view[:rows], args_view[: ARGS * rows],
                first_rows[piece], generations[piece], threads[piece],
            )
        )  # fmt: skip
    if fault != FINE:
        raise wire_fault(fault, run.offset + decoder.where, version, run.data[decoder.where])
    return pieces


def _done(work: Future[list[Columns]] | list[Columns]) -> bool:
    return isinstance(work, list) or work.done()


def _result(work: Future[list[Columns]] | list[Columns]) -> list[Columns]:
    return work if isinstance(work, list) else work.result()


class ColumnReader(Closing):
    """Columns of a wire trace, half a MiB at a time, in file order, each of one generation: an iterator.

    The tables of a block are complete once the next generation begins, or the trace ends. `threads` decode (default:
    as many as there are cores); of `batches` (numbered from 0 in the file) only those are. Memory: some 40 MB. Raises
    TraceError at the first thing wrong, after all blocks before it.
    """

    def __init__(self, source: Source, *, batches: range | None = None, threads: int | None = None) -> None:
        self._batches = BatchReader(source, block=BLOCK)
        self._wanted = batches
        self._count = 0  # batches seen
        self.version = self._batches.version
        self._threads = threads or cores.available()
        self.tables = Tables(self.version, 0)  # of the generation being read
        self.structural: Counter[str] = Counter()  # events of its structural batches so far, by name
        self.watch: Callable[[Run, Tables], None] | None = None  # sees each run before its blocks come

    @property
    def size(self) -> int:
        """Bytes read so far."""
        return self._batches.feed.offset(self._batches.feed.start)

    @property
    def size_stored(self) -> int:
        """Bytes of the source that have come so far, used or not."""
        return self._batches.feed.offset(self._batches.feed.stop)

    def __iter__(self) -> Iterator[Columns]:
        with naming(self._batches.feed.name):
            yield from self._blocks()

    def _blocks(self) -> Iterator[Columns]:
        waiting: deque[Future[list[Columns]] | list[Columns]] = deque()
        rooms = _Rooms(2 * self._threads + 2)
        with ThreadPoolExecutor(self._threads) as pool:
            try:
                for run in self._batches:
                    if run.generation != self.tables.generation:
                        self.tables = Tables(self.version, run.generation)
                    for batch in run.batches:
                        self.tables.add(run, batch, self.structural)
                    if self.watch is not None:
                        self.watch(run, self.tables)
                    part = self._part(run)
                    if part is not None:
                        size = sum(batch.end - batch.body for batch in part.batches if batch.timed)
                        if size <= SMALL:  # less work than to hand it to another thread
                            new = _Rooms.new(size // 4 + 1)
                            waiting.append(_decode(part, self.version, self.tables, *new) if size else [])
                        else:
                            room = rooms.take(max(ROWS, len(run.data) // 4))
                            waiting.append(pool.submit(_decode, part, self.version, self.tables, *room))
                    while len(waiting) > self._threads + 1 or (waiting and _done(waiting[0])):
                        yield from _result(waiting.popleft())
            except TraceError:
                while waiting:
                    yield from _result(waiting.popleft())
                raise
            while waiting:
                yield from _result(waiting.popleft())

    def _part(self, run: Run) -> Run | None:
        """What of a run is in the wanted range of batches."""
        first, self._count = self._count, self._count + len(run.batches)
        if self._wanted is None:
            return run
        batches = [batch for number, batch in enumerate(run.batches, first) if number in self._wanted]
        return Run(run.data, run.offset, batches) if batches else None

    def close(self) -> None:
        self._batches.close()


def joined(version: Version, blocks: Iterable[Columns]) -> Columns:
    """Blocks one behind the other, as one; each is let go before the next is taken."""
    kinds, times, args = bytearray(), bytearray(), bytearray()
    tables: list[Tables] = []
    batch_row, generations, threads = array("Q"), array("Q"), array("Q")
    for block in blocks:
        at = len(kinds)
        kinds += block.type
        times += block.time.cast("B")
        args += block.args.cast("B")
        batch_row.extend(at + row for row in block.batch_row)
        generations += block.batch_generation
        threads += block.batch_thread
        tables += [table for table in block.tables if not tables or table is not tables[-1]]
    views = (memoryview(kinds), memoryview(times).cast("Q"), memoryview(args).cast("Q"))
    return Columns(version, tuple(tables), *views, batch_row, generations, threads)


def columns(
    source: Source,
    *,
    generations: Iterable[int] | None = None,
    batches: range | None = None,
    threads: int | None = None,
) -> Columns:
    """All events of a wire trace, or those of some generations or batches, as one set of columns: 41 bytes an event.

    Batches count from 0 in file order, all kinds of them. Whoever can take a block at a time (ColumnReader) has the
    events several times as fast, and in bounded memory.
    """
    wanted = None if generations is None else set(generations)
    with ColumnReader(source, batches=batches, threads=threads) as reader:
        blocks = (b for b in reader if wanted is None or b.tables[0].generation in wanted)
        return joined(reader.version, blocks)
