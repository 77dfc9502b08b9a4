"""Bytes of an object file by function, inlined function, file, unit and section, and their growth between two builds.

In: the producers of a file. Out: rows of names with bytes, whose sum is exactly the size of the measured sections. A
byte of code belongs to the function, or to the innermost inlined call, that the table of ranges names there; bytes
that nothing names are rows of their own.

model.py     rows, and what was measured
measure.py   the rows of a file
units.py     the table of units instead of functions
padding.py   instructions that fill the space between functions
compare.py   growth between two builds
kernels/
    tally.py   bytes of each range of a table
"""

from __future__ import annotations

from whence.sizes.compare import Change, Growth, compare
from whence.sizes.measure import measure
from whence.sizes.model import Kind, SizeOptions, SizeRow, Sizes

__all__ = ["Change", "Growth", "Kind", "SizeOptions", "SizeRow", "Sizes", "compare", "measure"]
