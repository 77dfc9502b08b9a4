"""Freed memory goes back to the system.

glibc keeps freed memory for each thread, and raises the size from which blocks are mapped on their own with each such
block that is freed, up to 32 MB (mallopt(3)): what one large body took would stay for good, in every thread once, and
what one file's debug info took would lie beside what the next one's takes.
"""

from __future__ import annotations

import contextlib
import ctypes
import sys

M_TRIM_THRESHOLD, M_MMAP_THRESHOLD, M_ARENA_MAX = -1, -3, -8
OWN_MAPPING = 1 << 20  # bytes of a block that is mapped on its own, and unmapped when it is freed
ARENAS = 4  # heaps that threads share


def give_back_freed() -> None:
    """Have this process do so. C libraries other than glibc do what they do."""
    if not sys.platform.startswith("linux"):
        return
    with contextlib.suppress(AttributeError):  # musl has no mallopt
        mallopt = ctypes.CDLL(None).mallopt
        for option, value in (
            (M_MMAP_THRESHOLD, OWN_MAPPING), (M_TRIM_THRESHOLD, OWN_MAPPING), (M_ARENA_MAX, ARENAS),
        ):  # fmt: skip
            mallopt(option, value)
