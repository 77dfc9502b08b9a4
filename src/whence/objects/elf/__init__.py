"""ELF files as tables, read on demand: 32 and 64 bit, both byte orders.

In: bytes (a mapped file or a buffer). Out: sections with their content decompressed, segments, symbols, notes,
build-ids and the names of files that complete this one. The standard is the System V gABI; modules name the documents
of machine-specific parts (PLT stubs, mapping symbols, relocations). Every offset and count is checked against the bytes
of the file: damage is an ElfError with part and offset, and a damaged part does not affect others.

    kernels/constants.pxd   the numbers of the gABI and the psABIs
    layout.py     its structures
    file.py       ElfFile: open, from_bytes, and access to everything below
    header.py     the header: kind of file, offsets of its tables, counts that overflow 16 bits
    sections.py   section headers with names; bytes as stored
    compress.py   SHF_COMPRESSED zlib and zstd, .zdebug_*, xz; bounded
    relocate.py   relocations of debug sections of object files
    segments.py   program headers; Translation: file_offset <-> vaddr
    code.py       ranges of code
    symbols.py    symbol tables as columns, names on demand
    dynamic.py    the dynamic table: symbols of a file without section headers
    function_symbols.py   functions of symbols, as ranges; the best name for each address
    plt.py        PLT stubs, named `name@plt`
    notes.py      notes; GNU and Go build-ids
    links.py      .gnu_debuglink, .gnu_debugaltlink
    members.py    members of static libraries

Only file.py, function_symbols.py and plt.py use ElfFile; the others take headers, sections, segments and bytes.
"""

from whence._base.lazy import attach
from whence.objects.elf.file import ElfFile
from whence.objects.elf.sections import Section
from whence.objects.elf.segments import Segment, Translation

TYPE_CHECKING = False
if TYPE_CHECKING:
    from whence.objects.elf.function_symbols import aliases, functions
    from whence.objects.elf.links import AltLink, DebugLink
    from whence.objects.elf.notes import Note
    from whence.objects.elf.symbols import Symbols

__all__ = [
    "AltLink",
    "DebugLink",
    "ElfFile",
    "Note",
    "Section",
    "Segment",
    "Symbols",
    "Translation",
    "aliases",
    "functions",
]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {  # lookups with debug info seldom need these
            "AltLink": "whence.objects.elf.links",
            "DebugLink": "whence.objects.elf.links",
            "Note": "whence.objects.elf.notes",
            "Symbols": "whence.objects.elf.symbols",
            "aliases": "whence.objects.elf.function_symbols",
            "functions": "whence.objects.elf.function_symbols",
        },
    )
