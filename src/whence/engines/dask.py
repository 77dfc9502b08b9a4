"""Dask: name the partitions of a DataFrame in Dask's workers.

>>> import dask.dataframe
>>> import pandas as pd
>>> from whence.engines.dask import name
>>> frame = dask.dataframe.from_pandas(pd.DataFrame({"build_id": ["00ff"], "address": [4096]}), npartitions=1)
>>> list(name(frame, leaf=True).compute().reason)
['no-file']
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import whence.engines.pandas  # noqa: F401  # registers the accessor
from whence.engines.workers import Places, split_places

if TYPE_CHECKING:
    import pandas as pd


def name(frame: Any, places: Places | None = None, **options: Any) -> Any:
    """Return a Dask DataFrame with columns of names added. Nothing is computed yet.

    Args:
        frame: a Dask DataFrame with columns of build-ids and addresses.
        places: where names come from, see `whence.engines.workers.Places`.
        options: those of `whence.columns.Namer`, except `exploded`, and keywords of whence.Locator.

    Raises:
        TypeError: `exploded` is given.
        WrongUse: a column is missing, or has values that can't be addresses or build-ids.
    """
    places, options = split_places(places, options)
    return frame.map_partitions(name_partition, places, options, meta=name_partition(frame._meta, None, options))


def name_partition(partition: pd.DataFrame, places: Any, options: dict[str, Any]) -> pd.DataFrame:
    """Return one partition with columns of names added."""
    named: pd.DataFrame = partition.whence.name(places, **options)
    return named
