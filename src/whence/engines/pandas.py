"""pandas: an accessor that adds names to a frame.

    >>> import pandas as pd
    >>> import whence.engines.pandas
    >>> frame = pd.DataFrame({"build_id": ["00ff"], "address": [4096]})
    >>> list(frame.whence.name(leaf=True).reason)
    ['no-file']

Integers with missing values must be "UInt64" or Arrow's: pandas makes others floating-point numbers, which can't hold
an address, and which are refused.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pandas as pd

from whence.columns.plain import plain
from whence.engines.workers import Places, namer_of

if TYPE_CHECKING:
    from whence.locator.locator import Locator


@pd.api.extensions.register_dataframe_accessor("whence")
class WhenceAccessor:
    """`.whence` of a DataFrame."""

    def __init__(self, frame: pd.DataFrame) -> None:
        self._frame = frame

    def name(self, places: Places | Locator | None = None, **options: Any) -> pd.DataFrame:
        """The frame with names added, as Arrow's types. `options` are those of `whence.columns.Namer`, but for
        `exploded`: TypeError."""
        import pyarrow as pa

        if options.get("exploded"):
            raise TypeError("exploded=True repeats rows: name lists, and use DataFrame.explode")
        kept = list(dict.fromkeys(one for one in _read(options) if one in self._frame.columns))
        table = pa.Table.from_pandas(self._frame[kept], preserve_index=False).combine_chunks()
        named = plain(namer_of(places, **options)(table))
        added = named.select([one for one in named.column_names if one not in kept])
        columns = added.to_pandas(types_mapper=pd.ArrowDtype).set_index(self._frame.index)
        return pd.concat([self._frame, columns], axis=1)


def _read(options: dict[str, Any]) -> list[str]:
    """The columns that a namer with these options reads."""
    names = ("build_id", "address", "file_offset", "mapping_start", "mapping_offset")
    return [str(options.get(name, name)) for name in names]
