"""The one table: ranges of addresses, what they are called, and where their lines are.

Producers (dwarf, gopclntab, elf's symbols, a person through the builder) make it; lidia writes it down and looks things
up in it. There is no second model of functions anywhere.

    strings.py   StringSpace: names as (source, offset) references into bytes that stay where they lie
    table.py     Scopes, Rows and Starts (what a producer has found), Ranges (the table itself)
    overlay.py   scopes + line rows -> ranges: each row goes to the innermost scope, ranges of several files are split
    merge.py     several tables, best source first -> one table in order, repaired so that every reader answers right
    caller_files.py   splits ranges so that each has one file at every address
    holding.py        the part of a table that answers for given addresses
"""

from whence.ranges.strings import StringSpace
from whence.ranges.table import Ranges, Rows, Scopes, Starts

__all__ = ["Ranges", "Rows", "Scopes", "Starts", "StringSpace"]
