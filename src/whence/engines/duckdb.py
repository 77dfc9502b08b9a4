"""DuckDB: names in SQL.

    >>> import duckdb
    >>> from whence.engines.duckdb import register
    >>> with duckdb.connect() as connection:
    ...     _ = register(connection)
    ...     connection.sql("select whence_leaf('00ff', 4096).reason").fetchall()
    [('no-file',)]

    whence(build_id, address)       the frames of an address: a list of structs, innermost first
    whence_leaf(build_id, address)  a struct of the innermost frame, with a reason if the address has no name
    whence_frames('table')          the rows of a table with columns build_id and address, one row for each frame

Addresses are integers, texts in hex, or lists of either (whole stacks); build-ids are texts in hex or blobs.

DuckDB calls these functions with at most 2,048 rows at a time, on its own threads, which contend for the interpreter's
lock: `set threads = 1` if naming is most of the work. To name a whole table, `name` is faster, as it passes large
batches.

    >>> from whence.engines.duckdb import name
    >>> with duckdb.connect() as connection:
    ...     samples = connection.sql("select '00ff' as build_id, 4096 as address")
    ...     name(samples, connection, leaf=True).project("address, reason").fetchall()
    [(4096, 'no-file')]
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Any

import duckdb
import pyarrow as pa

from whence._base.errors import WrongUse
from whence.columns.namer import ADDRESS, BUILD_ID
from whence.engines.workers import Places, namer_of

if TYPE_CHECKING:
    from whence.columns import Namer

FRAME = "STRUCT(function VARCHAR, file VARCHAR, line UINTEGER, inlined BOOLEAN, start_line UINTEGER, source VARCHAR)"
LEAF = FRAME[:-1] + ", reason VARCHAR)"
ROWS = 1 << 18  # rows of a batch


def register(connection: Any, places: Places | None = None, *, name: str = "whence", **options: Any) -> Any:
    """Register the SQL functions with a DuckDB connection, and return the connection.

    Args:
        connection: a duckdb.DuckDBPyConnection.
        places: where names come from, see `whence.engines.workers.Places`.
        name: the start of the functions' names: NAME, NAME_leaf and NAME_frames.
        options: those of `whence.columns.Namer`, except `leaf` and `exploded`, and keywords of whence.Locator.

    Functions of these names that were registered before are replaced.
    """
    chains = namer_of(places, **options)
    leaves = namer_of(places, leaf=True, **options)

    def names(namer: Namer, columns: tuple[Any, ...]) -> Any:
        if len(columns) != 2:
            raise WrongUse(f"{name} takes 2 arguments, a build-id and an address, not {len(columns)}")
        parts = [column.combine_chunks() for column in columns]
        return pa.array(namer.names(pa.record_batch(parts, names=[BUILD_ID, ADDRESS])))

    def frames(*columns: Any) -> Any:
        return names(chains, columns).field(0)

    def leaf(*columns: Any) -> Any:
        return names(leaves, columns)

    # side_effects: a store may get new files, so DuckDB must not fold calls with constants into plans
    settings = {"type": "arrow", "null_handling": "special", "side_effects": True}
    for function, type, call in ((name, f"{FRAME}[]", frames), (f"{name}_leaf", LEAF, leaf)):
        with suppress(duckdb.InvalidInputException):  # there is none yet
            connection.remove_function(function)
        connection.create_function(function, call, None, type, **settings)
    connection.execute(
        f"create or replace temp macro {name}_frames(input) as table "
        f"select * exclude (frame), unnest(frame) from "
        f"(select *, unnest({name}(build_id, address)) as frame from query_table(input))"
    )
    return connection


def name(source: Any, connection: Any, places: Places | None = None, **options: Any) -> Any:
    """Return a relation of `connection`: `source` with columns of names added. It can be read once.

    Args:
        source: a relation of `connection`, or an object with Arrow's stream interface (a pyarrow Table, a reader of
            files), which is faster as DuckDB need not convert it first.
        connection: a duckdb.DuckDBPyConnection.
        places: where names come from, see `whence.engines.workers.Places`.
        options: those of `whence.columns.Namer`, and keywords of whence.Locator.

    Raises:
        WrongUse: a column is missing, or has values that can't be addresses or build-ids.
    """
    if isinstance(source, duckdb.DuckDBPyRelation):
        read = getattr(source, "to_arrow_reader", None) or source.fetch_record_batch  # before DuckDB 1.4
        source = read(ROWS)
        connection = connection.cursor()  # a connection can have only one open result
    named = namer_of(places, **options)(pa.RecordBatchReader.from_stream(source))
    return connection.from_arrow(pa.RecordBatchReader.from_stream(named))
