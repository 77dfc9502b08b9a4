"""Mach-O files as tables: 32 and 64 bit, both byte orders, thin and fat; executables, libraries, dSYM companions.

In: bytes (a mapped file or a buffer). Out: sections by their standard names, segments, symbols and the UUID as
build-id, through the interface of `whence.objects`. The layouts are those of Apple's headers mach-o/loader.h, fat.h and
nlist.h. Every offset and count is checked against the bytes of the file.

layout.py     structures and numbers, names of architectures and sections
fat.py        slices of a fat file
commands.py   header and load commands: segments, sections, offsets of tables
symbols.py    the symbol table in ELF's form; function starts
debug_map.py  the object files with the debug info of a linked file
file.py       MachoFile: open, in_data, and access to everything above
"""

from whence.objects.macho.fat import Slice, is_fat, read_slices
from whence.objects.macho.file import MachoFile

__all__ = ["MachoFile", "Slice", "is_fat", "read_slices"]
