"""PE files (Windows programs and libraries) as tables, for DWARF, symbols and exports.

In: bytes (a mapped file or a buffer). Out: sections, segments, symbols and the ID of the CodeView record, through the
interface of `whence.objects`. The layouts are those of Microsoft's "PE Format". Every offset and count is checked
against the bytes of the file.

layout.py    structures and numbers
headers.py   headers, sections with long names, the CodeView record
symbols.py   COFF's symbols and exports in ELF's form; function starts
file.py      PeFile: open, from_bytes, and access to everything above
"""

from whence.objects.pe.file import PeFile

__all__ = ["PeFile"]
