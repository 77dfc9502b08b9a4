# The names of functions by their ids.

from whence.kernels.columns cimport Column

cdef struct Text:  # bytes of a record; NULL: none
    const unsigned char* data
    Py_ssize_t size

cdef class TypeRecords:
    cdef const unsigned char[::1] data
    cdef unsigned int[::1] offsets
    cdef unsigned int first
    cdef readonly Py_ssize_t count

    cdef const unsigned char* record(self, unsigned int index, Py_ssize_t* size) noexcept nogil

cdef class FunctionNames:
    cdef readonly Column text  # bytes: the names, each with a NUL at the end
    cdef readonly Py_ssize_t unscoped  # names without their scope, since the budget was spent
    cdef TypeRecords types, ids
    cdef unsigned long long base
    cdef unsigned int* known  # by id: the offset in the text plus 1; 0: not written yet
    cdef Py_ssize_t budget
    cdef bint short

    cdef Text class_name(self, unsigned int type) noexcept nogil
    cdef Text string_of(self, unsigned int id) noexcept nogil
    cdef unsigned long long name_of(self, unsigned int id) noexcept nogil
    cdef unsigned long long add(self, Text scope, Text name) noexcept nogil

cdef Text text_at(const unsigned char* data, Py_ssize_t offset, Py_ssize_t size) noexcept nogil
cdef Text without_scope(Text name) noexcept nogil
