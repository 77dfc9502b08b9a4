"""From a binary to an archive: `create` gathers the ranges of all sources of names and writes them.

create    the functions create and create_from_elf
"""
