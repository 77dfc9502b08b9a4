"""pyarrow, which reading and writing tables needs. Raises WrongUse if it is not installed."""

from __future__ import annotations

from whence._base.errors import WrongUse

try:
    import pyarrow as pa
    import pyarrow.compute as pc
    from pyarrow import types
except ImportError:
    raise WrongUse("reading and writing tables needs pyarrow: pip install 'whence[arrow]'") from None

__all__ = ["pa", "pc", "types"]
