# Address ranges of DIEs: where they are kept while a unit is walked.

from whence.dwarf.kernels.budget cimport Budget
from whence.dwarf.kernels.shared cimport File

cdef struct Span:  # [start, end) of a node
    unsigned long long start
    unsigned long long end
    unsigned int node

cdef struct Spans:
    Span* rows
    unsigned long long count
    unsigned long long room
    Budget budget  # of entries of lists: lists are not made to be read again and again

cdef int is_code(const File* file, unsigned long long start) noexcept nogil
cdef int add_span(Spans* spans, unsigned long long start, unsigned long long end, unsigned int node) noexcept nogil
cdef int expand(
    Spans* spans, const File* file, const unsigned long long* unit, unsigned long long value, unsigned long long form,
    unsigned int node,
) noexcept nogil
