"""GSYM and Breakpad symbol files, and source maps: formats in which tools exchange functions, lines and inlined calls.

Read, they are sources of names like debug info: a file becomes scopes and line rows, and these the table of ranges. The
writers take that table (`whence.ranges.flatten`) from any source. GSYM is LLVM's (llvm/DebugInfo/GSYM),
Breakpad's is described in docs/symbol_files.md of its sources; docs/formats has both.

breakpad.py    Breakpad: records as ranges, and a table as records
counts.py      what a writer wrote
gsym.py        GSYM: functions as ranges, and a table as GSYM version 1
names.py       names and paths as writers number them
paths.py       paths of files as pairs of folder and name
reading.py     the ranges of a file of either format
source_map.py  the lines of a source map as ranges
stack_cfi.py   unwind rules as STACK CFI records
"""
