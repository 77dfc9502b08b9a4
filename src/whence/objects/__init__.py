"""Object files: the interface that readers of names and unwind tables use, and the formats behind it.

elf          the Executable and Linkable Format
interface    ObjectFile, its sections, segments and symbols, whatever the format
machines     machines by ELF's numbers, and their names
"""
