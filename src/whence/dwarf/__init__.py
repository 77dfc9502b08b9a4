"""DWARF 2 to 5: debug info as ranges.

In: the sections of an ELF file (and of the files that complete it: dwz's supplementary file, split units). Out:
whence.ranges.Ranges with functions, inlined calls, call sites, files and lines, through DebugInfo. The document is the
DWARF 5 standard, and 2 to 4 where they differ. A bad unit, DIE, abbreviation, list or line program is left out and
reported in `problems`; the rest is answered. Ranges need no types, variables and expressions: variables.py reads the
DIEs of single ones.

info.py            DebugInfo: the units of a file, and their ranges, on all cores
functions.py       one thread's share: units to scopes with names and declarations, lines, ranges
lines.py           line programs (.debug_line) as rows, of many units at once or of one
  line_files.py    file numbers to paths
split.py           split units: .dwo files, .dwp packages
ahead.py      debug info unpacked while the rest is imported
streaming.py       units read while .debug_info is being unpacked
unit_set.py        units that are read together: headers, root DIEs, the ranges these give
  problems.py      their faults, as errors
sections.py        which sections; where code can be
explore.py         one unit for a person: functions, inlined calls, rows

kernels/
  units      .debug_info's headers and root DIEs, range lists, .debug_aranges; units.pxd: the columns of the unit table,
             flags and faults, for Python too
  abbrevs    an abbreviation table compiled for one walk
  names      names and declarations along origins and specifications; the DIEs that a DIE lies in
  dies       DIEs to functions and inlined calls
  lines      line programs: headers, tables, the state machine, sequences merged
  locations.py   location lists: .debug_loc, .debug_loclists
  variables.py   declarations and locations of variables at an address
  constants  the numbers of the standards, for Python too: DW_TAG_*, DW_AT_*, DW_FORM_*, ...
  reading.pxd: how forms are read; budget.pxd: what a unit may cost, all kernels spend from it
"""

from whence._base.lazy import attach

TYPE_CHECKING = False
if TYPE_CHECKING:
    from whence.dwarf.info import DebugInfo
    from whence.dwarf.unit_set import Unit, Units

__all__ = ["DebugInfo", "Unit", "Units"]

if not TYPE_CHECKING:
    __getattr__, __dir__ = attach(
        __name__,
        {
            "DebugInfo": "whence.dwarf.info",
            "Unit": "whence.dwarf.unit_set",
            "Units": "whence.dwarf.unit_set",
        },
    )
