"""Read table files and name them batch by batch: Parquet, Arrow IPC, CSV, JSON lines.

Only a few batches are in memory: one is read while the previous is named and the one before that is written. What a
file claims is checked before pyarrow allocates memory for it (`columns.pages`, `columns.ipc`, `columns.lines`). Each
batch is validated in full, and cut if its rows are too large (`columns.checks`).
"""

from __future__ import annotations

import os
import shutil
import tempfile
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from whence._base.budget import Budget
from whence._base.errors import WrongUse, plain
from whence._base.files import open_input, read_at
from whence.columns import pages
from whence.columns.arrow import pa, pc
from whence.columns.checks import BrokenTable, broken, check_batch, check_schema, pieces, size_of
from whence.columns.ipc import CheckedMessages, SteadyFile
from whence.columns.lines import BLOCK, check_csv_header, read_json
from whence.columns.writing import ARROW_MAGIC, TableKind, TableWriter
from whence.objects.elf.layout import MAGIC as ELF_MAGIC

if TYPE_CHECKING:
    from whence.columns.namer import Namer

__all__ = ["BrokenTable", "TableKind", "TableReader", "TableWriter", "looks_decimal", "name_table"]

T = TypeVar("T")

AHEAD = 1  # batches queued between reading, naming and writing
NOT_TO_DICTIONARIES = {
    pages.DELTA_BYTE_ARRAY,
    pages.DELTA_LENGTH_BYTE_ARRAY,
}  # encodings that pyarrow can't read as dictionaries
HEAD = 8  # bytes with the magic of a file
MAX_ITEMS = 1 << 16  # columns or row groups in a list of a Parquet file's footer
BUDGET_TIMES, BUDGET_ALLOWANCE = 4096, 1 << 30  # limit of the bytes of all rows


class TableReader:
    """Reads a table file: its schema, and valid batches of bounded size. A context manager and an iterable.

    Args:
        path: "-" for stdin.
        kind: None to decide by the path's ending or the first bytes.
        build_id, address: columns that are read as texts from CSV, even if they look like numbers.

    `schema` has dictionaries for the texts of a Parquet file; `types` is the schema that the file declares.

    Raises OSError and BrokenTable.
    """

    def __init__(self, path: str, kind: TableKind | None, *, build_id: str, address: str) -> None:
        self.name = "stdin" if path == "-" else path
        self.exploded = False  # the caller repeats each row for its frames
        self.rows = 0  # as the file claims; 0 if it does not say
        self._stack = ExitStack()
        self._build_id, self._address = build_id, address
        self._file: SteadyFile | None = None
        self._first: Iterator[Any] | None = None  # the batches, if the first was read ahead
        try:
            file = self._opened(path)
            head = file.peek(HEAD)[:HEAD]  # type: ignore[attr-defined]
            self.kind = kind or (TableKind.of_name(path) if path != "-" else None) or TableKind.of_head(head)
            if not head:
                raise BrokenTable("", None, "the file is empty", path=self.name)
            if head.startswith(ELF_MAGIC):
                raise BrokenTable("", None, "an ELF file, not a table", path=self.name)
            if self.kind is TableKind.PARQUET or head.startswith(ARROW_MAGIC):
                file = self._seekable(file)
            stored = os.fstat(file.fileno()).st_size if file.seekable() else 0
            self.budget = Budget(
                "table", "its rows", stored, times=BUDGET_TIMES, allowance=BUDGET_ALLOWANCE, error=BrokenTable
            )
            with self.errors_of_file():
                self.schema, self.batches = self._read(file, head)
                check_schema(self.schema)
                self.types = self.schema if self.kind is not TableKind.PARQUET else self._types
        except BaseException:
            self._stack.close()
            raise

    def _opened(self, path: str) -> BinaryIO:
        if path == "-":
            return self._stack.enter_context(open(0, "rb", BLOCK, closefd=False))
        return self._stack.enter_context(open_input(path, BrokenTable, buffering=BLOCK))

    def _read(self, file: BinaryIO, head: bytes) -> tuple[Any, Iterator[Any]]:
        match self.kind:
            case TableKind.PARQUET:
                return self._read_parquet(file)
            case TableKind.ARROW:
                return self._read_arrow(file, head)
            case TableKind.CSV:
                return self._read_csv(file)
            case TableKind.JSON:
                return read_json(self._counted(file), self._address)

    def _read_parquet(self, file: BinaryIO) -> tuple[Any, Iterator[Any]]:
        from pyarrow import parquet

        steady = SteadyFile(file)
        declared = parquet.ParquetFile(steady, pre_buffer=False, thrift_container_size_limit=MAX_ITEMS)
        self._types = declared.schema_arrow
        check_schema(self._types)
        leaves = [declared.schema.column(number) for number in range(len(declared.schema))]
        descriptor, size = file.fileno(), os.fstat(file.fileno()).st_size

        def read(start: int, limit: int) -> bytes:
            return read_at(descriptor, limit, start)

        groups = pages.groups_of(read, size)
        if len(groups) != declared.metadata.num_row_groups:
            raise broken("damaged parquet: the footer is malformed")
        delta = {
            number
            for group in groups
            for number, chunk in enumerate(group.chunks)
            if not NOT_TO_DICTIONARIES.isdisjoint(chunk.encodings)
        }
        texts = [
            leaf.path
            for number, leaf in enumerate(leaves)
            if leaf.physical_type == "BYTE_ARRAY" and number not in delta
        ]
        table = parquet.ParquetFile(
            steady, metadata=declared.metadata, read_dictionary=texts, pre_buffer=False,
            thrift_container_size_limit=MAX_ITEMS,
        )  # fmt: skip
        types = [type for field in table.schema_arrow for type in _leaf_types(field.type)]
        if len(types) != len(leaves):
            types = [pa.null()] * len(leaves)
        columns = [
            pages.LeafColumn(
                plain(leaf.path),
                0 if leaf.physical_type == "BYTE_ARRAY" else pages.WIDTHS.get(leaf.physical_type, leaf.length),
                leaf.max_repetition_level > 0,
                pa.types.is_dictionary(type),
            )
            for leaf, type in zip(leaves, types, strict=True)
        ]  # fmt: skip
        self.rows = table.metadata.num_rows

        def batches() -> Iterator[Any]:
            for number, group in enumerate(groups):
                decoded = pages.decoded_size(group, columns, read, size)
                self.budget.charge(decoded.fixed + decoded.row * group.rows)
                yield from table.iter_batches(batch_size=decoded.rows, row_groups=[number])

        return table.schema_arrow, batches()

    def _read_arrow(self, file: BinaryIO, head: bytes) -> tuple[Any, Iterator[Any]]:
        batches = None
        if head.startswith(ARROW_MAGIC):  # the file form is a stream, with a footer
            with pa.ipc.open_file(SteadyFile(file)) as footer:
                batches = footer.num_record_batches
            file.seek(HEAD)
        steady = self._counted(file)
        messages = CheckedMessages(pa.ipc.MessageReader.open_stream(steady))
        reader = pa.ipc.open_stream(messages)

        def counted() -> Iterator[Any]:
            claimed = count = 0
            for batch in reader:
                self.budget.charge(messages.claimed - claimed)
                claimed, count = messages.claimed, count + 1
                yield batch
                if count == batches:
                    return
            if batches is not None and count < batches:
                raise broken(f"damaged arrow: the footer says {batches} batches, but the file has {count}")

        return reader.schema, counted()

    def _read_csv(self, file: BinaryIO) -> tuple[Any, Iterator[Any]]:
        from pyarrow import csv

        check_csv_header(file.peek(BLOCK)[:BLOCK])  # type: ignore[attr-defined]
        texts = {self._build_id: pa.string(), self._address: pa.string()}
        reader = csv.open_csv(
            self._counted(file),
            read_options=csv.ReadOptions(block_size=BLOCK),
            convert_options=csv.ConvertOptions(column_types=texts, strings_can_be_null=True),
        )
        check_schema(reader.schema)
        for field in reader.schema:
            if pa.types.is_binary(field.type):
                raise broken(f"column {plain(field.name)}: text that is not UTF-8: convert the text")
        return reader.schema, iter(reader)

    def _counted(self, file: BinaryIO) -> Any:
        """Return the file for pyarrow, counting the bytes read: the size of a pipe is not known before its end."""
        self._file = SteadyFile(file)
        return self._file

    def look_ahead(self, look: Callable[[Any], object]) -> None:
        """Call `look` with the first batch, which iteration still returns."""
        batches = self._pieces()
        first = next(batches, None)
        if first is not None:
            look(first)
            self._first = chain([first], batches)

    def _seekable(self, file: BinaryIO) -> BinaryIO:
        """Return the file, or a temporary copy of a pipe's content."""
        if file.seekable():
            return file
        copy = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        shutil.copyfileobj(file, copy, BLOCK)
        copy.seek(0)
        return copy

    @contextmanager
    def errors_of_file(self) -> Iterator[None]:
        """Raise pyarrow's errors about a damaged file as BrokenTable, with the path."""
        try:
            yield
        except BrokenTable as error:
            raise error.in_file(self.name) from None
        except OSError as error:
            if error.errno is not None:
                raise
            raise self._damaged(error) from None
        except (pa.ArrowException, UnicodeDecodeError, SystemError, OverflowError, ValueError) as error:
            raise self._damaged(error) from None

    def _damaged(self, error: Exception) -> BrokenTable:
        reason = (str(error).splitlines() or [type(error).__name__])[0]
        if isinstance(error, UnicodeDecodeError):
            reason = "text that is not UTF-8: convert the text"
        return BrokenTable("", None, f"damaged {self.kind.word}: {plain(reason)}", path=self.name)

    @contextmanager
    def named_errors(self) -> Iterator[None]:
        """Add the path to a WrongUse about the table's columns."""
        try:
            yield
        except WrongUse as error:
            raise WrongUse(f"{plain(self.name)}: {error}") from None

    def __iter__(self) -> Iterator[Any]:
        yield from self._first or self._pieces()

    def _pieces(self) -> Iterator[Any]:
        batches = self._valid()
        while True:
            with self.errors_of_file():
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def _valid(self) -> Iterator[Any]:
        for batch in self.batches:
            check_batch(batch)
            if self._file is not None:
                self.budget.grow(max(self.budget.stored, self._file.count))
            yield from pieces(batch, self._address, exploded=self.exploded)

    def charge(self, piece: Any, *, expanded: bool) -> None:
        """Charge the bytes of a batch's rows to the budget. Raises BrokenTable."""
        with self.errors_of_file():
            self.budget.charge(sum(size_of(column, expanded=expanded) for column in piece.columns))

    def __enter__(self) -> TableReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _leaf_types(type: Any) -> Iterator[Any]:
    """Yield the types of a type's leaves, in the order of Parquet's columns."""
    if hasattr(type, "storage_type"):
        type = type.storage_type
    if not type.num_fields or pa.types.is_dictionary(type):
        yield type
        return
    for number in range(type.num_fields):
        yield from _leaf_types(type.field(number).type)


class Inline(Executor):
    """An executor that runs each call immediately, in the calling thread."""

    def submit(self, work: Callable[..., T], /, *args: Any, **named: Any) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(work(*args, **named))
        except Exception as error:
            future.set_exception(error)
        return future


def looks_decimal(batch: Any, address: str) -> bool:
    """Return True if a column of texts has no letters, so that its addresses are very likely decimal.

    About 6 % of hex numbers of six digits have no letter.
    """
    if address not in batch.schema.names:
        return False
    column = batch.column(address)
    if not pa.types.is_string(column.type):
        return False
    return bool(column.null_count < len(column)) and not pc.any(pc.match_substring_regex(column, "[a-fA-FxX]")).as_py()


def name_table(
    reader: TableReader,
    namer: Namer,
    path: str,
    kind: TableKind,
    progress: Callable[[int], object] = lambda rows: None,
    *,
    threads: bool = True,
) -> int:
    """Write a table with names added to a file; return the number of rows.

    Args:
        path: "-" for stdout.
        kind: the kind of file to write.
        progress: called after each batch, with the number of rows so far.
        threads: read, name and write at the same time; without, on one thread.
    """
    reader.exploded = namer.exploded
    with reader.named_errors():
        schema = namer.schema(reader.schema).with_metadata(reader.schema.metadata)
        types = namer.schema(reader.types).with_metadata(reader.types.metadata)
    rows = 0
    writing = ThreadPoolExecutor(1) if threads else Inline()
    with TableWriter(path, kind, schema, namer.added, types) as writer, writing:
        pending: deque[Future[None]] = deque()
        for batch in _ahead(iter(reader), threads):
            reader.charge(batch, expanded=writer.is_plain)
            with reader.named_errors():
                named = namer(batch)
            pending.append(writing.submit(writer.write, named))
            if len(pending) > AHEAD:
                pending.popleft().result()
            rows += batch.num_rows
            progress(rows)
        for future in pending:
            future.result()
    return rows


def _ahead(items: Iterator[Any], threads: bool) -> Iterator[Any]:
    """Yield the items, making the next one on another thread while the caller works on the current one."""
    if not threads:
        yield from items
        return
    with ThreadPoolExecutor(1) as making:
        following = [making.submit(next, items, None) for _ in range(AHEAD)]
        while (item := following.pop(0).result()) is not None:
            following.append(making.submit(next, items, None))
            yield item
