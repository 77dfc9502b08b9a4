# Declarations of strings.py.

from whence.kernels.columns cimport Column
from whence.kernels.hashtable cimport HashIndex
from whence.kernels.vector cimport Bytes, U32s, U64s

cdef class Interner:
    cdef readonly Py_ssize_t size  # bytes of the table
    cdef readonly Py_ssize_t dropped  # names left out because of the limit
    cdef readonly Column offset
    cdef readonly Column function
    cdef readonly Column file
    cdef readonly Column call_file
    cdef long long _left  # bytes of names that may still be read
    cdef list _views
    cdef bint _nul
    cdef bint _failed
    cdef unsigned long long _seed
    cdef const unsigned char** _source
    cdef unsigned long long* _source_size
    cdef unsigned long long _sources
    cdef Bytes _out
    cdef HashIndex _strings
    cdef HashIndex _refs
    cdef U64s _ref  # known references
    cdef U32s _ref_number

    cdef bint _append(self, const unsigned char* text, unsigned long long size) noexcept nogil
    cdef unsigned long long _offset(self, Py_ssize_t number) noexcept nogil
    cdef unsigned long long _start(self, Py_ssize_t number) noexcept nogil
    cdef unsigned long long _end(self, Py_ssize_t number) noexcept nogil
    cdef bint _same(self, unsigned int number, const unsigned char* text, unsigned long long size) noexcept nogil
    cdef Py_ssize_t _string(
        self, const unsigned char* text, unsigned long long size, unsigned long long hash
    ) noexcept nogil
    cdef long long _size(self, unsigned long long ref) noexcept nogil
    cdef unsigned int _text(self, const unsigned char* text, unsigned long long size) noexcept nogil
    cdef unsigned int _number(self, unsigned long long ref) noexcept nogil
    cdef unsigned int _find_number(self, unsigned long long ref) noexcept nogil
