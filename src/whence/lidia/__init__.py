"""Lidia archives: which function, file and line a vaddr belongs to, in one mapped file.

In: a table of ranges (whence.ranges), or an archive that whence or the Go package wrote. Out: frames for addresses.
The format is docs/formats/lidia.md's; the header and the four sections are the documented ones to the byte.

    layout.py   the header, checked            extra.py    what stands behind the documented sections
    writer.py   ranges -> archive              builder.py  ranges added by hand -> archive
    table.py    open, look up, iterate         answers.py  the columns of many answers
    verify.py   checksums and structure        render.py   whole answers as text, for the command line

It refuses: a header whose sections do not follow each other inside the file, and any name or line entry outside its
section, with a LidiaError that says which.

>>> builder = Builder()
>>> builder.add(va=0x1000, length=0x20, function="main", file="main.c", lines=[(0, 3), (8, 4)])
>>> builder.add(va=0x1008, length=4, function="twice", file="twice.h", depth=1, lines=[(0, 7)],
...             call_file="main.c", call_line=4)
>>> with from_bytes(builder.to_bytes()) as table:
...     for frame in table.lookup(0x100A):
...         print(frame.function, frame.file, frame.line)
twice twice.h 7
main main.c 4
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from whence.lidia.answers import Answers
from whence.lidia.builder import Builder, LineTableEntry, Range
from whence.lidia.extra import Extra
from whence.lidia.table import Info, Table, from_bytes, open
from whence.lidia.writer import Written, to_bytes, write
from whence.model import Frame

if TYPE_CHECKING:
    from whence.lidia.build import create, create_from_elf

__all__ = [
    "Answers",
    "Builder",
    "Extra",
    "Frame",
    "Info",
    "LineTableEntry",
    "Range",
    "Table",
    "Written",
    "create",
    "create_from_elf",
    "from_bytes",
    "open",
    "to_bytes",
    "write",
]


def __getattr__(name: str) -> object:
    """`create` and `create_from_elf` read ELF files; they are imported when they are asked for."""
    if name in ("create", "create_from_elf"):
        from importlib import import_module

        return getattr(import_module("whence.lidia.build"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
