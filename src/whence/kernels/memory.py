"""How the C library keeps freed memory, for a process as a whole; only glibc has such settings (mallopt(3)).

Commands call these functions, never the library.
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
    """Use one heap for all threads, for a process that builds large tables and ends. Return False if not supported.

    By default glibc gives each thread a heap, and memory that one thread freed is not used by others: a table that is
    made on one thread and consumed on another stays in memory twice. Call it before other threads start.
    """
    return whence_set_heaps(HEAPS_OF_COMMAND, MAPPED_BY_COMMAND, TRIMMED_BY_COMMAND) == 1


def give_back_freed():
    """Use few heaps that return large free blocks to the system, for a process that lives long.

    Return False if not supported. By default glibc raises the size from which blocks are mapped separately with each
    such block that is freed, up to 32 MB, so that the memory of one large request stays allocated in every thread.
    """
    return whence_set_heaps(HEAPS_OF_SERVER, GIVEN_BACK_BY_SERVER, GIVEN_BACK_BY_SERVER) == 1
