"""DataFusion: add names to a data frame.

    >>> from datafusion import SessionContext
    >>> from whence.engines.datafusion import name
    >>> context = SessionContext()
    >>> samples = context.sql("select '00ff' as build_id, 4096 as address")
    >>> name(samples, context, leaf=True).select("address", "reason").to_pylist()
    [{'address': 4096, 'reason': 'no-file'}]

There is no SQL function: DataFusion's Python functions accept a single type of address. Data frames may have addresses
of every type that `whence.columns.Namer` reads.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa

from whence.engines.workers import Places, namer_of


def name(source: Any, context: Any, places: Places | None = None, **options: Any) -> Any:
    """Return a data frame of `context`: `source` with columns of names added, held in memory.

    Args:
        source: a DataFusion data frame, or an object with Arrow's stream interface (`__arrow_c_stream__`).
        context: the SessionContext of the result.
        places: where names come from, see `whence.engines.workers.Places`.
        options: those of `whence.columns.Namer`, and keywords of whence.Locator.

    Raises:
        WrongUse: a column is missing, or has values that can't be addresses or build-ids.
    """
    named = namer_of(places, **options)(pa.RecordBatchReader.from_stream(source))
    # Read everything first: pulling from DataFusion's stream while DataFusion waits for this table would deadlock.
    return context.from_arrow(pa.RecordBatchReader.from_stream(named).read_all())
