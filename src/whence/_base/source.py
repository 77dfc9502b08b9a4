"""The source of a name. Separate from whence._base.model, which takes longer to import."""

from __future__ import annotations

from enum import StrEnum


class Source(StrEnum):
    """The table that a range or a frame was read from; a str, as in JSON and on the command line.

    `number` is the byte that an archive stores per range.

    >>> Source.SYMTAB == "symtab", Source.SYMTAB.number, bool(Source.UNKNOWN)
    (True, 3, False)
    """

    number: int

    def __new__(cls, text: str, number: int = 0) -> Source:
        source = str.__new__(cls, text)
        source._value_ = text
        source.number = number
        return source

    UNKNOWN = "", 0
    DWARF = "dwarf", 1
    GOPCLNTAB = "gopclntab", 2
    SYMTAB = "symtab", 3
    MINIDEBUG = "minidebug", 4  # the .symtab inside .gnu_debugdata
    DYNSYM = "dynsym", 5
    PLT = "plt", 6
    GIVEN = "given", 7  # added by hand through the builder
    PERFMAP = "perfmap", 8  # /tmp/perf-PID.map
    KALLSYMS = "kallsyms", 9
    PDB = "pdb", 10
    GSYM = "gsym", 11
    BREAKPAD = "breakpad", 12
    SOURCEMAP = "sourcemap", 13  # of a WebAssembly module
    PYTHON = "python", 14  # a frame of CPython

    def __repr__(self) -> str:
        return f"Source.{self.name}"


SOURCES = tuple(Source)  # by number
