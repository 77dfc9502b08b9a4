"""Go's table of functions as ranges: names, files, lines and inlined calls, even of stripped programs.

In: an ELF file. Out: the table of ranges. Every Go program has .gopclntab for its own tracebacks, so strip does not
remove it. The only documentation is Go's source (runtime/symtab.go, cmd/link's pcln.go); docs/formats/gopclntab.md
describes the format. Layouts of Go 1.2 to 1.27 are read, of both pointer sizes and byte orders.

    find.py         where the table is: section, symbol, or magic
    header.py       the header; a table of versions
    image.py        pointers after relocation
    moduledata.py   the runtime's record of the addresses of everything
    textbase.py     what entries count from; rejected with a reason rather than guessed
    functions.py    functab and records as columns
    inlining.py     the layout and position of the inline trees
    ranges.py       columns into ranges
    frames.py       what unwinding needs of a function: the depth of the stack pointer
    buildinfo.py    the release of Go that built a program
    table.py        Pclntab: the table as one class

>>> from whence.objects.elf import ElfFile
>>> Pclntab.find(ElfFile.from_bytes(b"\\x7fELF\\x02\\x01\\x01" + bytes(57)))
"""

from whence.gopclntab.functions import Function, FunctionExtents
from whence.gopclntab.table import Pclntab

__all__ = ["Function", "FunctionExtents", "Pclntab"]
