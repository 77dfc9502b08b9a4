"""Decode the events of a trace into columns, on all cores, without an object per event.

A row is a timed event. Its time is in clock units of the trace (Tables.frequency per second), its arguments are the
four after dt, 0 where it has fewer. Structural batches become Tables.
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
SMALL = 1 << 13  # bytes of events that are decoded on the calling thread
NO_ARGUMENT = 255


@cache
def argument_indexes(version: Version, *names: str, ending: str = "", nth: int = 0) -> bytes:
    """Return for each event type the index of one of its arguments, counted after dt; NO_ARGUMENT if it has none.

    The argument is the first of `names` that the type has, or the nth argument whose name has an ending.
    """
    indexes = bytearray([NO_ARGUMENT]) * 256
    for spec in spec_table(version):
        if not spec.timed:
            continue
        fits = [i for i, name in enumerate(spec.args[1:]) if name in names or (ending and name.endswith(ending))]
        fits.sort(key=lambda i: names.index(spec.args[1 + i]) if spec.args[1 + i] in names else len(names))
        if len(fits) > nth:
            indexes[spec.type] = fits[nth]
    return bytes(indexes)


class Columns(Record, frozen=True):
    """Events in columns of unsigned numbers, in file order: by batch, not by time.

    All columns are memoryviews, which numpy accepts.

    Attributes:
        type: event types, 8 bits each.
        time: times in clock units, 64 bits each.
        args: arguments, 64 bits each, four per row, row by row.
        tables: the tables of the generations in these columns.
        batch_row: the first row of each batch.
        batch_generation: the generation of each batch.
        batch_thread: the thread of each batch, 2^64-1 for none.
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

    def __repr__(self) -> str:
        generations = ", ".join(str(table.generation) for table in self.tables[:SHOWN_GENERATIONS])
        more = ", ..." if len(self.tables) > SHOWN_GENERATIONS else ""
        size = f"{len(self):,} events in generations {generations or 'none'}{more}"
        return f"<gotrace.Columns of Go 1.{int(self.version)}: {size}>"

    def _spread(self, values: array[int]) -> memoryview:
        out = memoryview(columns_kernel.fresh(8 * len(self))).cast("Q")
        columns_kernel.spread(self.batch_row, values, out)
        return out

    def _pick(self, indexes: bytes) -> memoryview:
        out = memoryview(columns_kernel.fresh(8 * len(self))).cast("Q")
        columns_kernel.pick(self.type, self.args, indexes, out, False)
        return out

    @property
    def generation(self) -> memoryview:
        """The generation of each row."""
        return self._spread(self.batch_generation)

    @property
    def thread(self) -> memoryview:
        """The thread (M) of each row, 2^64-1 without one."""
        return self._spread(self.batch_thread)

    @property
    def stack(self) -> memoryview:
        """The id of each row's own stack, 0 if it has none."""
        return self._pick(argument_indexes(self.version, "stack"))

    @property
    def string(self) -> memoryview:
        """The id of each row's first string, 0 if it has none."""
        return self._pick(argument_indexes(self.version, ending="_string"))

    @property
    def second_string(self) -> memoryview:
        """The id of each row's second string (the value of a log entry), 0 if it has none."""
        return self._pick(argument_indexes(self.version, ending="_string", nth=1))

    def argument(self, *names: str) -> memoryview:
        """Return the argument of each row that has one of these names, 0 for rows without it."""
        return self._pick(argument_indexes(self.version, *names))

    def to_numpy(self) -> dict[str, Any]:
        """Return numpy arrays by column name: views where columns are stored, `args` has shape (rows, 4)."""
        import numpy

        named = {name: numpy.asarray(getattr(self, name)) for name in NAMES}
        return {**named, "args": numpy.asarray(self.args).reshape(-1, ARGS)}

    def to_arrow(self) -> Any:
        """Return a pyarrow Table.

        Columns: event (its name), generation, thread, time, stack, string, second_string, arg1 to arg4.
        """
        import numpy
        import pyarrow

        columns = self.to_numpy()
        names = {spec.type: spec.name for spec in spec_table(self.version)}
        columns.pop("type")
        numbers = bytearray(256)  # of each type's name in the dictionary; pandas requires unique names
        for number, type_ in enumerate(names):
            numbers[type_] = number
        indices = numpy.frombuffer(bytes(self.type).translate(numbers), numpy.uint8)
        event = pyarrow.DictionaryArray.from_arrays(pyarrow.array(indices), pyarrow.array(list(names.values())))
        args = columns.pop("args")
        split = {f"arg{i + 1}": numpy.ascontiguousarray(args[:, i]) for i in range(ARGS)}
        return pyarrow.table({"event": event, **columns, **split})

    def to_pandas(self) -> Any:
        """Return a pandas DataFrame; the columns are those of `to_arrow`. Raises ImportError without pandas."""
        import pandas

        columns = self.to_numpy()
        names = {spec.type: spec.name for spec in spec_table(self.version)}
        args = columns.pop("args")
        events = pandas.Categorical([names[number] for number in columns.pop("type").tolist()])
        return pandas.DataFrame({"event": events, **columns, **{f"arg{i + 1}": args[:, i] for i in range(ARGS)}})


SHOWN_GENERATIONS = 4  # in a repr
NAMES = ("type", "generation", "thread", "time", "stack", "string", "second_string")


Buffers = tuple[bytearray, bytearray, bytearray]  # of the columns type, time and args


class _BufferPool:
    """Buffers for columns, reused when no view of them is left: filling fresh memory takes longer."""

    def __init__(self, limit: int) -> None:
        self._pool: list[Buffers] = []
        self._limit = limit
        self._unused = self._references(self.new(1))

    @staticmethod
    def new(rows: int) -> Buffers:
        return columns_kernel.fresh(rows), columns_kernel.fresh(8 * rows), columns_kernel.fresh(8 * ARGS * rows)

    @staticmethod
    def _references(buffers: Buffers) -> list[int]:
        return [sys.getrefcount(buffers[0]), sys.getrefcount(buffers[1]), sys.getrefcount(buffers[2])]

    def take(self, rows: int) -> Buffers:
        """Return buffers for at least `rows` rows. They are in use as long as a view of them exists."""
        for buffers in self._pool:
            if len(buffers[0]) >= rows and self._references(buffers) == self._unused:
                return buffers
        buffers = self.new(rows)
        if len(self._pool) < self._limit:
            self._pool.append(buffers)
        return buffers


def _decode(
    run: Run, version: Version, tables: Tables, kinds: bytearray, stamps: bytearray, args: bytearray
) -> list[Columns]:
    """Decode the timed batches of a run; several results only if events are unusually small."""
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
    """An iterator over the columns of a binary trace: half a MiB at a time, in file order, one generation each.

    The tables of a block are complete once the next generation starts or the trace ends. Memory: some 40 MB. Raises
    TraceError at the first fault, after all blocks before it.

    Args:
        source: a path, a binary file or pipe, or bytes.
        batches: decode only batches in this range, numbered from 0 in the file.
        threads: number of decoding threads; default: the number of cores.
    """

    def __init__(self, source: Source, *, batches: range | None = None, threads: int | None = None) -> None:
        self._batches = BatchReader(source, block=BLOCK)
        self._selected = batches
        self._count = 0  # batches seen
        self.version = self._batches.version
        self._threads = threads or cores.available()
        self.tables = Tables(self.version, 0)  # of the generation being read
        self.structural: Counter[str] = Counter()  # events of its structural batches so far, by name
        self.watch: Callable[[Run, Tables], None] | None = None  # called with each run before its blocks

    def __repr__(self) -> str:
        return f"<gotrace.ColumnReader {self._batches.feed.name or 'of bytes'}: Go 1.{int(self.version)}>"

    @property
    def size(self) -> int:
        """Number of bytes of the trace that were used so far."""
        return self._batches.feed.offset(self._batches.feed.start)

    @property
    def size_stored(self) -> int:
        """Number of bytes of the trace that were read so far."""
        return self._batches.feed.offset(self._batches.feed.stop)

    def __iter__(self) -> Iterator[Columns]:
        with naming(self._batches.feed.name):
            yield from self._blocks()

    def _blocks(self) -> Iterator[Columns]:
        waiting: deque[Future[list[Columns]] | list[Columns]] = deque()
        buffers = _BufferPool(2 * self._threads + 2)
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
                        if size <= SMALL:  # not worth another thread
                            new = _BufferPool.new(size // 4 + 1)
                            waiting.append(_decode(part, self.version, self.tables, *new) if size else [])
                        else:
                            reused = buffers.take(max(ROWS, len(run.data) // 4))
                            waiting.append(pool.submit(_decode, part, self.version, self.tables, *reused))
                    while len(waiting) > self._threads + 1 or (waiting and _done(waiting[0])):
                        yield from _result(waiting.popleft())
            except TraceError:
                while waiting:
                    yield from _result(waiting.popleft())
                raise
            while waiting:
                yield from _result(waiting.popleft())

    def _part(self, run: Run) -> Run | None:
        """Return the batches of a run that are selected."""
        first, self._count = self._count, self._count + len(run.batches)
        if self._selected is None:
            return run
        batches = [batch for number, batch in enumerate(run.batches, first) if number in self._selected]
        return Run(run.data, run.offset, batches) if batches else None

    def close(self) -> None:
        self._batches.close()


def joined(version: Version, blocks: Iterable[Columns]) -> Columns:
    """Return blocks concatenated; each is released before the next is read."""
    kinds, times, args = bytearray(), bytearray(), bytearray()
    tables: list[Tables] = []
    batch_row, generations, threads = array("Q"), array("Q"), array("Q")
    for block in blocks:
        offset = len(kinds)
        kinds += block.type
        times += block.time.cast("B")
        args += block.args.cast("B")
        batch_row.extend(offset + row for row in block.batch_row)
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
    """Return the events of a binary trace as one set of columns: 41 bytes per event.

    ColumnReader is several times as fast, and needs bounded memory, for callers that process a block at a time.

    Args:
        source: a path, a binary file or pipe, or bytes.
        generations: decode only these generations; default: all.
        batches: decode only batches in this range, numbered from 0 in the file, all kinds counted.
        threads: number of decoding threads; default: the number of cores.
    """
    selected = None if generations is None else set(generations)
    with ColumnReader(source, batches=batches, threads=threads) as reader:
        blocks = (b for b in reader if selected is None or b.tables[0].generation in selected)
        return joined(reader.version, blocks)
