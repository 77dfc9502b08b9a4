"""What a writer of symbol files wrote."""

from __future__ import annotations

from whence._base.records import Record


class SymbolCounts(Record, frozen=True):
    """The functions, inlined calls, line rows and bytes written, and notes on what the format cannot express."""

    functions: int
    inlined: int
    lines: int
    size: int
    notes: tuple[str, ...] = ()
