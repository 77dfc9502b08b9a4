# The state of tally.py: the ranges around a byte, and the code that is counted.

from whence.kernels.columns cimport Column

cdef enum:
    MOST_DEPTH = 256  # of inlined calls; the code of deeper ones is their caller's

cdef struct OpenRow:
    unsigned long long end
    Py_ssize_t row

cdef class Tally:
    cdef readonly Column gap_start
    cdef readonly Column gap_end
    cdef OpenRow _open[MOST_DEPTH]
    cdef Py_ssize_t _depth  # open rows
    cdef Py_ssize_t _piece  # the first piece of code that can contain the next byte
    cdef unsigned long long _position
    cdef bint _failed

    cdef void _count(
        self, unsigned long long end, Py_ssize_t row, const unsigned long long[::1] starts,
        const unsigned long long[::1] ends, unsigned long long[::1] sizes
    ) noexcept nogil
