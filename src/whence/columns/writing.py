"""Write tables batch by batch with pyarrow: Parquet, Arrow IPC, CSV, JSON lines."""

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
from whence._base.streams import byte_stream
from whence.columns.arrow import pa
from whence.columns.plain import plain as plain_table
from whence.columns.plain import plain_schema

GROUP_ROWS = 1 << 20  # of a row group of Parquet
GROUP_BYTES = 1 << 26  # of a row group, in memory
DICTIONARY_BYTES = 1 << 28  # of a column in a row group; larger ones are written as plain texts
BATCH_VALUES = 1 << 16  # of a column, written to Parquet at a time
CODEC = "zstd"
JSON_ROWS = 1 << 10  # converted to Python objects at a time
STREAM = ".arrows"  # Arrow IPC's stream form; other endings mean its file form
ARROW_SCHEMA = b"ARROW:schema"  # the key of pyarrow's own types in Parquet's metadata
PARQUET_MAGIC = b"PAR1"
ARROW_MAGIC = b"ARROW1"  # of Arrow IPC's file form
ARROW_CONTINUATION = b"\xff\xff\xff\xff"  # the start of each message of its stream form


class TableKind(enum.Enum):
    """A kind of table file: its word, and the endings of file names."""

    PARQUET = "parquet", (".parquet", ".pq")
    ARROW = "arrow", (".arrow", ".feather", ".ipc", ".arrows")
    CSV = "csv", (".csv",)
    JSON = "json", (".jsonl", ".ndjson", ".json")

    @property
    def word(self) -> str:
        return str(self.value[0])

    @classmethod
    def of_word(cls, word: str) -> TableKind:
        return next(kind for kind in cls if kind.word == word)

    @classmethod
    def of_name(cls, path: str) -> TableKind | None:
        """Return the kind by the ending of a path; None for another ending."""
        return next((kind for kind in cls if path.lower().endswith(kind.value[1])), None)

    @classmethod
    def of_head(cls, head: bytes) -> TableKind:
        """Return the kind by a file's first bytes; CSV if they have no known magic."""
        if head.startswith(PARQUET_MAGIC):
            return cls.PARQUET
        if head.startswith((ARROW_MAGIC, ARROW_CONTINUATION)):
            return cls.ARROW
        return cls.JSON if head.lstrip()[:1] == b"{" else cls.CSV


class TableWriter:
    """Writes a table file batch by batch; the file appears when it is complete. A context manager.

    Args:
        path: "-" for stdout.
        kind: the kind of file.
        schema: the pyarrow Schema of the batches.
        added: the columns of names, which get no statistics in Parquet.
        types: a schema whose types readers of Parquet see, if `schema` has dictionaries instead of texts.

    Raises WrongUse for values that the kind of file does not support, for instance lists in CSV.
    """

    def __init__(self, path: str, kind: TableKind, schema: Any, added: Collection[str] = (), types: Any = None) -> None:
        self.kind, self.schema = kind, schema
        self._added, self._types = frozenset(added), schema if types is None else types
        if kind is TableKind.CSV and any(pa.types.is_nested(field.type) for field in schema):
            raise WrongUse("a CSV file can't have lists: use --leaf or --exploded, or write Parquet or JSON lines")
        self._is_stream = path == "-" or path.lower().endswith(STREAM)
        self._waiting: list[Any] = []
        self._rows = self._bytes = 0
        self._writer: Any = None
        self._stack = ExitStack()
        try:
            if path == "-":
                self._file: BinaryIO = byte_stream()
            else:
                self._file = self._stack.enter_context(atomic_write(path))
            if kind is TableKind.PARQUET:
                with self._pyarrow_errors():
                    self._started()
        except BaseException:
            self._stack.__exit__(*sys.exc_info())
            raise

    @property
    def is_plain(self) -> bool:
        """True if texts of dictionaries are written out in each row."""
        return self.kind is not TableKind.PARQUET and (self.kind is not TableKind.ARROW or not self._is_stream)

    @contextmanager
    def _pyarrow_errors(self) -> Iterator[None]:
        """Raise pyarrow's errors as WrongUse."""
        try:
            yield
        except pa.ArrowException as error:
            message = plain(str(error).splitlines()[0])
            raise WrongUse(f"a {self.kind.word} file can't hold this table: {message}") from None

    def write(self, batch: Any) -> None:
        """Write a batch. Raises WrongUse for values that the kind of file does not support."""
        with self._pyarrow_errors():
            self._write(batch)

    def _write(self, batch: Any) -> None:
        match self.kind:
            case TableKind.PARQUET:
                self._waiting.append(batch)
                self._rows += batch.num_rows
                self._bytes += batch.get_total_buffer_size()
                if self._rows >= GROUP_ROWS or self._bytes >= GROUP_BYTES:
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
            if self.kind is TableKind.PARQUET:
                self._writer = self._parquet()
            elif self.kind is TableKind.ARROW:
                if self._is_stream:
                    self._writer = pa.ipc.new_stream(self._file, self.schema)
                else:  # the dictionaries of this form can't change, so they are written out
                    self._writer = pa.ipc.new_file(self._file, plain_schema(self.schema))
            else:
                from pyarrow import csv

                self._writer = csv.CSVWriter(self._file, plain_schema(self.schema, views=False))
        return self._writer

    def _parquet(self) -> Any:
        from pyarrow import parquet

        with_statistics = [name for name in self.schema.names if name not in self._added]
        writer = parquet.ParquetWriter(
            self._file, self.schema, compression=CODEC, store_schema=False, write_statistics=with_statistics,
            dictionary_pagesize_limit=DICTIONARY_BYTES, write_batch_size=BATCH_VALUES,
        )  # fmt: skip
        types = base64.b64encode(self._types.serialize())
        writer.add_key_value_metadata({**(self._types.metadata or {}), ARROW_SCHEMA: types})
        return writer

    def _write_group(self) -> None:
        table = pa.Table.from_batches(self._waiting, self.schema)
        if len(self._waiting) > 1:  # otherwise only the first would be written as a dictionary
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
                self._writer.is_open = False  # so that it does not write the footer when it is deleted
            self._stack.__exit__(*error)
            return
        with self._stack, self._pyarrow_errors():  # an error here removes the file
            if self._waiting:
                self._write_group()
            if self.kind is not TableKind.JSON:
                self._started().close()
            self._file.flush()


def _shown(value: object) -> object:
    return value.hex() if isinstance(value, bytes) else str(value)
