"""Create archives of binaries: gather the ranges of all sources of names and write them.

create    the functions create and create_from_elf
"""
