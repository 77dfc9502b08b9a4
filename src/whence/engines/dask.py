"""Dask: the partitions of a DataFrame named by its workers.

>>> import dask.dataframe
>>> import pandas as pd
>>> from whence.engines.dask import name
>>> frame = dask.dataframe.from_pandas(pd.DataFrame({"build_id": ["00ff"], "address": [4096]}), npartitions=1)
>>> list(name(frame, leaf=True).compute().reason)
['no-file']
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from whence.engines.workers import Places

if TYPE_CHECKING:
    import pandas as pd


def name(frame: Any, places: Places | None = None, **options: Any) -> Any:
    """A dask DataFrame with names added, lazily. `places` and `options` are those of whence.engines.pandas."""
    return frame.map_partitions(name_partition, places, options, meta=name_partition(frame._meta, None, options))


def name_partition(partition: pd.DataFrame, places: Places | None, options: dict[str, Any]) -> pd.DataFrame:
    """One partition, named in a worker."""
    import whence.engines.pandas  # noqa: F401

    named: pd.DataFrame = partition.whence.name(places, **options)
    return named
