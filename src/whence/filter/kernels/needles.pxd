# Numbers of needles.py, as C constants.

cdef enum:
    MOST = 64  # needles, one bit each
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
