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
each frame. Addresses are UBIGINT, build-ids VARCHAR in hex.

DuckDB calls with 2,048 rows at most, on its own threads under the interpreter's lock: `set threads = 1` where naming is
most of the work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whence.columns.namer import FIELDS, REASON
from whence.columns.plain import plain
from whence.engines.workers import Places, namer_of

if TYPE_CHECKING:
    from whence.locate.locator import Locator

FRAME = "STRUCT(function VARCHAR, file VARCHAR, line UINTEGER, inlined BOOLEAN, start_line UINTEGER, source VARCHAR)"
LEAF = FRAME[:-1] + ", reason VARCHAR)"


def register(connection: Any, places: Places | Locator | None = None, *, name: str = "whence", **options: Any) -> Any:
    """Make the functions known to a connection, which is returned. `options` are those of `whence.columns.Namer`.

    `name` is what the functions' names begin with.
    """
    import pyarrow as pa

    chains = namer_of(places, **options)
    leaves = namer_of(places, leaf=True, **options)

    def batch(build_ids: Any, addresses: Any) -> Any:
        return pa.table({"build_id": build_ids, "address": addresses}).combine_chunks()

    def frames(build_ids: Any, addresses: Any) -> Any:
        return plain(chains(batch(build_ids, addresses)))["frames"]

    def leaf(build_ids: Any, addresses: Any) -> Any:
        named = plain(leaves(batch(build_ids, addresses))).combine_chunks()
        parts = [named[one].combine_chunks() for one in (*FIELDS, REASON)]
        return pa.StructArray.from_arrays(parts, names=[*FIELDS, REASON])

    # side_effects: a store may know tomorrow what it does not today, so constants are not folded into plans
    settings = {"type": "arrow", "null_handling": "special", "side_effects": True}
    connection.create_function(name, frames, ["VARCHAR", "UBIGINT"], f"{FRAME}[]", **settings)
    connection.create_function(f"{name}_leaf", leaf, ["VARCHAR", "UBIGINT"], LEAF, **settings)
    connection.execute(
        f"create or replace temp macro {name}_frames(input) as table "
        f"select * exclude (frame), unnest(frame) from "
        f"(select *, unnest({name}(build_id, address)) as frame from query_table(input))"
    )
    return connection
