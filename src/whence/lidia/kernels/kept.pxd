# Objects kept by number, so that making them again is rare.

cdef class Kept:
    cdef unsigned long long *_keys
    cdef list _values
    cdef unsigned long long _mask
    cdef unsigned long long _most
    cdef Py_ssize_t _count

    cdef object get(self, unsigned long long key)
    cdef int put(self, unsigned long long key, object value) except -1
    cdef int _grow(self) except -1
