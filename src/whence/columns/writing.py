"""Tables written batch by batch by pyarrow: Parquet, Arrow IPC, CSV, JSON lines."""

from __future__ import annotations

import base64
import enum
import json
import sys
from collections.abc import Collection, Iterator
from contextlib import ExitStack, contextmanager
from typing import Any, BinaryIO

from whence._base.errors import WrongUse, plain
from whence._base.files import atomic_write
from whence.columns.plain import plain as plain_table
from whence.columns.plain import plain_schema

GROUP = 1 << 20  # rows of a row group of Parquet that is written
GROUP_BYTES = 1 << 26  # the same in memory
DICTIONARY_BYTES = 1 << 28  # of a column's dictionary in a row group: larger ones are written as plain texts
FEW_VALUES = 1 << 16  # of a column that are written to Parquet at once
CODEC = "zstd"
JSON_ROWS = 1 << 10  # that are Python objects at once
STREAM = ".arrows"  # Arrow IPC's stream; other endings are its file form
ARROW_SCHEMA = b"ARROW:schema"  # the key of pyarrow's own types in Parquet's metadata
PARQUET_MAGIC = b"PAR1"
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


def arrow() -> Any:
    """pyarrow. WrongUse that says how to install it."""
    try:
        import pyarrow
    except ImportError:
        raise WrongUse("reading and writing tables needs pyarrow: pip install 'whence[arrow]'") from None
    return pyarrow


class TableWriter:
    """A table file that is written batch by batch, whole or not at all. A context manager.

    `path` is "-" for stdout. `added` are the columns of names, which get no statistics in Parquet. `types` is a schema
    of the same values whose types a reader of Parquet is to see, where `schema` has dictionaries in place of texts.
    WrongUse for lists in CSV.
    """

    def __init__(self, path: str, kind: TableKind, schema: Any, added: Collection[str] = (), types: Any = None) -> None:
        pa = arrow()
        self.kind, self.schema = kind, schema
        self._added, self._types = frozenset(added), schema if types is None else types
        if kind is TableKind.CSV and any(pa.types.is_nested(one.type) for one in schema):
            raise WrongUse("a CSV file has no lists: use --leaf or --exploded, or write Parquet or JSON lines")
        self._is_stream = path == "-" or path.lower().endswith(STREAM)
        self._waiting: list[Any] = []
        self._rows = self._bytes = 0
        self._writer: Any = None
        self._stack = ExitStack()
        try:
            if path == "-":
                self._file: BinaryIO = sys.stdout.buffer
            else:
                self._file = self._stack.enter_context(atomic_write(path))
            if kind is TableKind.PARQUET:
                with self._wording():
                    self._started()
        except BaseException:
            self._stack.__exit__(*sys.exc_info())
            raise

    @property
    def is_plain(self) -> bool:
        """Whether texts of dictionaries are written out in each row."""
        return self.kind is not TableKind.PARQUET and (self.kind is not TableKind.ARROW or not self._is_stream)

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

    def _write(self, batch: Any) -> None:
        match self.kind:
            case TableKind.PARQUET:
                self._waiting.append(batch)
                self._rows += batch.num_rows
                self._bytes += batch.get_total_buffer_size()
                if self._rows >= GROUP or self._bytes >= GROUP_BYTES:
                    self._write_group()
            case TableKind.ARROW:
                self._started().write(batch if self._is_stream else plain_table(batch))
            case TableKind.CSV:
                self._started().write_table(plain_table(batch, views=False))
            case TableKind.JSON:
                for start in range(0, len(batch), JSON_ROWS):
                    lines = (json.dumps(row, default=_shown) for row in batch.slice(start, JSON_ROWS).to_pylist())
                    self._file.write("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogatepass"))

    def _started(self) -> Any:
        if self._writer is None:
            pa = arrow()
            if self.kind is TableKind.PARQUET:
                self._writer = self._parquet()
            elif self.kind is TableKind.ARROW:
                if self._is_stream:
                    self._writer = pa.ipc.new_stream(self._file, self.schema)
                else:  # whose dictionaries may not change: without them
                    self._writer = pa.ipc.new_file(self._file, plain_schema(self.schema))
            else:
                from pyarrow import csv

                self._writer = csv.CSVWriter(self._file, plain_schema(self.schema, views=False))
        return self._writer

    def _parquet(self) -> Any:
        from pyarrow import parquet

        given = [one.name for one in self.schema if one.name not in self._added]
        writer = parquet.ParquetWriter(
            self._file, self.schema, compression=CODEC, store_schema=False, write_statistics=given,
            dictionary_pagesize_limit=DICTIONARY_BYTES, write_batch_size=FEW_VALUES,
        )  # fmt: skip
        types = base64.b64encode(self._types.serialize())
        writer.add_key_value_metadata({**(self._types.metadata or {}), ARROW_SCHEMA: types})
        return writer

    def _write_group(self) -> None:
        table = arrow().Table.from_batches(self._waiting, self.schema)
        if len(self._waiting) > 1:  # else all after the first would be written as plain texts
            table = table.unify_dictionaries()
        self._waiting, self._rows, self._bytes = [], 0, 0
        if len(table):
            self._writer.write_table(table, row_group_size=len(table))

    def __enter__(self) -> TableWriter:
        self._stack.__enter__()
        return self

    def __exit__(self, *error: Any) -> None:
        if error[0] is not None:
            if self.kind is TableKind.PARQUET:
                self._writer.is_open = False  # else it writes its footer when it is deleted
            self._stack.__exit__(*error)
            return
        with self._stack, self._wording():  # what goes wrong at the end goes wrong with the file
            if self._waiting:
                self._write_group()
            if self.kind is not TableKind.JSON:
                self._started().close()
            self._file.flush()


def _shown(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else str(value)
