"""DWARF 2 to 5: debug info as ranges.

lines.py          line programs (.debug_line) as rows
  line_header.py  their headers and tables
  line_files.py   file numbers to paths
  lines_kernel.py the machine
"""
