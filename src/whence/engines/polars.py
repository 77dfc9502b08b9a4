"""Polars: names for expressions of addresses, and for whole frames.

    >>> import polars as pl
    >>> import whence.engines.polars
    >>> frame = pl.DataFrame({"build_id": ["00ff"], "address": [4096]})
    >>> frame.select(pl.col("address").whence.leaf("build_id").struct.field("reason")).item()
    'no-file'
    >>> frame.whence.name(leaf=True)["reason"].item()
    'no-file'

`frame.whence.name()` adds columns to a DataFrame. For an expression, `name` returns the frames of each address: a list
of structs, innermost first. `leaf` returns a struct of the innermost frame, with a reason if the address has no name.
Both are lazy and elementwise; the streaming engine passes 100,000 rows at a time. Texts are categoricals, which are
much cheaper than strings; use `.cast(pl.String)` if you need strings.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import polars as pl

from whence.columns.namer import ADDRESS, BUILD_ID
from whence.engines.workers import Places, namer_of

if TYPE_CHECKING:
    from whence.columns import Namer

INPUT = pl.Schema({BUILD_ID: pl.String, ADDRESS: pl.UInt64})


@pl.api.register_expr_namespace("whence")
class WhenceNamespace:
    """The namespace `.whence` of an expression of addresses (UInt64, or lists of UInt64: whole stacks)."""

    def __init__(self, addresses: pl.Expr) -> None:
        self._addresses = addresses

    def name(self, build_id: pl.Expr | str = BUILD_ID, places: Places | None = None, **options: Any) -> pl.Expr:
        """Return an expression of the frames of each address: List(Struct), innermost first.

        Args:
            build_id: an expression of build-ids in hex, or the name of a column.
            places: where names come from, see `whence.engines.workers.Places`.
            options: those of `whence.columns.Namer`, except `leaf` and `exploded`, and keywords of whence.Locator.
        """
        return self._mapped(build_id, namer_of(places, **options), lambda named: named.struct[0])

    def leaf(self, build_id: pl.Expr | str = BUILD_ID, places: Places | None = None, **options: Any) -> pl.Expr:
        """Return an expression of the innermost frame of each address: Struct.

        Its field `reason` says why an address has no frame. The arguments are those of `name`.
        """
        return self._mapped(build_id, namer_of(places, leaf=True, **options), lambda named: named)

    def _mapped(self, build_id: pl.Expr | str, namer: Namer, part: Callable[[pl.Series], pl.Series]) -> pl.Expr:
        def name(series: pl.Series) -> pl.Series:
            return part(pl.Series(namer.names(series)))

        build_id = pl.col(build_id) if isinstance(build_id, str) else build_id
        both = pl.struct(build_id.alias(BUILD_ID), self._addresses.alias(ADDRESS))
        empty = name(INPUT.to_frame().to_struct())
        return both.map_batches(name, return_dtype=empty.dtype, is_elementwise=True)


@pl.api.register_dataframe_namespace("whence")
class WhenceFrame:
    """The namespace `.whence` of a DataFrame."""

    def __init__(self, frame: pl.DataFrame) -> None:
        self._frame = frame

    def name(self, places: Places | None = None, **options: Any) -> pl.DataFrame:
        """Return the frame with columns of names added.

        Args:
            places: where names come from, see `whence.engines.workers.Places`.
            options: those of `whence.columns.Namer`, and keywords of whence.Locator.

        Raises:
            WrongUse: a column is missing, or has values that can't be addresses or build-ids.
        """
        return pl.DataFrame(namer_of(places, **options)(self._frame))
