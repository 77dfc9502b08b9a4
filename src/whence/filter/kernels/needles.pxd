# Declarations of needles.py.

from whence.kernels.columns cimport Column

cdef enum:
    MOST = 128  # needles
    MOST_BITS = 64
    MOST_PARTS = 15  # of a needle: literals and classes
    WORD_MAX = 4096  # bytes of a class that are read
    PREFIX_MAX = 128  # bytes of a line that are searched for prefixes
    MOST_PREFIXES = 3  # of a line

cdef enum:  # instructions of a compiled needle; LITERAL is followed by a length and the bytes
    END = 0
    LITERAL = 1
    DIGITS = 2
    HEX = 3
    BLANKS = 4
    WORD = 5
    LINE_END = 6
    MAYBE_BLANKS = 7

cdef enum:  # where a needle must start
    ANYWHERE = 0
    AT_LINE = 1  # at the start of a line
    AFTER_PATH = 2  # after a word with a slash
    AFTER_WORD = 3  # directly after a word

cdef enum:  # entries of `first` that are not needles
    NO_NEEDLE = 0
    LINE_BREAK = -1

cdef enum:  # of ASCII
    TAB = 0x09
    NEWLINE = 0x0A
    RETURN = 0x0D
    ESCAPE = 0x1B
    BLANK = 0x20
    QUOTE = 0x22
    SLASH = 0x2F
    COLON = 0x3A
    SEMICOLON = 0x3B
    BRACKET = 0x5B
    BACKSLASH = 0x5C
    CLOSING_BRACKET = 0x5D
    LETTER_M = 0x6D
    BAR = 0x7C

# The state of a line: its start; the offsets after prefixes (`prefixes` of them, -1: not searched yet); the end of the
# text read by `path_ends`, and True if its last word has a slash. And of the last needle with the current literal: the
# number of parts that were found, the end of each (`ends[0]`: the literal), and True if the next part was not found.
cdef struct LineState:
    Py_ssize_t line
    int prefixes
    Py_ssize_t after_prefix[3]
    Py_ssize_t seen
    bint path
    int parts
    bint failed
    Py_ssize_t ends[16]

cdef class Needles:
    cdef Py_ssize_t size[128]  # of the literal that is searched for
    cdef Py_ssize_t anchor[128]
    cdef int position[128]
    cdef int bit[128]  # the number of its bit in the result
    cdef const unsigned char* text[128]
    cdef const unsigned char* program[128]  # the parts after the literal; for AT_LINE, all parts
    cdef unsigned char step[2048]  # 16 for each needle: the offsets of its parts in the program
    cdef bint root[128]  # True if the previous needle has another literal
    cdef int shared[128]  # number of parts that the previous needle starts with, too
    cdef int following[128]  # the next needle with the same anchor byte, -1 at the end
    cdef int other[128]  # of a root, the next root, -1 at the end
    cdef short first[256]  # by byte: NO_NEEDLE, LINE_BREAK, or 1 + the first needle anchored there
    cdef unsigned char pairs[65536]  # by an anchor byte and the next byte: 1 if a needle has both
    cdef unsigned char kinds[256]  # by byte: a bit for each class that has it
    cdef tuple texts
    cdef list programs

    cdef tuple take(self, int index, bytes needle)
    cdef object chain(self, int byte, list needles)
    cdef bint scan(
        self, const unsigned char* data, Py_ssize_t size, unsigned long long active, Column out
    ) noexcept nogil
    cdef bint has_literal(
        self, const unsigned char* data, Py_ssize_t size, Py_ssize_t begin, int needle, Py_ssize_t line
    ) noexcept nogil
    cdef bint is_positioned(
        self, const unsigned char* data, Py_ssize_t begin, int needle, LineState* state
    ) noexcept nogil
    cdef void keep_shared(self, int needle, LineState* state) noexcept nogil
    cdef bint parts_follow(
        self, const unsigned char* data, Py_ssize_t size, int needle, LineState* state
    ) noexcept nogil
    cdef bint starts_line(
        self, const unsigned char* data, Py_ssize_t size, const unsigned char* program, LineState* state
    ) noexcept nogil
    cdef bint matches(
        self, const unsigned char* data, Py_ssize_t size, Py_ssize_t pos, const unsigned char* program
    ) noexcept nogil
    cdef Py_ssize_t part_end(
        self, const unsigned char* data, Py_ssize_t size, Py_ssize_t start, const unsigned char* part
    ) noexcept nogil

cdef unsigned char kind_of(unsigned char instruction) noexcept nogil
cdef unsigned char classes_of(unsigned char byte) noexcept
cdef bint path_ends(const unsigned char* data, Py_ssize_t pos, LineState* state) noexcept nogil
cdef void find_prefixes(const unsigned char* data, Py_ssize_t size, LineState* state) noexcept nogil
cdef bint ends_prefix(const unsigned char* data, Py_ssize_t line, Py_ssize_t pos) noexcept nogil
cdef Py_ssize_t skip_escapes(const unsigned char* data, Py_ssize_t size, Py_ssize_t pos) noexcept nogil
