"""Lidia archives: the function, file and line of each vaddr of a binary, in one mapped file.

Archives are written from a table of ranges (whence.ranges) and return frames for addresses. The format is that of
docs/formats/lidia.md; archives of Pyroscope's Go package can be read, and written byte for byte with compat="go".

    layout.py      header, sections, extra section and checksums as bytes
    checksum.py    the checksum of sections
    writer.py      writes ranges as an archive
    builder.py     archives from ranges that a program adds
    compressed.py  archives inside gzip and zstd
    table.py       an open archive: lookups, iteration, metadata
    results.py     ranges and frame tables that readers return
    chains.py      frames of many addresses in columns, equal chains once
    render.py      answers as text, for the command line
    ranges.py      the table of ranges of an archive, to write it in another format
    verify.py      checksums and structure
    unwind.py      the UNWD chunk: unwind tables inside an archive

The names of the Go package, and their counterparts here:

    CreateLidia, CreateLidiaFromELF    create, create_from_elf
    OpenReader                         open (a path), from_bytes
    WithCRC, WithFiles, WithLines      the options crc=, files=, lines=
    Table, Table.Lookup, Table.Close   Table, Table.lookup (and lookup_many), Table.close (or a `with` block)
    Table.CheckCRC                     Table.check_crc; a section alone: check_crc_va, check_crc_fields,
                                       check_crc_strings, check_crc_line_tables
    Range                              Range: va (which is vaddr), length, function, file, call_file, call_line, depth,
                                       line_table
    LineTable, LineTableEntry          LineTable, LineTableEntry: offset, line_number
    SourceInfoFrame                    Frame: line, function, file

A header whose sections are not adjacent or extend past the end of the file raises LidiaError, and so does a lookup that
meets a name or line entry outside its section.

>>> from whence import lidia
>>> builder = lidia.Builder()
>>> builder.add(vaddr=0x1000, length=0x20, function="main", file="main.c", line_table=[(0, 3), (8, 4)])
>>> builder.add(vaddr=0x1008, length=4, function="twice", file="twice.h", depth=1, line_table=[(0, 7)],
...             call_file="main.c", call_line=4)
>>> with lidia.from_bytes(builder.to_bytes()) as table:
...     for frame in table.lookup(0x100A):
...         print(frame.function, frame.file, frame.line)
twice twice.h 7
main main.c 4
"""

from __future__ import annotations

from whence._base.lazy import attach
from whence.lidia.table import Table, from_bytes, open

TYPE_CHECKING = False
if TYPE_CHECKING:
    from whence._base.model import Frame
    from whence.archive.create import Created, create, create_from_elf
    from whence.lidia.builder import Builder
    from whence.lidia.layout import Extra
    from whence.lidia.results import FrameTable, LineTable, LineTableEntry, Range
    from whence.lidia.verify import ArchiveInfo
    from whence.lidia.writer import Written, to_bytes, write

__all__ = [
    "ArchiveInfo",
    "Builder",
    "Created",
    "Extra",
    "Frame",
    "FrameTable",
    "LineTable",
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

# Loaded on first use, as opening and looking up need none of these.

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "Builder": "whence.lidia.builder",
            "Created": "whence.archive.create",
            "Extra": "whence.lidia.layout",
            "Frame": "whence._base.model",
            "FrameTable": "whence.lidia.results",
            "ArchiveInfo": "whence.lidia.verify",
            "LineTable": "whence.lidia.results",
            "LineTableEntry": "whence.lidia.results",
            "Range": "whence.lidia.results",
            "Written": "whence.lidia.writer",
            "create": "whence.archive.create",
            "create_from_elf": "whence.archive.create",
            "to_bytes": "whence.lidia.writer",
            "write": "whence.lidia.writer",
        },
    )
