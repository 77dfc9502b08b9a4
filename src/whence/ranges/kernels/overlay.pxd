# The state of overlay.py: open scopes, and the columns of ranges and line rows.

cdef class Sweep:
    cdef Py_ssize_t ranges
    cdef Py_ssize_t lines
    cdef Py_ssize_t _scopes  # of the last run
    cdef Py_ssize_t _most_scopes  # reserved
    cdef Py_ssize_t _most_rows
    cdef Py_ssize_t _most_groups
    cdef Py_ssize_t _heap_size
    cdef Py_ssize_t _open
    cdef Py_ssize_t _budget
    cdef unsigned int* _parent
    cdef unsigned int* _level
    cdef unsigned int* _root
    cdef unsigned int* _heap
    cdef unsigned int* _path
    cdef unsigned int* _stack_range
    cdef unsigned int* _stack_scope
    cdef unsigned long long* _vaddr
    cdef unsigned long long* _end
    cdef unsigned long long* _file
    cdef unsigned int* _depth
    cdef unsigned int* _scope
    cdef unsigned int* _first
    cdef unsigned int* _last
    cdef unsigned int* _count
    cdef unsigned int* _line
    cdef unsigned int* _offset
    cdef unsigned int* _number
    cdef unsigned int* _next
    cdef unsigned long long* _u64s  # the two blocks of all columns above
    cdef unsigned int* _u32s

    cdef bint _reserve(self, Py_ssize_t scopes, Py_ssize_t rows, Py_ssize_t groups) noexcept nogil
    cdef void _plant(self, const unsigned int* depth, Py_ssize_t first, Py_ssize_t last) noexcept nogil
    cdef void _begin(self, unsigned int scope, Py_ssize_t level, unsigned long long vaddr) noexcept nogil
    cdef void _close(self, Py_ssize_t keep, unsigned long long vaddr) noexcept nogil
    cdef void _enter(self, unsigned int owner, unsigned long long vaddr) noexcept nogil
    cdef void _own(self, unsigned long long vaddr, unsigned long long file, unsigned int line) noexcept nogil
    cdef bint _joined(self, unsigned int left, unsigned int right) noexcept nogil

cdef bint are_of_groups(const unsigned int[::1] order, const unsigned int[::1] ends) noexcept nogil
