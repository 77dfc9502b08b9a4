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

RARITY = b"#{@+<>[]|*=qzjxkvwybgfupmhcd(/)lsnrioate_.-:9876543210 "  # in logs, rarest first; others are rare

# What stands before a line of another program: syslog's and journald's `host app[1]: `, `2026-..Z stderr F ` of
# Kubernetes, `app-1  | ` of Compose, `{"log":"` of Docker. At most PREFIX_MAX bytes with what is before these.
PREFIXES = (b"]: ", b" stderr F ", b" stdout F ", b" | ", b'":"')

CLASSES = {b"d": DIGITS, b"x": HEX, b"_": BLANKS, b"w": WORD, b"$": LINE_END, b"~": MAYBE_BLANKS}

EVERY_BYTE = bytes(range(256))
DIGIT_BYTES = b"0123456789"
FOLLOWERS = {b"%d": DIGIT_BYTES, b"%x": DIGIT_BYTES + b"abcdefABCDEF", b"%_": b" \t"}  # other classes: any byte

PLACES = {b"%^": AT_LINE, b"%/": BEHIND_PATH, b"%w": BEHIND_WORD}


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


def followers(needle: bytes, literal: bytes) -> bytes:
    """The bytes that may stand behind the anchor of a needle's literal."""
    behind = anchor_of(literal) + 1
    return first_bytes(literal[behind:] + needle[needle.index(literal) + len(literal) :])


def first_bytes(needle: bytes) -> bytes:
    """The bytes that a needle, or what is left of one, may begin with."""
    if needle[:2] == b"%~":
        return FOLLOWERS[b"%_"] + first_bytes(needle[2:])
    return FOLLOWERS.get(needle[:2], EVERY_BYTE) if needle[:1] in (b"%", b"") else needle[:1]


def compiled(text: bytes, instruction: int) -> bytes:
    """A part of a needle as the kernel reads it."""
    return bytes((instruction, len(text))) + text if instruction == LITERAL else bytes((instruction,))


# What is known of a line: where it begins; where it may begin behind prefixes (`prefixes` of them, -1: not looked for
# yet); up to where its words were read, and whether a slash is in the last one. And of the needles whose literal was
# found, one after the other: how many parts of the last one are there, where each ends (`ends[0]`: the literal), and
# whether the next part is not there (or was not looked at).
Words = cython.struct(
    line=cython.Py_ssize_t,
    prefixes=cython.int,
    behind_prefix=cython.Py_ssize_t[3],
    seen=cython.Py_ssize_t,
    path=cython.bint,
    parts=cython.int,
    failed=cython.bint,
    ends=cython.Py_ssize_t[16],
)


@cython.final
@cython.cclass
class Needles:
    """Up to 64 needles. ValueError for what is none, and for one without ordinary bytes where it has to have them.

    Needles with the same literal to look for stand one behind the other, sorted, so that what two have in common is
    looked at once.
    """

    texts: tuple
    programs: list
    size: cython.Py_ssize_t[64]  # of the literal that is looked for
    anchor: cython.Py_ssize_t[64]
    place: cython.int[64]
    text: cython.p_const_uchar[64]
    program: cython.p_const_uchar[64]  # what follows the literal; of AT_LINE, all of the needle
    step: cython.uchar[1024]  # 16 for each needle: where its parts begin in the program
    root: cython.bint[64]  # whether the needle before it has another literal
    shared: cython.int[64]  # how many parts it begins with as the needle before it
    following: cython.int[64]  # the next needle with the same anchor byte; -1 at the end, as the next
    other: cython.int[64]  # of a root, the next root
    first: cython.short[256]  # by byte: NO_NEEDLE, LINE_BREAK, or 1 + the first needle anchored there
    behind: cython.uchar[65536]  # by an anchor byte and the byte behind it: whether any needle has both
    kinds: cython.uchar[256]  # by byte: a bit for each class it is in

    def __cinit__(self, needles: tuple):
        if len(needles) > MOST:
            raise ValueError(f"up to {MOST} needles are looked for")
        chains: dict = {}
        texts: list = []
        self.programs = []
        index: cython.int
        for index in range(len(needles)):
            needle: bytes = needles[index]
            self.place[index] = PLACES.get(needle[:2], ANYWHERE)
            literal, parts = self.take(index, needle if self.place[index] == ANYWHERE else needle[2:])
            texts.append(literal)
            byte: cython.int = literal[anchor_of(literal)]
            chains.setdefault(byte, []).append((self.place[index] == AT_LINE, literal, parts, index))
            for follower in followers(needle, literal):
                self.behind[byte << 8 | follower] = 1
        self.texts = tuple(texts)
        self.first[NEWLINE] = LINE_BREAK
        for anchored in chains:
            self.chain(anchored, sorted(chains[anchored]))
        for byte in range(256):
            self.kinds[byte] = classes_of(byte)

    @cython.cfunc
    def take(self, index: cython.int, needle: bytes) -> tuple:
        """Keep what a needle is; returns the literal to look for and the parts behind it, compiled."""
        parts = parts_of(needle)
        literals = [text for text, instruction in parts if instruction == LITERAL]
        at_line: cython.bint = self.place[index] == AT_LINE
        if (
            not literals
            or b"\n" in needle
            or len(needle) > 255
            or not (at_line or parts[0][0])
            or len(parts) > MOST_PARTS
        ):
            raise ValueError(
                f"{needle!r} is no needle: up to 255 bytes in {MOST_PARTS} parts, with ordinary ones, without a newline"
            )
        literal: bytes = literals[0]
        if at_line:
            literal = min(literals, key=lambda text: RARITY.find(text[anchor_of(text)]))
        else:
            parts = parts[1:]
        steps = [compiled(text, instruction) for text, instruction in parts]
        program: bytes = b"".join(steps) + compiled(b"", END)
        self.programs.append(program)
        self.program[index] = program
        self.text[index] = literal
        self.size[index] = len(literal)
        self.anchor[index] = anchor_of(literal)
        at: cython.int = 0
        number: cython.int
        for number in range(len(steps)):
            self.step[16 * index + number] = at
            at += len(steps[number])
        self.step[16 * index + len(steps)] = at
        return literal, steps

    @cython.cfunc
    def chain(self, byte: cython.int, needles: list) -> object:
        """Let the needles of an anchor byte follow one another."""
        before: tuple = (False, b"", [], 0)
        index: cython.int
        previous: cython.int = -1
        root: cython.int = -1
        for one in needles:
            at_line, literal, parts, index = one
            self.root[index] = at_line or literal != before[1] or previous < 0
            common = 0
            for mine, other in zip(parts, before[2], strict=False):
                if mine != other:
                    break
                common += 1
            self.shared[index] = 0 if self.root[index] else common
            if previous < 0:
                self.first[byte] = index + 1
            else:
                self.following[previous] = index
            if self.root[index]:
                if root >= 0:
                    self.other[root] = index
                root = index
            self.following[index] = self.other[index] = -1
            previous = index
            before = one
        return None

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
        offset: cython.Py_ssize_t = -1
        begin: cython.Py_ssize_t = 0
        needle: cython.int
        bit: cython.ulonglong
        bits: cython.ulonglong = 0
        tried: cython.ulonglong = 0  # those that begin at the line's start and are not there
        words: Words
        words.line = words.seen = 0
        words.path = False
        words.prefixes = -1
        while True:
            offset += 1
            while offset < size and self.first[data[offset]] == NO_NEEDLE:
                offset += 1
            if offset >= size:
                break
            needle = self.first[data[offset]]
            if needle == LINE_BREAK:
                if bits and not (out.push_u64(words.line) and out.push_u64(offset) and out.push_u64(bits)):
                    return False
                bits = tried = 0
                words.line = words.seen = offset + 1
                words.path = False
                words.prefixes = -1
                continue
            if offset + 1 < size and not self.behind[data[offset] << 8 | data[offset + 1]]:
                continue
            needle -= 1
            while needle >= 0:
                if self.root[needle]:
                    begin = offset - self.anchor[needle]
                    if not self.has_literal(data, size, begin, needle, words.line):
                        needle = self.other[needle]
                        continue
                    words.parts = 0
                    words.failed = False
                    words.ends[0] = begin + self.size[needle]
                bit = cython.cast(cython.ulonglong, 1) << needle
                if not wanted & ~(bits | tried) & bit or not self.placed(data, begin, needle, cython.address(words)):
                    self.pass_by(needle, cython.address(words))
                elif self.place[needle] == AT_LINE:
                    if self.begins(data, size, self.program[needle], cython.address(words)):
                        bits |= bit
                    else:
                        tried |= bit
                elif self.goes_on(data, size, needle, cython.address(words)):
                    bits |= bit
                needle = self.following[needle]
        return not bits or (out.push_u64(words.line) and out.push_u64(size) and out.push_u64(bits))

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def has_literal(
        self,
        data: cython.p_const_uchar,
        size: cython.Py_ssize_t,
        begin: cython.Py_ssize_t,
        needle: cython.int,
        line: cython.Py_ssize_t,
    ) -> cython.bint:
        """Whether the literal that a needle is looked for by is at `begin`, in the line."""
        text: cython.p_const_uchar = self.text[needle]
        length: cython.Py_ssize_t = self.size[needle]
        if begin < line or begin + length > size or data[begin] != text[0]:
            return False
        return length == 1 or memcmp(data + begin + 1, text + 1, length - 1) == 0

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def placed(
        self,
        data: cython.p_const_uchar,
        begin: cython.Py_ssize_t,
        needle: cython.int,
        words: cython.pointer(Words),
    ) -> cython.bint:
        """Whether what has to be before a needle is."""
        place: cython.int = self.place[needle]
        if place == BEHIND_PATH:
            return path_ends(data, begin, words)
        if place == BEHIND_WORD:
            return begin > words.line and data[begin - 1] != BLANK and data[begin - 1] != TAB
        return True

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def pass_by(self, needle: cython.int, words: cython.pointer(Words)) -> cython.void:
        """Of the parts of the needle before, only those that this one has, too, count for the next."""
        if words.parts >= self.shared[needle]:
            words.parts = self.shared[needle]
            words.failed = False

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def goes_on(
        self,
        data: cython.p_const_uchar,
        size: cython.Py_ssize_t,
        needle: cython.int,
        words: cython.pointer(Words),
    ) -> cython.bint:
        """Whether the parts of a needle follow its literal; those that the needle before has, too, are known."""
        at: cython.Py_ssize_t
        program: cython.p_const_uchar = self.program[needle]
        self.pass_by(needle, words)
        if words.failed:
            return False
        while program[self.step[16 * needle + words.parts]] != END:
            at = self.part_end(data, size, words.ends[words.parts], program + self.step[16 * needle + words.parts])
            if at < 0:
                words.failed = True
                return False
            words.parts += 1
            words.ends[words.parts] = at
        return True

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def begins(
        self,
        data: cython.p_const_uchar,
        size: cython.Py_ssize_t,
        program: cython.p_const_uchar,
        words: cython.pointer(Words),
    ) -> cython.bint:
        """Whether a needle is at the start of a line, or behind one of its prefixes."""
        at: cython.int
        if self.follows(data, size, behind_escapes(data, size, words.line), program):
            return True
        if words.prefixes < 0:
            find_prefixes(data, size, words)
        for at in range(words.prefixes):
            if self.follows(data, size, behind_escapes(data, size, words.behind_prefix[at]), program):
                return True
        return False

    @cython.cfunc
    @cython.nogil
    @cython.exceptval(check=False)
    def follows(
        self,
        data: cython.p_const_uchar,
        size: cython.Py_ssize_t,
        at: cython.Py_ssize_t,
        program: cython.p_const_uchar,
    ) -> cython.bint:
        """Whether all parts of a needle are what the text has from `at` on."""
        while program[0] != END:
            at = self.part_end(data, size, at, program)
            if at < 0:
                return False
            program += 2 + program[1] if program[0] == LITERAL else 1
        return True

    @cython.cfunc
    @cython.nogil
    @cython.inline
    @cython.exceptval(check=False)
    def part_end(
        self,
        data: cython.p_const_uchar,
        size: cython.Py_ssize_t,
        start: cython.Py_ssize_t,
        part: cython.p_const_uchar,
    ) -> cython.Py_ssize_t:
        """Where a part of a needle ends that the text has at `start`; -1 where it has not."""
        at: cython.Py_ssize_t = start
        end: cython.Py_ssize_t
        kind: cython.uchar
        if part[0] == LITERAL:
            end = start + part[1]
            return end if end <= size and memcmp(data + start, part + 2, part[1]) == 0 else -1
        if part[0] == LINE_END:
            while at < size and data[at] == BLANK:
                at += 1
            return start if at == size or data[at] in (NEWLINE, RETURN, ESCAPE, QUOTE, BACKSLASH) else -1
        kind = kind_of(part[0])
        end = min(size, start + WORD_MAX)
        while at < end and self.kinds[data[at]] & kind:
            at += 1
        return at if at > start or part[0] == MAYBE_BLANKS else -1


@cython.cfunc
@cython.nogil
@cython.inline
@cython.exceptval(check=False)
def kind_of(instruction: cython.uchar) -> cython.uchar:
    """The bit of a class of bytes."""
    return 1 << (BLANKS if instruction == MAYBE_BLANKS else instruction)


@cython.cfunc
@cython.exceptval(check=False)
def classes_of(byte: cython.uchar) -> cython.uchar:
    """A bit for each class that a byte is in."""
    blank: cython.bint = byte == BLANK or byte == TAB
    kinds: cython.uchar = 0
    if is_digit(byte):
        kinds |= kind_of(DIGITS)
    if hex_digit(byte) >= 0:
        kinds |= kind_of(HEX)
    if blank:
        kinds |= kind_of(BLANKS)
    if not blank and byte != NEWLINE and byte != RETURN:
        kinds |= kind_of(WORD)
    return kinds


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
def find_prefixes(data: cython.p_const_uchar, size: cython.Py_ssize_t, words: cython.pointer(Words)) -> cython.void:
    at: cython.Py_ssize_t = words.line
    end: cython.Py_ssize_t = min(size, words.line + PREFIX_MAX)
    words.prefixes = 0
    if at < end and (data[at] == BLANK or data[at] == TAB or data[at] == ESCAPE):
        return  # no prefix begins so
    while at < end and words.prefixes < MOST_PREFIXES:
        if data[at] <= QUOTE:  # as the last byte of each, and few others
            if data[at] == NEWLINE:
                break
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
