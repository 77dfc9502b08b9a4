"""The table of ranges: addresses with their functions, files, lines and inlined calls.

Producers (dwarf, gopclntab, symbol tables, a builder) make the table, an archive stores it, and lookup queries it.

    strings.py        StringSpace: names as references (source, offset) into bytes that are not copied
    table.py          Scopes, Rows and Starts (the output of producers), Ranges (the table)
    overlay.py        scopes + line rows -> ranges: each row belongs to the innermost scope; a range has one file
    merge.py          several tables, best source first -> one table in order
    caller_files.py   splits ranges so that each shows one file at every address
    flatten.py        the table back into functions with inlined calls and line rows, for other formats
    holding.py        the part of a table that answers for given addresses
    moved.py          the table of an object file at the addresses of the linked file
"""

from whence.ranges.strings import StringSpace
from whence.ranges.table import Ranges, Rows, Scopes, Starts

__all__ = ["Ranges", "Rows", "Scopes", "Starts", "StringSpace"]
