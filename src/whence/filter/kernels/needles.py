"""The lines of a text that hold any of a few needles, in one pass over it.

A needle is a byte string in which `%` begins a class: `%d` decimal digits, `%x` hex digits, `%_` blanks, `%w` anything
but blanks (one or more each, as many as there are), `%~` blanks or nothing, `%$` the end of the line, before which
blanks, a carriage return or an escape sequence may stand, or of a string of JSON. One that begins with `%^` has to
begin where the line does, or behind colours there, or behind what a keeper of logs puts before a line (PREFIXES); with
`%w`, right behind a word; with `%/`, behind one with a slash in it. All others begin with ordinary bytes.

    b"#%d 0x%x  ("      found in   b"    #3 0x562330902f0e  (/lib/x.so+0x1234)"

Each needle is looked for at the rarest byte of its ordinary ones, so that a byte of ordinary text costs one look into a
table. What is read around such a byte is WORD_MAX bytes at most.
"""

import cython
from cython.cimports.libc.string import memcmp
from cython.cimports.whence.kernels.bytes import hex_digit, is_digit
from cython.cimports.whence.kernels.columns import Column

MOST = 64  # one bit each
WORD_MAX = cython.declare(cython.Py_ssize_t, 4096)  # bytes of a word that are looked at

RARITY = b"#{@+<>[]|*=qzjxkvwybgfupmhcd(/)lsnrioate_.-:9876543210 "  # in logs, rarest first; others are rare

# What stands before a line of another program: syslog's and journald's `host app[1]: `, `2026-..Z stderr F ` of
# Kubernetes, `app-1  | ` of Compose, `{"log":"` of Docker. At most PREFIX_MAX bytes with what is before these.
PREFIXES = (b"]: ", b" stderr F ", b" stdout F ", b" | ", b'":"')
PREFIX_MAX = cython.declare(cython.Py_ssize_t, 128)
MOST_PREFIXES = cython.declare(cython.int, 3)  # of one line

# Instructions of a compiled needle; LITERAL is followed by a length and so many bytes.
END = cython.declare(cython.uchar, 0)
LITERAL = cython.declare(cython.uchar, 1)
DIGITS = cython.declare(cython.uchar, 2)
HEX = cython.declare(cython.uchar, 3)
BLANKS = cython.declare(cython.uchar, 4)
WORD = cython.declare(cython.uchar, 5)
LINE_END = cython.declare(cython.uchar, 6)
MAYBE_BLANKS = cython.declare(cython.uchar, 7)
CLASSES = {b"d": DIGITS, b"x": HEX, b"_": BLANKS, b"w": WORD, b"$": LINE_END, b"~": MAYBE_BLANKS}

ANYWHERE = cython.declare(cython.int, 0)  # where a needle has to begin: anywhere,
AT_LINE = cython.declare(cython.int, 1)  # at the start of a line,
BEHIND_PATH = cython.declare(cython.int, 2)  # behind a word with a slash,
BEHIND_WORD = cython.declare(cython.int, 3)  # right behind a word
PLACES = {b"%^": AT_LINE, b"%/": BEHIND_PATH, b"%w": BEHIND_WORD}

TAB = cython.declare(cython.uchar, ord("\t"))
NEWLINE = cython.declare(cython.uchar, ord("\n"))
RETURN = cython.declare(cython.uchar, ord("\r"))
ESCAPE = cython.declare(cython.uchar, ord("\x1b"))
BLANK = cython.declare(cython.uchar, ord(" "))
QUOTE = cython.declare(cython.uchar, ord('"'))
SLASH = cython.declare(cython.uchar, ord("/"))
COLON = cython.declare(cython.uchar, ord(":"))
SEMICOLON = cython.declare(cython.uchar, ord(";"))
BRACKET = cython.declare(cython.uchar, ord("["))
BACKSLASH = cython.declare(cython.uchar, ord("\\"))
CLOSING_BRACKET = cython.declare(cython.uchar, ord("]"))
LETTER_M = cython.declare(cython.uchar, ord("m"))
BAR = cython.declare(cython.uchar, ord("|"))

NO_NEEDLE = cython.declare(cython.short, 0)  # of a byte that no needle is looked for at
LINE_BREAK = cython.declare(cython.short, -1)


def anchor_of(literal: bytes) -> int:
    """Where a literal's rarest byte is."""
    return min(range(len(literal)), key=lambda index: RARITY.find(literal[index]))


def parts_of(needle: bytes) -> list[tuple[bytes, int]]:
    """A needle's literals (with LITERAL) and classes (without text). ValueError for one that is none."""
    parts: list[tuple[bytes, int]] = []
    while needle:
        at = needle.find(b"%")
        literal = needle[:at] if at >= 0 else needle
        if literal:
            parts.append((literal, LITERAL))
        needle = needle[len(literal) :]
        if needle:
            if needle[1:2] not in CLASSES:
                raise ValueError(f"{needle[:2]!r} is no class of bytes")
            parts.append((b"", CLASSES[needle[1:2]]))
            needle = needle[2:]
    return parts


def compiled(text: bytes, instruction: int) -> bytes:
    """A part of a needle as the kernel reads it."""
    return bytes((instruction, len(text))) + text if instruction == LITERAL else bytes((instruction,))


# What is known of a line: where it begins; where it may begin behind prefixes (`prefixes` of them, -1: not looked for
# yet); up to where its words were read, and whether a slash is in the last one; and where the leading class of the last
# group of needles ended (-1: it was not there), whose literal is at `begin`.
Words = cython.struct(
    line=cython.Py_ssize_t,
    prefixes=cython.int,
    behind_prefix=cython.Py_ssize_t[3],
    seen=cython.Py_ssize_t,
    path=cython.bint,
    group=cython.int,
    begin=cython.Py_ssize_t,
    behind=cython.Py_ssize_t,
)


@cython.final
@cython.cclass
class Needles:
    """Up to 64 needles. ValueError for what is none, and for one without ordinary bytes where it has to have them."""

    texts: tuple
    programs: list
    size: cython.Py_ssize_t[64]  # of the literal that is looked for
    anchor: cython.Py_ssize_t[64]
    place: cython.int[64]
    text: cython.p_const_uchar[64]
    leading: cython.int[64]  # the class behind the literal; END for none
    group: cython.int[64]  # the first needle with the same literal and class behind it
    program: cython.p_const_uchar[64]  # what follows these; of AT_LINE, all of the needle
    following: cython.int[64]  # the next needle with the same anchor byte; -1 at the end
    first: cython.short[256]  # by byte: NO_NEEDLE, LINE_BREAK, or 1 + the first needle anchored there

    def __cinit__(self, needles: tuple):
        index: cython.int
        byte: cython.int
        if len(needles) > MOST:
            raise ValueError(f"up to {MOST} needles are looked for")
        texts = []
        groups: dict = {}
        self.programs = []
        for byte in range(256):
            self.first[byte] = NO_NEEDLE
        self.first[NEWLINE] = LINE_BREAK
        for index in range(len(needles)):
            needle: bytes = needles[index]
            self.place[index] = PLACES.get(needle[:2], ANYWHERE)
            parts = parts_of(needle if self.place[index] == ANYWHERE else needle[2:])
            literals = [text for text, instruction in parts if instruction == LITERAL]
            at_line: cython.bint = self.place[index] == AT_LINE
            if not literals or b"\n" in needle or len(needle) > 255 or not (at_line or parts[0][0]):
                raise ValueError(f"{needle!r} is no needle: up to 255 bytes, with ordinary ones, without a newline")
            literal: bytes = literals[0]
            if at_line:
                literal = min(literals, key=lambda text: RARITY.find(text[anchor_of(text)]))
            else:
                parts = parts[1:]
            leading: cython.int = END
            if not at_line and parts and parts[0][1] in (DIGITS, HEX, BLANKS, WORD):
                leading = parts[0][1]
                parts = parts[1:]
            self.leading[index] = leading
            self.group[index] = groups.setdefault((literal, leading), index)
            program: bytes = b"".join(compiled(text, instruction) for text, instruction in parts) + compiled(b"", END)
            self.programs.append(program)
            texts.append(literal)
            self.program[index] = program
            self.text[index] = literal
            self.size[index] = len(literal)
            self.anchor[index] = anchor_of(literal)
            byte = literal[self.anchor[index]]
            self.following[index] = self.first[byte] - 1
            self.first[byte] = index + 1
        self.texts = tuple(texts)

    def lines(self, text: bytes, wanted: cython.ulonglong = 0xFFFFFFFFFFFFFFFF) -> Column:
        """The lines with a needle, in order: three numbers each: their start, their end (without newline), and a bit
        for each needle that is in them. Only needles whose bits are in `wanted` are looked for. MemoryError."""
        out: Column = Column("Q")
        data: cython.p_const_uchar = text
        size: cython.Py_ssize_t = len(text)
        done: cython.bint
        with cython.nogil:
            done = self.scan(data, size, wanted, out)
        if not done:
            raise MemoryError
        return out

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def scan(
        self, data: cython.p_const_uchar, size: cython.Py_ssize_t, wanted: cython.ulonglong, out: Column
    ) -> cython.bint:
        offset: cython.Py_ssize_t
        begin: cython.Py_ssize_t
        line: cython.Py_ssize_t = 0
        needle: cython.int
        bit: cython.ulonglong
        bits: cython.ulonglong = 0
        tried: cython.ulonglong = 0  # those that begin at the line's start and are not there
        words: Words
        words.line = words.seen = words.begin = 0
        words.path = False
        words.group = words.behind = words.prefixes = -1
        for offset in range(size):
            needle = self.first[data[offset]]
            if needle == NO_NEEDLE:
                continue
            if needle == LINE_BREAK:
                if bits and not (out.push_u64(line) and out.push_u64(offset) and out.push_u64(bits)):
                    return False
                bits = tried = 0
                words.line = words.seen = line = offset + 1
                words.path = False
                words.prefixes = -1
                continue
            needle -= 1
            while needle >= 0:
                begin = offset - self.anchor[needle]
                bit = cython.cast(cython.ulonglong, 1) << needle
                if (
                    wanted & ~(bits | tried) & bit
                    and begin >= line
                    and begin + self.size[needle] <= size
                    and memcmp(data + begin, self.text[needle], self.size[needle]) == 0
                ):
                    if self.fits(data, size, begin, needle, cython.address(words)):
                        bits |= bit
                    elif self.place[needle] == AT_LINE:
                        tried |= bit
                needle = self.following[needle]
        return not bits or (out.push_u64(line) and out.push_u64(size) and out.push_u64(bits))

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def fits(
        self,
        data: cython.p_const_uchar,
        size: cython.Py_ssize_t,
        begin: cython.Py_ssize_t,
        needle: cython.int,
        words: cython.pointer(Words),
    ) -> cython.bint:
        """Whether the rest of a needle is around its literal at `begin`."""
        place: cython.int = self.place[needle]
        if place == AT_LINE:
            return begins(data, size, self.program[needle], words)
        if place == BEHIND_PATH and not path_ends(data, begin, words):
            return False
        if place == BEHIND_WORD and (begin == words.line or data[begin - 1] == BLANK or data[begin - 1] == TAB):
            return False
        if words.group != self.group[needle] or words.begin != begin:
            words.group = self.group[needle]
            words.begin = begin
            words.behind = run_end(data, size, begin + self.size[needle], self.leading[needle])
        return words.behind >= 0 and follows(data, size, words.behind, self.program[needle])


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def path_ends(data: cython.p_const_uchar, at: cython.Py_ssize_t, words: cython.pointer(Words)) -> cython.bint:
    """Whether the word that ends at `at` has a slash. What was read of the line for the question before is not read
    again."""
    seen: cython.Py_ssize_t = words.seen
    path: cython.bint = words.path
    while seen < at:
        if data[seen] == SLASH:
            path = True
        elif data[seen] == BLANK or data[seen] == TAB:
            path = False
        seen += 1
    words.seen = seen
    words.path = path
    return path


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def begins(
    data: cython.p_const_uchar, size: cython.Py_ssize_t, program: cython.p_const_uchar, words: cython.pointer(Words)
) -> cython.bint:
    """Whether a compiled needle is at the start of a line, or behind one of its prefixes."""
    at: cython.int
    if follows(data, size, behind_escapes(data, size, words.line), program):
        return True
    if words.prefixes < 0:
        find_prefixes(data, size, words)
    for at in range(words.prefixes):
        if follows(data, size, behind_escapes(data, size, words.behind_prefix[at]), program):
            return True
    return False


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def find_prefixes(data: cython.p_const_uchar, size: cython.Py_ssize_t, words: cython.pointer(Words)) -> cython.void:
    at: cython.Py_ssize_t = words.line
    end: cython.Py_ssize_t = min(size, words.line + PREFIX_MAX)
    words.prefixes = 0
    while at < end and data[at] != NEWLINE and words.prefixes < MOST_PREFIXES:
        if ends_prefix(data, words.line, at):
            words.behind_prefix[words.prefixes] = at + 1
            words.prefixes += 1
        at += 1


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def ends_prefix(data: cython.p_const_uchar, line: cython.Py_ssize_t, at: cython.Py_ssize_t) -> cython.bint:
    """Whether the byte at `at` is the last of one of PREFIXES."""
    before: cython.Py_ssize_t = at - line
    if data[at] == QUOTE:
        return before >= 2 and data[at - 1] == COLON and data[at - 2] == QUOTE
    if data[at] != BLANK or before < 2:
        return False
    if data[at - 1] == COLON:
        return data[at - 2] == CLOSING_BRACKET
    if data[at - 1] == BAR:
        return data[at - 2] == BLANK
    return before >= 9 and (
        memcmp(data + at - 9, cython.cast(cython.p_const_uchar, b" stderr F "), 10) == 0
        or memcmp(data + at - 9, cython.cast(cython.p_const_uchar, b" stdout F "), 10) == 0
    )


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def behind_escapes(data: cython.p_const_uchar, size: cython.Py_ssize_t, at: cython.Py_ssize_t) -> cython.Py_ssize_t:
    """Where the colours (ESC [ numbers m) end that a line begins with."""
    end: cython.Py_ssize_t
    while at + 1 < size and data[at] == ESCAPE and data[at + 1] == BRACKET:
        end = at + 2
        while end < size and (is_digit(data[end]) or data[end] == SEMICOLON):
            end += 1
        if end == size or data[end] != LETTER_M:
            break
        at = end + 1
    return at


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def run_end(
    data: cython.p_const_uchar, size: cython.Py_ssize_t, start: cython.Py_ssize_t, instruction: cython.int
) -> cython.Py_ssize_t:
    """Where the bytes of a class end that begin at `start`: -1 without any, `start` for no class."""
    at: cython.Py_ssize_t = start
    end: cython.Py_ssize_t = min(size, start + WORD_MAX)
    byte: cython.uchar
    if instruction == END:
        return start
    while at < end:
        byte = data[at]
        if instruction == DIGITS:
            if not is_digit(byte):
                break
        elif instruction == HEX:
            if not hex_digit(byte) >= 0:
                break
        elif instruction == BLANKS:
            if byte != BLANK and byte != TAB:
                break
        elif byte == BLANK or byte == TAB or byte == NEWLINE or byte == RETURN:
            break
        at += 1
    return at if at > start else -1


@cython.cfunc
@cython.nogil
@cython.exceptval(check=False)
def follows(
    data: cython.p_const_uchar, size: cython.Py_ssize_t, at: cython.Py_ssize_t, program: cython.p_const_uchar
) -> cython.bint:
    """Whether a compiled needle is what the text has from `at` on."""
    start: cython.Py_ssize_t
    instruction: cython.uchar
    while True:
        instruction = program[0]
        program += 1
        start = at
        if instruction == END:
            return True
        if instruction == LITERAL:
            at += program[0]
            if at > size or memcmp(data + start, program + 1, program[0]) != 0:
                return False
            program += 1 + program[0]
            continue
        if instruction == LINE_END:
            while at < size and data[at] == BLANK:
                at += 1
            return at == size or data[at] in (NEWLINE, RETURN, ESCAPE, QUOTE, BACKSLASH)
        if instruction == MAYBE_BLANKS:
            at = max(at, run_end(data, size, at, BLANKS))
            continue
        at = run_end(data, size, at, instruction)
        if at < 0:
            return False
