"""Kernel: readers that run while threads of another process are stopped (kernels/ptrace.py)."""

import cython


@cython.cclass
class StoppedReader:
    """Reads something of the threads that are stopped now; subclasses override `read_stopped`.

    `prepare` is called before that, while the threads still run. `following` is a reader that reads next, or None.
    """

    def prepare(self, threads):
        pass

    def read_stopped(self, threads):
        pass


@cython.final
@cython.cclass
class CallingReader(StoppedReader):
    """Calls a function while the threads are stopped. `error` is the first exception that it raised, or None.

    Python is slow, and other Python threads may run before the function does: for rare reads only.
    """

    def __cinit__(self, function):
        self.function = function
        self.error = None

    def prepare(self, threads):
        if self.following is not None:
            self.following.prepare(threads)

    def read_stopped(self, threads):
        with cython.gil:
            self.call()
        if self.following is not None:
            self.following.read_stopped(threads)

    def call(self):
        try:
            self.function()
        except BaseException as error:
            self.error = self.error or error
