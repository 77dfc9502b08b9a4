# Numbers that ELF's kernels and their callers share: what a relocation does, and what is wrong with one. Kernels cimport
# them as constants of C; relocate.py imports them from the module of the same name.

cpdef enum:  # what to do at a place: an operation, plus the width in bytes
    STORE = 0x10  # S+A
    ADD = 0x20  # content+S+A
    SUB = 0x30  # content-S-A
    RELATIVE = 0x40  # S+A-P
    STORE_ULEB = 0x50  # STORE and SUB in the bytes of a ULEB128 number
    SUB_ULEB = 0x60
    OPERATION = 0xF0  # the bits of the operation
    WIDTH = 0x0F  # the bits of the width

cpdef enum:  # why a relocation is left out
    UNKNOWN_KIND = 1
    OUTSIDE = 2
    NO_SYMBOL = 3

cpdef enum:
    KINDS_ROOM = 512  # relocation types are below it
