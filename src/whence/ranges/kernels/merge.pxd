# The state of merge.py: the tree of open ranges, and the columns of the result.

cdef class MergePlan:
    cdef readonly bint same
    cdef Py_ssize_t _rows
    cdef Py_ssize_t _room  # rows that the columns below have; what comes beyond is counted alone
    cdef Py_ssize_t _ranges  # there is room for
    cdef Py_ssize_t _levels
    cdef unsigned long long* _level_end
    cdef unsigned int* _u32s  # the one block of those below
    cdef unsigned int* _parent
    cdef unsigned int* _cursor
    cdef unsigned int* _chain
    cdef unsigned int* _pick  # columns of the picks
    cdef unsigned int* _name
    cdef unsigned int* _depth
    cdef unsigned long long* _vaddr
    cdef unsigned long long* _length

    cdef void _put(
        self, unsigned int place, unsigned int name, Py_ssize_t level, unsigned long long vaddr, unsigned long long end,
        unsigned long long low, unsigned long long high,
    ) noexcept nogil

cdef unsigned long long _end(unsigned long long vaddr, unsigned long long length) noexcept nogil
