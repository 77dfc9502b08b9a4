"""Object files as tables: sections, segments, symbols, build-ids.

elf    the Executable and Linkable Format
"""
