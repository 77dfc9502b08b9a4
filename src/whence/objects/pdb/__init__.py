"""PDB files (the debug info of Windows programs) as streams, sections and public symbols.

In: bytes (a mapped file or a buffer). Out: the streams of the MSF container, the identity, and through the interface
of `whence.objects` the sections of the program and its public symbols. whence.pdb reads functions and lines of the
module streams. The layouts are those of LLVM's "The PDB File Format" and of Microsoft's published sources. Every
block, offset and count is checked against the bytes of the file.

layout.py    structures and numbers
msf.py       Msf: the blocks of each stream, bounded by the file
info.py      the PDB stream: GUID, age, named streams
dbi.py       the DBI stream: modules, section contributions, section headers, further streams
omap.py      addresses of programs that were rearranged after linking
publics.py   public symbols in ELF's form
file.py      PdbFile: open, from_bytes, and access to everything above
"""

from whence.objects.pdb.file import PdbFile

__all__ = ["PdbFile"]
