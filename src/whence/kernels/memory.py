"""One heap for all threads of a process that builds large tables and ends.

By default glibc gives each thread a heap of its own, and what one thread frees no other uses: a table that is made on
one thread and used up on another stays in memory twice. For long-lived processes of many threads that is the better
choice, so it is for commands to ask for this, never for the library.
"""

from cython.cimports.whence.kernels.memory import MAPPED_FROM, TRIMMED_FROM, whence_share_heap


def share_heap():
    """Let all threads allocate from one heap, of which large free blocks go back to the system. Call it before other
    threads start. Returns whether the C library does so (glibc)."""
    return whence_share_heap(MAPPED_FROM, TRIMMED_FROM) == 1
