# Signals while a kernel works: Python's handlers run in the main thread, and only when it is asked to.
#
# A loop that may take long counts its work, in units of some 10 ns: entries read, or bytes.

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

cdef enum:
    BETWEEN_LOOKS = 1 << 20  # some 10 ms: another thread may hold the GIL for half of that


cdef inline int handle_signals(Py_ssize_t* work, Py_ssize_t more) except -1 nogil:
    """Count more work; after enough of it, call the handlers of the signals that came. Raises what they raise."""
    work[0] += more
    if work[0] >= BETWEEN_LOOKS:
        work[0] = 0
        with gil:
            PyErr_CheckSignals()
    return 0
