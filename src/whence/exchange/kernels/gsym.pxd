# The columns that gsym.py reads functions into, and the bytes that it writes them to.

from whence.exchange.kernels.groups cimport FunctionGroups
from whence.kernels.columns cimport Column
from whence.kernels.vector cimport Bytes

cdef enum:
    MOST_DEPTH = 256  # of inlined calls
    MORE_BYTES = 4  # functions may share the bytes of infos so often,
    BYTES_ALLOWANCE = 1 << 20  # plus these

    INFO_END = 0  # types of the items of a function info
    INFO_LINES = 1
    INFO_INLINED = 2

    OP_END = 0  # opcodes of line tables
    OP_SET_FILE = 1
    OP_ADVANCE_PC = 2
    OP_ADVANCE_LINE = 3
    OP_SPECIAL = 4  # the first

    MIN_DELTA = -4  # of lines in special opcodes that are written
    MAX_DELTA = 10

cdef struct GsymSource:
    const unsigned char* data
    unsigned long long size
    bint big
    int name_width
    unsigned long long names_size
    unsigned long long files

cdef class GsymFunctions(FunctionGroups):
    # Names are offsets in the strings, files indexes of the files.
    cdef readonly Py_ssize_t folded  # functions with further names of the same code
    cdef GsymSource _source

    cdef unsigned int _file(self, unsigned long long file) noexcept nogil
    cdef bint _function(self, unsigned long long start, unsigned long long next, unsigned long long info) noexcept nogil
    cdef bint _lines(
        self, unsigned long long start, unsigned long long end, unsigned long long offset, unsigned long long stop
    ) noexcept nogil
    cdef bint _inlined(
        self, unsigned long long start, unsigned long long end, unsigned long long offset, unsigned long long stop
    ) noexcept nogil

cdef class GsymEncoder:
    cdef readonly Column offset  # of each function info
    cdef Bytes _out

    cdef bint _reserve(self, Py_ssize_t more) noexcept nogil
