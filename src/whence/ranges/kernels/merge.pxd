# The state of merge.py: the tree of open ranges, and the columns of the result.

cdef class MergePlan:
    cdef readonly bint same
    cdef Py_ssize_t _rows
    cdef Py_ssize_t _capacity  # of the columns below; further rows are only counted
    cdef Py_ssize_t _ranges  # that fit into the blocks
    cdef Py_ssize_t _levels
    cdef Py_ssize_t _budget  # links of chains that may still be repeated
    cdef unsigned long long* _level_end
    cdef unsigned int* _u32s  # the block of the columns below
    cdef unsigned int* _parent
    cdef unsigned int* _cursor
    cdef unsigned int* _chain
    cdef unsigned int* _pick  # columns of the picks
    cdef unsigned int* _name
    cdef unsigned int* _depth
    cdef unsigned long long* _vaddr
    cdef unsigned long long* _length

    cdef void _link(self, const unsigned int[::1] depth, const unsigned int[::1] bounds, Py_ssize_t count) noexcept nogil
    cdef Py_ssize_t _enclosing(
        self, const unsigned long long[::1] vaddr, const unsigned long long[::1] length, unsigned int root,
        unsigned int row, unsigned long long start,
    ) noexcept nogil
    cdef void _put(
        self, unsigned int place, unsigned int name, Py_ssize_t level, unsigned long long vaddr, unsigned long long end,
        unsigned long long low, unsigned long long high,
    ) noexcept nogil

cdef unsigned long long _end(unsigned long long vaddr, unsigned long long length) noexcept nogil
