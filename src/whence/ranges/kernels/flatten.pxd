# The state of flatten.py: the ranges around an address, and the columns of scopes and line rows.

from whence.kernels.columns cimport Column

cdef enum:
    MOST_DEPTH = 256  # of inlined calls; deeper ones are left out
    LONGEST_NAME = 4096  # bytes of names that are compared; longer ones with different references are different
    REF_BITS = 48  # of the offset in a reference (StringSpace)

cdef struct OpenRange:
    unsigned long long end
    unsigned int scope  # the scope that the range is a part of
    unsigned int file
    unsigned int line
    unsigned int entry  # the next line entry
    unsigned int last_entry
    unsigned long long vaddr

cdef class Flattener:
    cdef readonly Column vaddr
    cdef readonly Column end
    cdef readonly Column depth
    cdef readonly Column row  # the row of the table that each scope begins with
    cdef readonly Column scope_ends
    cdef readonly Column row_vaddr
    cdef readonly Column row_file
    cdef readonly Column row_line
    cdef readonly Column row_ends
    cdef readonly Py_ssize_t nameless  # ranges of depth 0 without a name
    cdef readonly Py_ssize_t skipped  # ranges out of order, without a function around them, or too deep
    cdef OpenRange _open[MOST_DEPTH]
    cdef long long _last[MOST_DEPTH]  # the last scope of each depth in the function
    cdef long long _parent[MOST_DEPTH]  # the scope around it
    cdef Py_ssize_t _depth  # open ranges
    cdef unsigned long long _position
    cdef unsigned int _file  # of the last row
    cdef unsigned int _line
    cdef bint _has_row
    cdef bint _failed
    cdef list _views
    cdef Py_ssize_t _sources
    cdef const unsigned char** _source
    cdef unsigned long long* _source_size

    cdef bint _same(self, unsigned long long first, unsigned long long second) noexcept nogil
    cdef void _put_row(self, unsigned long long vaddr, unsigned int file, unsigned int line) noexcept nogil
    cdef void _advance(
        self, unsigned long long to, const unsigned int* offset, const unsigned int* number
    ) noexcept nogil
    cdef void _end_group(self) noexcept nogil
