"""DWARF 2 to 5: debug info as ranges.

In go the sections of an ELF file (and of the files that complete it: dwz's supplementary file, split units); out come
whence.ranges.Ranges with functions, inlined calls, call sites, files and lines, through DebugInfo. The document is the
DWARF 5 standard, and 2 to 4 where they differ. A bad unit, DIE, abbreviation, list or line program is left out and told
in `problems`; the rest is answered. Types, variables and expressions are not read.

info.py            DebugInfo: the units of a file, and their ranges, on all cores
  sections.py      which sections; where code can be
  units.py         unit headers and root DIEs
  unit_set.py      units that are read together: all, or those a question needs
  arriving.py      units read while .debug_info is being unpacked
  claims.py        what units claim: which can hold an address, which rows are theirs
  split.py         split units: .dwo files, .dwp packages
  threads.py       pieces of work shared by threads
  worker.py        one thread's share: units to scopes, lines, ranges
  declarations.py  where functions are declared
  qualified.py     names of C++ and Rust functions that have no linkage name
  problems.py      faults in words
explore.py         one unit for a person: functions, inlined calls, rows
lines.py           line programs (.debug_line) as rows, of many units at once or of one
  line_files.py    file numbers to paths

budget.pxd         what a unit may cost; all kernels spend from it
constants.pxd      the numbers of the standards, for Python too: DW_TAG_*, DW_AT_*, DW_FORM_*, ...
shared.pxd         the parts of a file, the row of a unit; reading.pxd: how they are read, by
  units_kernel       headers and roots of all units
  claims_kernel      spans by address
  aranges_kernel     which unit holds an address, from .debug_aranges
  abbrev_kernel      an abbreviation table digested for one walk
  walk_kernel        DIEs to functions and inlined calls
  rangelist_kernel   .debug_ranges, .debug_rnglists; what of them is code
  names_kernel       linkage names, names and declarations along origins and specifications
  scopes_kernel      all of these, unit after unit, into columns
  paths_kernel       the DIEs around a DIE
  parts_kernel       keeps the sections alive
  lines_kernel       line programs: headers, tables, the state machine, sequences merged
"""

from whence.dwarf.info import DebugInfo
from whence.dwarf.units import Unit, Units

__all__ = ["DebugInfo", "Unit", "Units"]
