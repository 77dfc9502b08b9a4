# Declarations of render.py.

from whence.kernels.columns cimport Column
from whence.kernels.vector cimport Bytes
from whence.lidia.kernels.queries cimport Archive, FrameColumns, ObjectCache, Queries, Texts, View

cdef struct Answers:  # the columns of queries, frames and texts, as the writers read them
    Py_ssize_t queries
    unsigned char* text
    unsigned long long* vaddr
    unsigned char* bad
    unsigned int* text_start
    unsigned int* text_size
    unsigned int* starts
    unsigned long long* function_at
    unsigned long long* file_at
    unsigned int* line
    unsigned int* column  # NULL in archives without columns
    unsigned char* inlined
    unsigned char* source
    unsigned int* function
    unsigned int* file
    unsigned long long* start
    unsigned int* size
    View* view
    unsigned char* readable

cdef class FrameWriter:
    cdef Bytes _out
    cdef bint _failed
    cdef tuple _sources  # bytes of each source's name
    cdef bytes _no_frames
    cdef bytes _no_address

    cdef bint _need(self, Py_ssize_t more) noexcept nogil
    cdef void _put(self, const char* text, Py_ssize_t size) noexcept nogil
    cdef void _literal(self, const char* text) noexcept nogil
    cdef void _decimal(self, unsigned long long value) noexcept nogil
    cdef void _hex(self, unsigned long long value, int width) noexcept nogil
    cdef void _quoted(self, const unsigned char* text, Py_ssize_t size) noexcept nogil
    cdef void _escape(self, char letter, int code, int digits) noexcept nogil
    cdef void _plain(self, const unsigned char* text, Py_ssize_t size) noexcept nogil
    cdef void _name(self, Answers* answers, unsigned int text) noexcept nogil
    cdef void _function_and_file(self, Answers* answers, Py_ssize_t frame) noexcept nogil
    cdef void _frame(self, Answers* answers, Py_ssize_t frame, char* source) noexcept nogil
    cdef _check(self)

cdef class Replies:
    cdef Archive _archive
    cdef FrameWriter _writer
    cdef bytes _module
    cdef bint _bare  # the name needs no quotes
    cdef const unsigned long long[::1] _symbol_starts
    cdef Column _symbol_ends
    cdef object _symbol_at
    cdef object _readable
    cdef bytes _gap
    cdef bytes _between
    cdef int _dwarf
    cdef ObjectCache _names  # of functions, by offset
    cdef ObjectCache _symbols  # by index
    cdef Py_ssize_t _cached  # bytes of names in both caches

    cdef _forget(self)
    cdef int _cache(self, ObjectCache cache, unsigned long long key, object value, Py_ssize_t size) except -1
    cdef unsigned long long _address(self, unsigned char* text, Py_ssize_t left) noexcept
    cdef _symbol(self, unsigned long long vaddr)
    cdef _function(self, unsigned long long offset)
    cdef bint _file(self, unsigned long long offset, bytes instead) noexcept
    cdef _put_name(self, bytes name)
    cdef _finish(self)

cdef Answers answers_of(Queries queries, FrameColumns frames, Texts texts)
cdef char hex_digit(int value) noexcept nogil
cdef const unsigned char* text_at(Answers* answers, unsigned int text) noexcept nogil
cdef int _active(const unsigned char* text, Py_ssize_t left, int* step) noexcept nogil
