"""How the C library keeps freed memory: what a whole process asks of it. glibc alone can be asked (mallopt(3)).

Both are for commands to ask, never for the library.
"""

from cython.cimports.whence.kernels.memory import (
    GIVEN_BACK_BY_SERVER,
    HEAPS_OF_COMMAND,
    HEAPS_OF_SERVER,
    MAPPED_BY_COMMAND,
    TRIMMED_BY_COMMAND,
    whence_set_heaps,
)


def share_heap():
    """One heap for all threads of a process that builds large tables and ends. Returns whether the C library does so.

    By default glibc gives each thread a heap of its own, and what one thread frees no other uses: a table that is made
    on one thread and used up on another stays in memory twice. Call it before other threads start.
    """
    return whence_set_heaps(HEAPS_OF_COMMAND, MAPPED_BY_COMMAND, TRIMMED_BY_COMMAND) == 1


def give_back_freed():
    """Few heaps, whose large free blocks go back to the system, for a process that lives long. Returns whether the C
    library does so.

    By default glibc raises the size from which blocks are mapped on their own with each such block that is freed, up to
    32 MB: what one large body took would stay for good, in every thread once.
    """
    return whence_set_heaps(HEAPS_OF_SERVER, GIVEN_BACK_BY_SERVER, GIVEN_BACK_BY_SERVER) == 1
