"""Go's own table of functions as ranges: names, files, lines and inlined calls, also of stripped programs.

In goes an ELF file; out comes the ranges table. Every Go program carries .gopclntab for its own tracebacks, so
no strip removes it. There is no document but Go's source (runtime/symtab.go, cmd/link's pcln.go), whose meaning
docs/formats/gopclntab.md has. Read are the layouts of Go 1.2 to 1.27, both pointer sizes, both byte orders.

    find.py         where the table lies: section, symbol, or magic
    header.py       the header; a table of versions
    image.py        pointers as the loader leaves them
    moduledata.py   the runtime's record of where everything is
    textbase.py     what entries count from; refused with a reason rather than guessed
    functions.py    functab and records as columns
    inlining.py     which layout the inline trees have, and where they lie
    ranges.py       columns into ranges
    frames.py       what unwinding needs of a function: how far it moved the stack pointer
    buildinfo.py    the release of Go that a program was built with
    table.py        Pclntab: all of it through one door

>>> from whence.objects.elf import ElfFile
>>> Pclntab.find(ElfFile.from_bytes(b"\\x7fELF\\x02\\x01\\x01" + bytes(57))) is None
True
"""

from whence.gopclntab.functions import Function, Functions
from whence.gopclntab.table import Pclntab

__all__ = ["Function", "Functions", "Pclntab"]
