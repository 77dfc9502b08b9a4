"""pandas: an accessor that adds names to a DataFrame.

    >>> import pandas as pd
    >>> import whence.engines.pandas
    >>> frame = pd.DataFrame({"build_id": ["00ff"], "address": [4096]})
    >>> list(frame.whence.name(leaf=True).reason)
    ['no-file']

Integer columns with missing values must have the dtype "UInt64" or one of Arrow's. Other dtypes make pandas use
floating-point numbers, which can't hold an address and are refused.
"""

from __future__ import annotations

from typing import Any

import pandas as pd
import pyarrow as pa

from whence.columns.plain import plain
from whence.engines.workers import Places, namer_of


@pd.api.extensions.register_dataframe_accessor("whence")
class WhenceAccessor:
    """The accessor `.whence` of a DataFrame."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def name(self, places: Places | None = None, **options: Any) -> pd.DataFrame:
        """Return the frame with columns of names added, with Arrow's dtypes.

        Args:
            places: where names come from, see `whence.engines.workers.Places`.
            options: those of `whence.columns.Namer`, except `exploded`, and keywords of whence.Locator.

        Raises:
            TypeError: `exploded` is given.
            WrongUse: a column is missing, or has values that can't be addresses or build-ids.
        """
        if options.get("exploded"):
            raise TypeError("exploded=True repeats rows: name lists, and use DataFrame.explode")
        namer = namer_of(places, **options)
        read = namer.reads(self._frame.columns)
        table = pa.Table.from_pandas(self._frame[read], preserve_index=False).combine_chunks()
        named = plain(namer(table))
        added = named.select([column for column in named.column_names if column not in read])
        columns = added.to_pandas(types_mapper=pd.ArrowDtype).set_index(self._frame.index)
        return pd.concat([self._frame, columns], axis=1)
