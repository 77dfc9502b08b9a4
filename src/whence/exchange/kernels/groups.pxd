# The columns of Scopes and Rows that kernels read functions into, a group for each function.

from whence.kernels.columns cimport Column

cdef class FunctionGroups:
    cdef readonly Column vaddr  # of scopes: functions and inlined calls
    cdef readonly Column end
    cdef readonly Column depth
    cdef readonly Column name
    cdef readonly Column call_file
    cdef readonly Column call_line
    cdef readonly Column scope_ends
    cdef readonly Column row_vaddr
    cdef readonly Column row_file
    cdef readonly Column row_line
    cdef readonly Column row_ends
    cdef readonly Py_ssize_t damaged
    cdef readonly Py_ssize_t first_damaged  # offset in the file; -1 for none
    cdef bint _failed  # memory ran out

    cdef bint put_scope(
        self, unsigned long long vaddr, unsigned long long end, unsigned int depth, unsigned long long name,
        unsigned int file, unsigned int line
    ) noexcept nogil
    cdef bint put_row(self, unsigned long long vaddr, unsigned int file, unsigned int line) noexcept nogil
    cdef void end_group(self) noexcept nogil
    cdef void note_damage(self, Py_ssize_t offset) noexcept nogil
