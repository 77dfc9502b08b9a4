"""The debug info of PDB files (CodeView) as ranges.

In: an open PdbFile. Out: the table of ranges of whence.ranges, with inlined calls, files, lines and columns, for all
modules or for some. The numbers are those of Microsoft's cvinfo.h, the layouts those of LLVM's "CodeView Symbol
Records" and "CodeView Type Records". A damaged module loses what follows the damage, and is reported.

debug_info.py     PdbDebugInfo: modules into ranges, on a thread per core
type_records.py   the TPI and IPI streams, which name inlined functions
crossing.py      ids that modules take over from other modules
sources.py        source files in a PDB file, and where its source server has them
"""

from whence.pdb.debug_info import PdbDebugInfo

__all__ = ["PdbDebugInfo"]
