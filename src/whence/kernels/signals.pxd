# Signals during kernels: Python runs their handlers in the main thread only when PyErr_CheckSignals is called.
#
# Long loops count their work, in units of about 10 ns: entries read, or bytes.

cdef extern from "Python.h":
    int PyErr_CheckSignals() except -1

cdef enum:
    CHECK_INTERVAL = 1 << 20  # about 10 ms: another thread may hold the GIL for half of that


cdef inline int handle_signals(Py_ssize_t* work, Py_ssize_t more) except -1 nogil:
    """Count `more` work; after CHECK_INTERVAL, run the handlers of pending signals. Raises their exceptions."""
    work[0] += more
    if work[0] >= CHECK_INTERVAL:
        work[0] = 0
        with gil:
            PyErr_CheckSignals()
    return 0
