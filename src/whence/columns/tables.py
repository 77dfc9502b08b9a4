"""Files of tables, read and named batch by batch: Parquet, Arrow IPC, CSV, JSON lines.

A table is never in memory whole: a batch is read while the one before is named and the one before that is written.
What a file claims is checked before pyarrow allocates it (`columns.pages`, `columns.ipc`, `columns.lines`), every batch
is validated in full, and cut where its rows hold too much (`columns.checks`).
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
from whence.columns.checks import BrokenTable, broken, check_batch, check_schema, pieces, size_of
from whence.columns.ipc import CheckedMessages, SteadyFile
from whence.columns.lines import BLOCK, check_csv_header, read_json
from whence.columns.writing import ARROW_MAGIC, TableKind, TableWriter, arrow
from whence.objects.elf.layout import MAGIC as ELF_MAGIC

if TYPE_CHECKING:
    from whence.columns.namer import Namer

__all__ = ["BrokenTable", "TableKind", "TableReader", "TableWriter", "looks_decimal", "name_table"]

T = TypeVar("T")

AHEAD = 1  # batches that wait between reading, naming and writing
NOT_TO_DICTIONARIES = {pages.DELTA_BYTE_ARRAY, pages.DELTA_LENGTH_BYTE_ARRAY}  # what pyarrow reads as texts only
HEAD = 8  # bytes that say what a file is
MOST_ITEMS = 1 << 16  # columns or row groups in a list of a Parquet file's footer
BUDGET_TIMES, BUDGET_ALLOWANCE = 4096, 1 << 30  # of what a table's rows hold together


class TableReader:
    """A table file: its schema and its batches, valid and of bounded size. A context manager.

    `path` is "-" for stdin, `kind` None for what the path's ending or the first bytes say. `build_id` and `address` are
    columns, both of which are texts in CSV, whatever they look like. Texts of Parquet are read as dictionaries, `types`
    is its own schema. Raises OSError, BrokenTable, WrongUse without pyarrow.
    """

    def __init__(self, path: str, kind: TableKind | None, *, build_id: str, address: str) -> None:
        self.name = "stdin" if path == "-" else path
        self.exploded = False  # each row will be repeated for its frames
        self.rows = 0  # as far as the file says
        self._stack = ExitStack()
        self._build_id, self._address = build_id, address
        pa = arrow()
        try:
            file = self._opened(path)
            head = file.peek(HEAD)[:HEAD]  # type: ignore[attr-defined]
            self.kind = kind or (TableKind.of_name(path) if path != "-" else None) or TableKind.of_head(head)
            if not head:
                raise BrokenTable("file", 0, "a table", "", fault="the file is empty", path=self.name)
            if head.startswith(ELF_MAGIC):
                raise BrokenTable("file", 0, "a table", head, fault="an ELF file, not a table", path=self.name)
            if self.kind is TableKind.PARQUET or head.startswith(ARROW_MAGIC):
                file = self._seekable(file)
            stored = os.fstat(file.fileno()).st_size if file.seekable() else 0
            self.budget = Budget(
                "table", "its rows", stored, times=BUDGET_TIMES, allowance=BUDGET_ALLOWANCE, error=BrokenTable
            )
            with self.wording():
                self.schema, self.batches = self._read(pa, file, head)
                check_schema(self.schema)
                self.types = self.schema if self.kind is not TableKind.PARQUET else self._types
        except BaseException:
            self._stack.close()
            raise

    def _opened(self, path: str) -> BinaryIO:
        if path == "-":
            return self._stack.enter_context(open(0, "rb", BLOCK, closefd=False))
        return self._stack.enter_context(open_input(path, BrokenTable, buffering=BLOCK))

    def _read(self, pa: Any, file: BinaryIO, head: bytes) -> tuple[Any, Iterator[Any]]:
        match self.kind:
            case TableKind.PARQUET:
                return self._read_parquet(pa, file)
            case TableKind.ARROW:
                return self._read_arrow(pa, file, head)
            case TableKind.CSV:
                return self._read_csv(pa, file)
            case TableKind.JSON:
                return read_json(self._counted(file), self._address)

    def _read_parquet(self, pa: Any, file: BinaryIO) -> tuple[Any, Iterator[Any]]:
        from pyarrow import parquet

        steady = SteadyFile(file)
        whole = parquet.ParquetFile(steady, pre_buffer=False, thrift_container_size_limit=MOST_ITEMS)
        self._types = whole.schema_arrow
        check_schema(self._types)
        leaves = [whole.schema.column(number) for number in range(len(whole.schema))]
        descriptor, size = file.fileno(), os.fstat(file.fileno()).st_size

        def read(start: int, most: int) -> bytes:
            return read_at(descriptor, most, start)

        groups = pages.groups_of(read, size)
        if len(groups) != whole.metadata.num_row_groups:
            raise broken("damaged parquet: the footer is malformed")
        delta = {
            number
            for group in groups
            for number, chunk in enumerate(group.chunks)
            if not NOT_TO_DICTIONARIES.isdisjoint(chunk.encodings)
        }
        texts = [
            one.path for number, one in enumerate(leaves) if one.physical_type == "BYTE_ARRAY" and number not in delta
        ]
        table = parquet.ParquetFile(
            steady, metadata=whole.metadata, read_dictionary=texts, pre_buffer=False,
            thrift_container_size_limit=MOST_ITEMS,
        )  # fmt: skip
        types = [type for one in table.schema_arrow for type in _leaf_types(one.type)]
        if len(types) != len(leaves):
            types = [pa.null()] * len(leaves)
        columns = [
            pages.Column(
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
                need = pages.need_of(group, columns, read, size)
                self.budget.charge(need.fixed + need.row * group.rows)
                yield from table.iter_batches(batch_size=need.rows, row_groups=[number])

        return table.schema_arrow, batches()

    def _read_arrow(self, pa: Any, file: BinaryIO, head: bytes) -> tuple[Any, Iterator[Any]]:
        batches = None
        if head.startswith(ARROW_MAGIC):  # the file form is a stream, with a footer
            with pa.ipc.open_file(SteadyFile(file)) as whole:
                batches = whole.num_record_batches
            file.seek(HEAD)
        steady = self._counted(file)
        messages = CheckedMessages(pa.ipc.MessageReader.open_stream(steady))
        reader = pa.ipc.open_stream(messages)

        def counted() -> Iterator[Any]:
            claimed = found = 0
            for batch in reader:
                self.budget.charge(messages.claimed - claimed)
                claimed, found = messages.claimed, found + 1
                yield batch
                if found == batches:
                    return
            if batches is not None and found < batches:
                raise broken(f"damaged arrow: the footer says {batches} batches, the file has {found}")

        return reader.schema, counted()

    def _read_csv(self, pa: Any, file: BinaryIO) -> tuple[Any, Iterator[Any]]:
        from pyarrow import csv

        check_csv_header(file.peek(BLOCK)[:BLOCK])  # type: ignore[attr-defined]
        texts = {self._build_id: pa.string(), self._address: pa.string()}
        reader = csv.open_csv(
            self._counted(file),
            read_options=csv.ReadOptions(block_size=BLOCK),
            convert_options=csv.ConvertOptions(column_types=texts, strings_can_be_null=True),
        )
        check_schema(reader.schema)
        for one in reader.schema:
            if pa.types.is_binary(one.type):
                raise broken(f"column {plain(one.name)}: text that is not UTF-8: convert it")
        return reader.schema, iter(reader)

    def _counted(self, file: BinaryIO) -> Any:
        """Return the file for pyarrow; what comes through a pipe counts as stored when it has come."""
        self._steady = SteadyFile(file)
        return self._steady

    def look_ahead(self, look: Callable[[Any], object]) -> None:
        """Have the first batch looked at before it is read."""
        batches = self._pieces()
        first = next(batches, None)
        if first is not None:
            look(first)
            self._waiting = chain([first], batches)

    def _seekable(self, file: BinaryIO) -> BinaryIO:
        """The file; what comes through a pipe is put into a temporary one first."""
        if file.seekable():
            return file
        kept = self._stack.enter_context(tempfile.TemporaryFile())  # noqa: SIM115
        shutil.copyfileobj(file, kept, BLOCK)
        kept.seek(0)
        return kept

    @contextmanager
    def wording(self) -> Iterator[None]:
        """What pyarrow says of a damaged file is an error of the file."""
        pa = arrow()
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
            reason = "text that is not UTF-8: convert it"
        return BrokenTable("file", 0, "", "", fault=f"damaged {self.kind.word}: {plain(reason)}", path=self.name)

    @contextmanager
    def named_errors(self) -> Iterator[None]:
        """What is said of the table's columns names the file."""
        try:
            yield
        except WrongUse as error:
            raise WrongUse(f"{plain(self.name)}: {error}") from None

    def __iter__(self) -> Iterator[Any]:
        yield from self._waiting or self._pieces()

    _waiting: Iterator[Any] | None = None

    def _pieces(self) -> Iterator[Any]:
        batches = self._valid()
        while True:
            with self.wording():
                batch = next(batches, None)
            if batch is None:
                return
            yield batch

    def _valid(self) -> Iterator[Any]:
        for batch in self.batches:
            check_batch(batch)
            if self._steady is not None:
                self.budget.grow(max(self.budget.stored, self._steady.count))
            yield from pieces(batch, self._address, exploded=self.exploded)

    _steady: SteadyFile | None = None

    def charge(self, piece: Any, *, expanded: bool) -> None:
        """Charge what a piece's rows hold. Raises BrokenTable."""
        with self.wording():
            self.budget.charge(sum(size_of(column, expanded=expanded) for column in piece.columns))

    def __enter__(self) -> TableReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _leaf_types(type: Any) -> Iterator[Any]:
    """The types of a type's leaves, in the order of Parquet's columns."""
    if hasattr(type, "storage_type"):
        type = type.storage_type
    if not type.num_fields or arrow().types.is_dictionary(type):
        yield type
        return
    for number in range(type.num_fields):
        yield from _leaf_types(type.field(number).type)


class Inline(Executor):
    """Does what it is given at once."""

    def submit(self, work: Callable[..., T], /, *args: Any, **named: Any) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(work(*args, **named))
        except Exception as error:
            future.set_exception(error)
        return future


def looks_decimal(batch: Any, address: str) -> bool:
    """Whether a column of texts has addresses without a letter, nearly surely decimal ones (of a hex number with six
    digits one in twenty has no letter)."""
    import pyarrow.compute as pc

    if address not in batch.schema.names:
        return False
    column = batch.column(address)
    if not arrow().types.is_string(column.type):
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
    """Write a table with names added to a file; return how many rows there were.

    Reading, naming and writing overlap, except without `threads`: for a machine with one core and many files. `path` is
    "-" for stdout.
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
        for one in pending:
            one.result()
    return rows


def _ahead(items: Iterator[Any], threads: bool) -> Iterator[Any]:
    """The same items, the next of which is made while one is worked on."""
    if not threads:
        yield from items
        return
    with ThreadPoolExecutor(1) as making:
        following = [making.submit(next, items, None) for _ in range(AHEAD)]
        while (item := following.pop(0).result()) is not None:
            following.append(making.submit(next, items, None))
            yield item
