"""DataFusion: names for a data frame.

    >>> from datafusion import SessionContext
    >>> from whence.engines.datafusion import name
    >>> context = SessionContext()
    >>> samples = context.sql("select '00ff' as build_id, 4096 as address")
    >>> name(samples, context, leaf=True).select("address", "reason").to_pylist()
    [{'address': 4096, 'reason': 'no-file'}]

A function in SQL would take one type of address alone: DataFusion knows no other functions of Python. A data frame has
any that `whence.columns.Namer` knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whence.engines.workers import Places, namer_of

if TYPE_CHECKING:
    from whence.locator.locator import Locator


def name(source: Any, context: Any, places: Places | Locator | None = None, **options: Any) -> Any:
    """A data frame of the context: `source` with names added. It is named at once, and kept in memory.

    `source` is a data frame, or anything that speaks Arrow's stream interface. `options` are those of
    `whence.columns.Namer`.
    """
    import pyarrow as pa

    named = namer_of(places, **options)(pa.RecordBatchReader.from_stream(source))
    # read before it is handed over: DataFusion's own stream must not be asked while DataFusion waits for us
    return context.from_arrow(pa.RecordBatchReader.from_stream(named).read_all())
