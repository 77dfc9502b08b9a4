"""Events as rows: names resolved, times in nanoseconds, the goroutine that each event belongs to."""

from __future__ import annotations

import csv
import json
import os
from array import array
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, BinaryIO, TextIO

from whence._base.budget import Budget
from whence._base.errors import TraceError
from whence._base.files import atomic_write
from whence._base.records import Record
from whence.gotrace.columnar import ARGS, ColumnReader, Columns
from whence.gotrace.filtering import Filter, clock_at, moves, spans
from whence.gotrace.kernels import filter as filter_kernel
from whence.gotrace.tables import Tables, tables_of

if TYPE_CHECKING:
    from whence.gotrace.feed import Source


TEXT_TIMES = 4096  # one byte of an event can refer to a stack of 128 frames, with two strings each
TEXT_ALLOWANCE = 1 << 26
LONGEST = 1 << 12  # characters of a string in a row


class Block(Record, frozen=True):
    """Rows of one generation with its complete tables; `keep` has the indexes of the rows that a filter selects."""

    columns: Columns
    tables: Tables
    goroutine: array[int]
    thread: memoryview
    keep: list[int] | range
    zero: int  # clock of the first batch of the trace
    text: Budget  # for the text of all rows of the trace

    def nanoseconds(self, row: int) -> int:
        """Return the time of a row since the first batch of the trace."""
        return (self.columns.time[row] - self.zero) * 10**9 // (self.tables.frequency or 10**9)


class FilteredBlocks:
    """Filtered blocks of a binary trace, given as a path or bytes: the trace is read twice, in parallel."""

    def __init__(self, source: Source, selection: Filter | None = None) -> None:
        self.source, self.selection = source, selection or Filter()
        self.size_read = 0  # bytes of the trace whose rows were returned
        self.zero = min((span.start for span in spans(source)), default=0)

    def __iter__(self) -> Iterator[Block]:
        complete = tables_of(self.source)
        tables: Tables | None = None
        running: dict[int, int] = {}
        with ColumnReader(self.source) as reader:
            # grows with the trace as it is read
            text = Budget("wire", "rows of text", 0, times=TEXT_TIMES, allowance=TEXT_ALLOWANCE, error=TraceError)
            self.selection.check(reader.version)
            moved = moves(reader.version)
            kinds = {reader.version.specs[name].type for name in self.selection.events}
            for block in reader:
                while tables is None or tables.generation != block.tables[0].generation:
                    tables = next(complete)
                goroutine = array("Q", bytes(8 * len(block)))
                ends = [*block.batch_row[1:], len(block)]
                for first, last, thread in zip(block.batch_row, ends, block.batch_thread):
                    running[thread] = filter_kernel.attribute(
                        block.type, block.args, first, last, thread, running.get(thread, 0), moved, goroutine
                    )
                keep = self._keep(block, tables, goroutine, kinds)
                self.size_read = reader.size
                text.grow(reader.size_stored)
                yield Block(block, tables, goroutine, block.thread, keep, self.zero, text)

    def _keep(self, block: Columns, tables: Tables, goroutine: array[int], kinds: set[int]) -> list[int] | range:
        selection = self.selection
        if selection.generations and tables.generation not in selection.generations:
            return range(0)
        keep: list[int] | range = range(len(block))
        frequency = tables.frequency or 10**9
        if selection.since is not None:
            since = clock_at(selection.since, self.zero, frequency)
            keep = [row for row in keep if block.time[row] >= since]
        if selection.until is not None:
            until = clock_at(selection.until, self.zero, frequency)
            keep = [row for row in keep if block.time[row] < until]
        if selection.goroutines:
            keep = [row for row in keep if goroutine[row] in selection.goroutines]
        if kinds:
            keep = [row for row in keep if block.type[row] in kinds]
        return keep


def records(block: Block) -> Iterator[dict[str, Any]]:
    """Yield each row as a mapping, as JSON lines have it."""
    columns, tables = block.columns, block.tables
    specs = columns.version.specs.by_type
    for row in block.keep:
        spec = specs[columns.type[row]]
        numbers = columns.args[ARGS * row : ARGS * row + len(spec.args) - 1]
        args: dict[str, Any] = {}
        stack = 0
        for name, value in zip(spec.args[1:], numbers):
            if name == "stack":
                stack = value
            elif name.endswith("_string"):
                args[name.removesuffix("_string")] = text_of(tables, value)
            else:
                args[name] = value
        frames = [
            f"{text_of(tables, frame.function)} {text_of(tables, frame.file)}:{frame.line}"
            for frame in tables.stacks.get(stack, ())
        ]
        block.text.charge(sum(map(len, frames)) + sum(len(value) for value in args.values() if isinstance(value, str)))
        yield {
            "generation": tables.generation,
            "time_ns": block.nanoseconds(row),
            "thread": block.thread[row],
            "goroutine": block.goroutine[row],
            "event": spec.name,
            "args": args,
            "stack": frames,
        }


def text_of(tables: Tables, string: int) -> str:
    """Return a string by its id, shortened to LONGEST characters."""
    text = tables.strings.get(string, b"")[: 4 * LONGEST + 4].decode("utf-8", "surrogateescape")
    return text if len(text) <= LONGEST else text[: LONGEST - 1] + "…"


def write_jsonl(rows: FilteredBlocks, out: TextIO) -> int:
    """Write one JSON object per line; return the number of rows."""
    count = 0
    for block in rows:
        for record in records(block):
            out.write(json.dumps(record) + "\n")
            count += 1
    return count


def write_csv(rows: FilteredBlocks, out: TextIO) -> int:
    """Write rows as CSV; return their number.

    Columns: generation, time_ns, thread, goroutine, event, args (name=value, separated by spaces), stack (innermost
    first).
    """
    count = 0
    out.write("generation,time_ns,thread,goroutine,event,args,stack\n")
    writer = csv.writer(out, lineterminator="\n")
    for block in rows:
        for record in records(block):
            args = " ".join(f"{name}={value}" for name, value in record["args"].items())
            stack = ";".join(record["stack"])
            writer.writerow([*(record[name] for name in CSV_NUMBERS), args, stack])
            count += 1
    return count


CSV_NUMBERS = ("generation", "time_ns", "thread", "goroutine", "event")


class _Positioned:
    """A write-only binary file that counts its position: Parquet needs one, a pipe has none."""

    def __init__(self, file: BinaryIO) -> None:
        self._file, self._position = file, 0
        self.closed = False

    def write(self, data: bytes) -> int:
        self._file.write(data)
        self._position += len(data)
        return len(data)

    def tell(self) -> int:
        return self._position

    def flush(self) -> None:
        self._file.flush()

    def close(self) -> None:
        self.closed = True

    def writable(self) -> bool:
        return True

    def readable(self) -> bool:
        return False

    def seekable(self) -> bool:
        return False


def write_parquet(rows: FilteredBlocks, out: str | os.PathLike[str] | BinaryIO) -> int:
    """Write rows as Parquet; return their number. Needs pyarrow.

    Columns: generation, time_ns, thread, goroutine, event, arg1 to arg4, stack (id), string, second_string (texts).

    Args:
        rows: the rows.
        out: a path, or a binary file, which need not be seekable.
    """
    if isinstance(out, str | os.PathLike):
        with atomic_write(out) as file:
            return write_parquet(rows, file)
    import numpy
    import pyarrow
    from pyarrow import parquet

    positioned = _Positioned(out)
    writer = None
    count = 0
    try:
        for block in rows:
            table = block.columns.to_arrow()
            scale = 10**9 / (block.tables.frequency or 10**9)
            since = ((table["time"].to_numpy() - numpy.uint64(block.zero)) * scale).astype("int64")
            table = table.drop_columns(["time"]).append_column("time_ns", pyarrow.array(since))
            table = table.append_column("goroutine", pyarrow.array(numpy.asarray(block.goroutine)))
            table = table.set_column(0, "event", table["event"].cast(pyarrow.string()))
            for name in ("string", "second_string"):
                ids = table[name].to_numpy()
                unique, inverse = numpy.unique(ids, return_inverse=True)
                unique_texts = [block.tables.text(int(i)).encode("utf-8", "replace").decode() for i in unique]
                texts = pyarrow.array(unique_texts, pyarrow.string()).take(pyarrow.array(inverse))
                table = table.set_column(table.schema.get_field_index(name), name, texts)
            if len(block.keep) != len(block.columns):
                table = table.take(pyarrow.array(list(block.keep), pyarrow.int64()))
            writer = writer or parquet.ParquetWriter(positioned, table.schema)
            writer.write_table(table)
            count += len(table)
        if writer is None:
            parquet.write_table(pyarrow.table({"generation": pyarrow.array([], pyarrow.uint64())}), positioned)
    finally:
        if writer is not None:
            writer.close()
    return count
