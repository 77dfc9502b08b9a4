"""Polars: an expression that names addresses.

    >>> import polars as pl
    >>> import whence.engines.polars
    >>> frame = pl.DataFrame({"build_id": ["00ff"], "address": [4096]})
    >>> frame.select(pl.col("address").whence.leaf(pl.col("build_id")).struct.field("reason")).item()
    'no-file'

`name` returns the frames of each address, a list of structs, innermost first; `leaf` a struct of the innermost frame,
with the reason where there is none. Both are lazy and elementwise: streaming hands over 100,000 rows at a time.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import polars as pl

from whence.columns.namer import FRAMES
from whence.engines.workers import Places, namer_of

if TYPE_CHECKING:
    from whence.locate.locator import Locator

FIELDS = {
    "function": pl.String, "file": pl.String, "line": pl.UInt32, "inlined": pl.Boolean, "start_line": pl.UInt32,
    "source": pl.String,
}  # fmt: skip
FRAME = pl.Struct(FIELDS)
LEAF = pl.Struct({**FIELDS, "reason": pl.String})


@pl.api.register_expr_namespace("whence")
class WhenceNamespace:
    """`.whence` of an expression of addresses (unsigned integers of 64 bits, or lists of them: whole stacks)."""

    def __init__(self, addresses: pl.Expr) -> None:
        self._addresses = addresses

    def name(self, build_id: pl.Expr, places: Places | Locator | None = None, **options: Any) -> pl.Expr:
        """The frames of each address: List(Struct). `options` are those of `whence.columns.Namer`."""
        namer = namer_of(places, **options)
        return self._mapped(build_id, lambda series: _frame(namer(series))[FRAMES].cast(pl.List(FRAME)), pl.List(FRAME))

    def leaf(self, build_id: pl.Expr, places: Places | Locator | None = None, **options: Any) -> pl.Expr:
        """The innermost frame of each address, and the reason where there is none: Struct."""
        namer = namer_of(places, leaf=True, **options)
        names = list(LEAF.to_schema())
        return self._mapped(build_id, lambda series: _frame(namer(series)).select(names).to_struct().cast(LEAF), LEAF)

    def _mapped(self, build_id: pl.Expr, name: Any, returns: Any) -> pl.Expr:
        both = pl.struct(build_id.alias("build_id"), self._addresses.alias("address"))
        return both.map_batches(name, return_dtype=returns, is_elementwise=True)


def _frame(named: Any) -> pl.DataFrame:
    return pl.DataFrame(named)
