"""DuckDB: names in SQL.

    >>> import duckdb
    >>> from whence.engines.duckdb import register
    >>> with duckdb.connect() as connection:
    ...     _ = register(connection)
    ...     connection.sql("select whence_leaf('00ff', 4096).reason").fetchall()
    [('no-file',)]

`whence(build_id, address)` returns the frames of an address, a list of structs, innermost first; unnest it for a row a
frame. `whence_leaf(build_id, address)` returns a struct of the innermost frame, with the reason where there is none.
`whence_frames(table)` is a table function: the rows of a table (by name) with columns build_id and address, a row for
each frame. Addresses are integers, texts in hex, or lists of those (whole stacks); build-ids texts in hex or blobs.

DuckDB calls these with 2,048 rows at most, on its own threads under the interpreter's lock: `set threads = 1` where
naming is most of the work. Where it is a table that gets names, `name` is faster: it hands over large batches.

    >>> from whence.engines.duckdb import name
    >>> with duckdb.connect() as connection:
    ...     samples = connection.sql("select '00ff' as build_id, 4096 as address")
    ...     name(samples, connection, leaf=True).project("address, reason").fetchall()
    [(4096, 'no-file')]
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whence._base.errors import WrongUse
from whence.columns.namer import ADDRESS, BUILD_ID
from whence.engines.workers import Places, namer_of

if TYPE_CHECKING:
    from whence.columns import Namer
    from whence.locator.locator import Locator

FRAME = "STRUCT(function VARCHAR, file VARCHAR, line UINTEGER, inlined BOOLEAN, start_line UINTEGER, source VARCHAR)"
LEAF = FRAME[:-1] + ", reason VARCHAR)"
ROWS = 1 << 18  # that are handed over at once


def register(connection: Any, places: Places | Locator | None = None, *, name: str = "whence", **options: Any) -> Any:
    """Make the functions known to a connection, which is returned. `options` are those of `whence.columns.Namer`.

    `name` is what the functions' names begin with.
    """
    import pyarrow as pa

    chains = namer_of(places, **options)
    leaves = namer_of(places, leaf=True, **options)

    def names(namer: Namer, columns: tuple[Any, ...]) -> Any:
        if len(columns) != 2:
            raise WrongUse(f"a build-id and an address are asked for, and not {len(columns)} arguments")
        parts = [one.combine_chunks() for one in columns]
        return pa.array(namer.names(pa.record_batch(parts, names=[BUILD_ID, ADDRESS])))

    def frames(*columns: Any) -> Any:
        return names(chains, columns).field(0)

    def leaf(*columns: Any) -> Any:
        return names(leaves, columns)

    # side_effects: a store may know tomorrow what it does not today, so constants are not folded into plans
    settings = {"type": "arrow", "null_handling": "special", "side_effects": True}
    connection.create_function(name, frames, None, f"{FRAME}[]", **settings)
    connection.create_function(f"{name}_leaf", leaf, None, LEAF, **settings)
    connection.execute(
        f"create or replace temp macro {name}_frames(input) as table "
        f"select * exclude (frame), unnest(frame) from "
        f"(select *, unnest({name}(build_id, address)) as frame from query_table(input))"
    )
    return connection


def name(source: Any, connection: Any, places: Places | Locator | None = None, **options: Any) -> Any:
    """A relation of the connection: `source` with names added, which are made as it is read, once.

    `source` is a relation of that connection, or anything that speaks Arrow's stream interface (a pyarrow Table, a
    reader of files); that costs less than to have DuckDB make Arrow's batches first. `options` are those of
    `whence.columns.Namer`.
    """
    import duckdb
    import pyarrow as pa

    if isinstance(source, duckdb.DuckDBPyRelation):
        read = getattr(source, "to_arrow_reader", None) or source.fetch_record_batch  # before DuckDB 1.4
        source = read(ROWS)
        connection = connection.cursor()  # a connection has one open result
    named = namer_of(places, **options)(pa.RecordBatchReader.from_stream(source))
    return connection.from_arrow(pa.RecordBatchReader.from_stream(named))
