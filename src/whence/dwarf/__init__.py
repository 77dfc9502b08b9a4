"""Debug info (DWARF 2 to 5) as ranges.

Input: the sections of an object file and of the files that complete it (dwz's supplementary file, split units). Output,
through DebugInfo: whence.ranges.Ranges with functions, inlined calls, call sites, files and lines. The document is the
DWARF 5 standard, and versions 2 to 4 where they differ. Bad units, DIEs, abbreviations, lists and line programs are
skipped and reported in `problems`. Ranges need no types, variables or expressions; variables.py reads
some of these for single addresses, and the package whence.types all of them.

    info.py            DebugInfo: the units of a file and their ranges, on all cores
    functions.py       one thread's share: from units to scopes with names and declarations, lines, ranges
    lines.py           line programs (.debug_line) as rows, of many units at once or of one
      line_files.py    paths of files by number
    source_files.py    checksums and embedded text of source files
    split.py           split units: .dwo files, .dwp packages
    ahead.py           decompression of debug info that starts before it is read
    streaming.py       units that are read while .debug_info is being decompressed
    unit_set.py        units that are read together: headers, root DIEs and their ranges
      problems.py      their faults, as errors
    linked.py          debug info that a linker left in object files (Mach-O's debug maps)
    sections.py        the sections of a file, and where its code is
    explore.py         one unit for a person: functions, inlined calls, rows
    locations.py       location lists: .debug_loc, .debug_loclists
    die_reader.py      DIEs one by one: attributes, origins, children, and the functions at an address
    variables.py       declarations and locations of variables at an address

    kernels/
      units      headers and root DIEs of .debug_info, range lists, .debug_aranges; units.pxd: the columns of the unit
                 table, flags and faults, also for Python
      abbrevs    an abbreviation table compiled for one walk, and the walk's cursor
      names      names and declarations along origins and specifications; the DIEs around a DIE
      dies       DIEs to functions and inlined calls
      lines      line programs: headers, tables, the state machine, merged sequences
      variables  single DIEs; DIEs of variables and functions at an address
      constants  the numbers of the standards, also for Python: DW_TAG_*, DW_AT_*, DW_FORM_*, ...
      reading.pxd: how forms are read; budget.pxd: the work that a unit may cost
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
