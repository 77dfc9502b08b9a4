"""Kernel: the base of readers that run while threads of another process are stopped (kernels/ptrace.py)."""

import cython


@cython.cclass
class StoppedReader:
    """Reads something of the threads that are stopped now; subclasses override `read_stopped`.

    `following`: a reader that reads after it, or None.
    """

    def read_stopped(self, threads):
        pass
