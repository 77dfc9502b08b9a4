"""Files of tables, read and written batch by batch by pyarrow: Parquet, Arrow IPC, CSV, JSON lines.

A table is never in memory whole: a batch is read while the one before is named and those before that are written.
Row groups of Parquet are encoded by several threads. Of a Parquet file that becomes one with more columns, only the
columns that say what is asked are decoded; all are copied as they are stored (`columns.row_groups`).
"""

from __future__ import annotations

import enum
import io
import shutil
import sys
import tempfile
from collections import deque
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import chain
from typing import TYPE_CHECKING, Any, BinaryIO, TypeVar

from whence.columns.kernels.batch import RecordBatch
from whence.columns.names_encoded import columns_of, encoded
from whence.columns.plain import plain as plain_table
from whence.columns.plain import plain_schema
from whence.columns.row_groups import MAGIC as PARQUET_MAGIC
from whence.columns.row_groups import BrokenGroup, JoinedFile, Stored, StoredTable, widened
from whence.cores import available
from whence.elf.layout import MAGIC as ELF_MAGIC
from whence.errors import FormatError, WrongUse, plain
from whence.files import atomic_write, open_input

if TYPE_CHECKING:
    from whence.columns.namer import Namer

T = TypeVar("T")

ROWS, FEWEST_ROWS = 1 << 20, 1 << 12  # of a batch of Parquet, at most and at least
ADDRESSES = 1 << 19  # of a batch of Parquet with lists, about
BATCH_BYTES = 1 << 26  # of a batch of Parquet as it is stored, about
GROUP = 1 << 20  # rows of a row group of Parquet that is written
GROUP_BYTES = 1 << 26  # the same in memory
ENCODERS = 3  # threads that encode row groups, at most: naming keeps no more of them busy
FEWEST_COPIED = 1 << 16  # rows of a row group on average: groups that are smaller are joined instead of copied
MOST_COPIED = 1 << 22  # rows of a row group that is copied, all of which are in memory while they are named
MOST_IN_LISTS = 1 << 20  # addresses of such a group where they lie in lists
FEW_VALUES = 1 << 12  # of a column that are written to Parquet at once where they may be long
CODEC = "zstd"
FEW_GROUPS = 16  # of a file, whose sizes are looked at
BLOCK = 1 << 22  # bytes of CSV and JSON that are read at once
AHEAD = 1  # batches that wait between reading, naming and writing
STREAM = ".arrows"  # Arrow IPC's stream; other endings are its file form
HEAD = 8  # bytes that say what a file is
ARROW_MAGIC = b"ARROW1"  # of Arrow IPC's file form
ARROW_CONTINUATION = b"\xff\xff\xff\xff"  # each message of its stream begins so


class TableKind(enum.Enum):
    """A kind of table file: the word for it, and how its files' names end."""

    PARQUET = "parquet", (".parquet", ".pq")
    ARROW = "arrow", (".arrow", ".feather", ".ipc", ".arrows")
    CSV = "csv", (".csv",)
    JSON = "json", (".jsonl", ".ndjson", ".json")

    @property
    def word(self) -> str:
        return str(self.value[0])

    @classmethod
    def of_word(cls, word: str) -> TableKind:
        return next(one for one in cls if one.word == word)

    @classmethod
    def of_name(cls, path: str) -> TableKind | None:
        """By how a path ends; None where that says nothing."""
        return next((one for one in cls if path.lower().endswith(one.value[1])), None)

    @classmethod
    def of_head(cls, head: bytes) -> TableKind:
        """By a file's first bytes; CSV where they say nothing."""
        if head.startswith(PARQUET_MAGIC):
            return cls.PARQUET
        if head.startswith((ARROW_MAGIC, ARROW_CONTINUATION)):
            return cls.ARROW
        return cls.JSON if head.lstrip()[:1] == b"{" else cls.CSV


class BrokenTable(FormatError):
    """A file that is not the table it begins like."""


def arrow() -> Any:
    """pyarrow. WrongUse that says how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise WrongUse("reading and writing tables needs pyarrow: pip install 'whence[arrow]'") from None
    return pyarrow


class TableReader:
    """A table file: its schema and its batches. A context manager.

    `path` is "-" for stdin, `kind` None for what the path's ending or the first bytes say. `build_id` and `address` are
    columns: the texts of the first repeat, and both are texts in CSV, whatever they look like. Raises OSError,
    BrokenTable, WrongUse without pyarrow.
    """

    def __init__(self, path: str, kind: TableKind | None, *, build_id: str, address: str) -> None:
        self.name = "stdin" if path == "-" else path
        self._stack = ExitStack()
        pa = arrow()
        self.rows = 0  # as far as the file says
        self._parquet: Any = None
        self._address = address
        try:
            file = self._opened(path)
            head = file.peek(HEAD)[:HEAD]  # type: ignore[attr-defined]
            self.kind = kind or (TableKind.of_name(path) if path != "-" else None) or TableKind.of_head(head)
            if not head:
                raise BrokenTable("file", 0, "a table", "", fault="the file is empty", path=self.name)
            if head.startswith(ELF_MAGIC):
                raise BrokenTable("file", 0, "a table", head, fault="an ELF file, not a table", path=self.name)
            with self.wording():
                self.schema, self.batches = self._read(pa, file, head, build_id, address)
        except BaseException:
            self._stack.close()
            raise

    def _opened(self, path: str) -> BinaryIO:
        if path == "-":
            return self._stack.enter_context(open(0, "rb", BLOCK, closefd=False))
        return self._stack.enter_context(open_input(path, BrokenTable, buffering=BLOCK))

    def _read(self, pa: Any, file: BinaryIO, head: bytes, build_id: str, address: str) -> tuple[Any, Iterator[Any]]:
        match self.kind:
            case TableKind.PARQUET:
                from pyarrow import parquet

                file = self._seekable(file)
                schema = parquet.read_schema(file)
                repeated = [build_id] if build_id in schema.names else []
                table = parquet.ParquetFile(file, read_dictionary=repeated, pre_buffer=False)
                self._parquet, self._file, self._stored_schema = table, file, schema
                self.rows = table.metadata.num_rows
                return table.schema_arrow, table.iter_batches(batch_size=rows_at_once(table.metadata, address))
            case TableKind.ARROW:
                if head.startswith(ARROW_MAGIC):
                    reader = pa.ipc.open_file(self._seekable(file))
                    batches = (reader.get_batch(at) for at in range(reader.num_record_batches))
                else:
                    reader = pa.ipc.open_stream(file)
                    batches = iter(reader)
                return reader.schema, _checked(batches, build_id, address)
            case TableKind.CSV:
                from pyarrow import csv

                texts = {build_id: pa.string(), address: pa.string()}
                reader = csv.open_csv(
                    file,
                    read_options=csv.ReadOptions(block_size=BLOCK),
                    convert_options=csv.ConvertOptions(column_types=texts, strings_can_be_null=True),
                )
                return reader.schema, iter(reader)
            case TableKind.JSON:
                from pyarrow import json

                reader = json.open_json(
                    file,
                    read_options=json.ReadOptions(block_size=BLOCK),
                    parse_options=json.ParseOptions(explicit_schema=_unsigned(file, address)),
                )
                return reader.schema, iter(reader)

    def stored(self) -> tuple[Any, StoredTable] | None:
        """The schema and the row groups of a Parquet file that can be copied; None for others."""
        if self._parquet is None:
            return None
        metadata, schema = self._parquet.metadata, self._stored_schema
        if metadata.num_row_groups > 1 and metadata.num_rows < FEWEST_COPIED * metadata.num_row_groups:
            return None
        if not metadata.num_row_groups or len(set(schema.names)) < len(schema.names):
            return None
        found = StoredTable.to_copy(self._file)
        if found is None or max(one.rows for one in found.groups) > MOST_COPIED:
            return None
        is_list = any(arrow().types.is_nested(one.type) for one in schema if one.name == self._address)
        if is_list and found.most_values(self._address) > MOST_IN_LISTS:
            return None
        return schema, found

    def batches_of_groups(self, columns: list[str]) -> Iterator[list[Any]]:
        """The batches of each row group of a Parquet file, with these columns alone."""
        rows = rows_at_once(self._parquet.metadata, self._address, columns)
        for number in range(self._parquet.metadata.num_row_groups):
            with self.wording():
                yield list(self._parquet.iter_batches(batch_size=rows, row_groups=[number], columns=columns))

    def look_ahead(self, look: Callable[[Any], object]) -> None:
        """Have the first batch looked at before it is read."""
        first = next(iter(self), None)
        if first is not None:
            look(first)
            self.batches = chain([first], self.batches)

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
        except (pa.ArrowException, UnicodeDecodeError, BrokenGroup) as error:
            fault = f"damaged {self.kind.word}: {plain(str(error).splitlines()[0])}"
            raise BrokenTable("file", 0, "", "", fault=fault, path=self.name) from None

    @contextmanager
    def named_errors(self) -> Iterator[None]:
        """What is said of the table's columns names the file."""
        try:
            yield
        except WrongUse as error:
            raise WrongUse(f"{plain(self.name)}: {error}") from None

    def __iter__(self) -> Iterator[Any]:
        while True:
            with self.wording():
                batch = next(self.batches, None)
            if batch is None:
                return
            yield batch

    def __enter__(self) -> TableReader:
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()


def _unsigned(file: BinaryIO, address: str) -> Any:
    """A schema that makes the addresses of JSON lines unsigned, where pyarrow would take those from 2^63 on, such as a
    kernel's, for floating-point numbers; None where it would not."""
    from pyarrow import json

    pa = arrow()
    lines = file.peek(BLOCK)[:BLOCK].rpartition(b"\n")[0]  # type: ignore[attr-defined]
    try:
        type = json.read_json(io.BytesIO(lines)).schema.field(address).type if lines else pa.null()
    except (pa.ArrowException, KeyError):
        return None  # said when it is read
    if pa.types.is_float64(type):
        return pa.schema({address: pa.uint64()})
    if pa.types.is_list(type) and pa.types.is_float64(type.value_type):
        return pa.schema({address: pa.list_(pa.uint64())})
    return None


def rows_at_once(metadata: Any, address: str, read: Collection[str] | None = None) -> int:
    """How many rows of a Parquet file are read at once: fewer where they are long or have many addresses. `read` are
    the columns that are (default: all)."""
    groups = [metadata.row_group(number) for number in range(min(metadata.num_row_groups, FEW_GROUPS))]
    rows = sum(one.num_rows for one in groups)
    columns = [one.column(number) for one in groups for number in range(one.num_columns)]
    if read is not None:
        columns = [one for one in columns if one.path_in_schema.partition(".")[0] in read]
    stored = sum(one.total_uncompressed_size for one in columns)
    addresses = sum(one.num_values for one in columns if one.path_in_schema.startswith(f"{address}."))
    most = min(ROWS, rows * ADDRESSES // max(addresses, 1), rows * BATCH_BYTES // max(stored, 1))
    return max(int(most), FEWEST_ROWS)


def _checked(batches: Iterator[Any], *names: str) -> Iterator[Any]:
    """Batches of Arrow IPC, whose offsets nothing has looked at yet: those of the columns that are read here."""
    for batch in batches:
        batch.validate()
        for name in names:
            if name in batch.schema.names:
                batch.column(name).validate(full=True)
        yield batch


class TableWriter:
    """A table file that is written batch by batch, whole or not at all. A context manager.

    `path` is "-" for stdout. `added` are the columns of names, the last ones: Parquet gets no statistics of those,
    which nobody asks for. `stored` is a table whose row groups are copied (`copy`, in place of `write`), as far as
    they go. Without `threads` row groups are encoded in the caller's. WrongUse for lists in CSV.
    """

    def __init__(
        self,
        path: str,
        kind: TableKind,
        schema: Any,
        added: Collection[str] = (),
        stored: StoredTable | None = None,
        *,
        threads: bool = True,
    ) -> None:
        pa = arrow()
        self._added = frozenset(added)
        self.kind, self.schema = kind, schema
        if kind is TableKind.CSV and any(pa.types.is_nested(one.type) for one in schema):
            raise WrongUse("a CSV file has no lists: use --leaf or --exploded, or write Parquet or JSON lines")
        self._is_stream = path == "-" or path.lower().endswith(STREAM)
        self._stack = ExitStack()
        try:
            if path == "-":
                self._file: BinaryIO = sys.stdout.buffer
            else:
                self._file = self._stack.enter_context(atomic_write(path))
            if kind is TableKind.PARQUET:
                with self._wording():
                    self._groups = GroupWriter(self._file, schema, self._added, stored, threads)
                self._stack.enter_context(self._groups)
        except BaseException:
            self._stack.__exit__(*sys.exc_info())
            raise
        self._waiting: list[Any] = []
        self._rows = self._bytes = 0
        self._writer: Any = None

    @contextmanager
    def _wording(self) -> Iterator[None]:
        pa = arrow()
        try:
            yield
        except pa.ArrowException as error:
            message = plain(str(error).splitlines()[0])
            raise WrongUse(f"a {self.kind.word} file can't hold this table: {message}") from None

    def write(self, batch: Any) -> None:
        """WrongUse for what such a file can't hold."""
        with self._wording():
            self._write(batch)

    def copy(self, group: Stored, names: list[RecordBatch]) -> None:
        """A row group of Parquet as it is stored, with batches of added columns."""
        with self._wording():
            self._groups.add(group, names)

    def _write(self, batch: Any) -> None:
        match self.kind:
            case TableKind.PARQUET:
                self._waiting.append(batch)
                self._rows += batch.num_rows
                self._bytes += batch.nbytes
                if self._rows >= GROUP or self._bytes >= GROUP_BYTES:
                    self._write_group()
            case TableKind.ARROW:
                self._started().write(batch if self._is_stream else plain_table(batch))
            case TableKind.CSV:
                self._started().write_table(plain_table(batch))
            case TableKind.JSON:
                import json

                lines = (json.dumps(row, default=_shown) for row in batch.to_pylist())
                self._file.write("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"))

    def _started(self) -> Any:
        if self._writer is None:
            pa = arrow()
            if self.kind is TableKind.ARROW:
                if self._is_stream:
                    self._writer = pa.ipc.new_stream(self._file, self.schema)
                else:  # whose dictionaries may not change: without them
                    self._writer = pa.ipc.new_file(self._file, plain_schema(self.schema))
            else:
                from pyarrow import csv

                self._writer = csv.CSVWriter(self._file, plain_schema(self.schema))
        return self._writer

    def _write_group(self) -> None:
        self._groups.encode(self._waiting)
        self._waiting, self._rows, self._bytes = [], 0, 0

    def __enter__(self) -> TableWriter:
        self._stack.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if error[0] is not None:
            self._stack.__exit__(*error)
            return
        with self._stack, self._wording():  # what goes wrong at the end goes wrong with the file
            if self.kind is TableKind.PARQUET:
                if self._waiting:
                    self._write_group()
                self._groups.finish()
            elif self.kind is not TableKind.JSON:
                self._started().close()
            self._file.flush()


class Inline(Executor):
    """Does what it is given at once."""

    def submit(self, work: Callable[..., T], /, *args: Any, **named: Any) -> Future[T]:
        future: Future[T] = Future()
        try:
            future.set_result(work(*args, **named))
        except Exception as error:
            future.set_exception(error)
        return future


def executor(threads: int) -> Executor:
    """So many threads, or none."""
    return ThreadPoolExecutor(threads) if threads else Inline()


class GroupWriter:
    """Row groups of a Parquet file, encoded by threads and written in order. A context manager: at its end no thread
    works any more.

    The columns that are `added` are encoded here (`columns.names_encoded`), the others by pyarrow, or copied from
    `stored`.
    """

    def __init__(
        self, file: BinaryIO, schema: Any, added: Collection[str], stored: StoredTable | None, threads: bool
    ) -> None:
        whole = StoredTable.of_bytes(_parquet_of([], schema))
        self._added = [name for name in schema.names if name in added]
        self._schema = arrow().schema([one for one in schema if one.name not in added])
        self._columns = columns_of(whole, self._added)
        self._joined = JoinedFile(file, whole.footer if stored is None else widened(stored, whole))
        self._workers = min(available(), ENCODERS) if threads else 0
        self._pool = executor(self._workers)
        self._encoding: deque[Future[list[Stored]]] = deque()

    def add(self, group: Stored, names: list[RecordBatch]) -> None:
        """A row group that is stored, and the added columns of its rows."""
        self._submit(lambda: [group, encoded(self._columns, names)])

    def encode(self, batches: list[Any]) -> None:
        """A row group of all columns; none without rows."""
        if any(map(len, batches)):
            self._submit(lambda: self._encoded(batches))

    def _submit(self, work: Callable[[], list[Stored]]) -> None:
        self._encoding.append(self._pool.submit(work))
        while len(self._encoding) > self._workers:
            self._joined.add(*self._encoding.popleft().result())

    def _encoded(self, batches: list[Any]) -> list[Stored]:
        given = [one.select(self._schema.names) for one in batches]
        parts = StoredTable.of_bytes(_parquet_of(given, self._schema)).groups
        if self._columns:
            names = [RecordBatch(*one.select(self._added).__arrow_c_array__()) for one in batches]
            parts.append(encoded(self._columns, names))
        return parts

    def finish(self) -> None:
        """Write what waits, and the footer."""
        while self._encoding:
            self._joined.add(*self._encoding.popleft().result())
        self._joined.close()

    def __enter__(self) -> GroupWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self._pool.shutdown(cancel_futures=True)


def _parquet_of(batches: list[Any], schema: Any) -> memoryview:
    """A Parquet file of one row group, or of none without rows."""
    pa = arrow()
    from pyarrow import parquet

    table = pa.Table.from_batches([_without_null_texts(one) for one in batches], schema)
    if len(batches) > 1:  # else all after the first would be written as plain texts
        table = table.unify_dictionaries()
    out = pa.BufferOutputStream()
    with parquet.ParquetWriter(
        out, schema, compression=CODEC,
        write_batch_size=GROUP if all(_is_narrow(one.type) for one in schema) else FEW_VALUES,
    ) as writer:  # fmt: skip
        if len(table):
            writer.write_table(table, row_group_size=len(table))
    return memoryview(out.getvalue())


def _without_null_texts(batch: Any) -> Any:
    """A batch whose dictionaries hold no null, which pyarrow does not write to Parquet: its rows are null."""
    pa = arrow()
    for at, column in enumerate(batch.columns):
        if pa.types.is_dictionary(column.type) and column.dictionary.null_count:
            decoded = column.dictionary_decode().dictionary_encode().cast(column.type)
            batch = batch.set_column(at, batch.schema.field(at), decoded)
    return batch


def _is_narrow(type: Any) -> bool:
    """Whether values take a few bytes each: numbers, dictionaries, and lists and structs of those."""
    types = arrow().types
    if types.is_struct(type) or types.is_list(type) or types.is_large_list(type):
        return all(_is_narrow(type.field(number).type) for number in range(type.num_fields))
    return bool(types.is_dictionary(type) or types.is_primitive(type))


def _shown(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else str(value)


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
    """Write a table with names added to a file; how many rows there were. Reading, naming and writing overlap, but
    without `threads`: for who has one core and many files.

    `path` is "-" for stdout.
    """
    stored = reader.stored() if kind is TableKind.PARQUET and not namer.exploded else None
    with reader.named_errors():
        schema = namer.schema(reader.schema if stored is None else stored[0])
    rows = 0
    if stored is None:
        with (
            TableWriter(path, kind, schema, namer.added, threads=threads) as writer,
            executor(int(threads)) as writing,
        ):
            behind: deque[Future[None]] = deque()
            for batch in _ahead(iter(reader), threads):
                behind.append(writing.submit(writer.write, namer(batch)))
                if len(behind) > AHEAD:
                    behind.popleft().result()
                rows += batch.num_rows
                progress(rows)
            for one in behind:
                one.result()
        return rows
    groups = stored[1].groups
    with reader.wording(), TableWriter(path, kind, schema, namer.added, stored[1], threads=threads) as writer:
        batches_of_groups = _ahead(reader.batches_of_groups(namer.reads(schema.names)), threads)
        for group, batches in zip(groups, batches_of_groups, strict=True):
            writer.copy(group, [namer.names_of(RecordBatch(*batch.__arrow_c_array__())) for batch in batches])
            rows += group.rows
            progress(rows)
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
